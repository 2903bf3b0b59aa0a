"""Targets of a regression: whether those of the evaluation are on the scale of those of the training."""

from __future__ import annotations

import math

from lintrain.evidence.run import ColumnEvidence, Evidence, LossEvidence
from lintrain.startup.lazy_dataclass import dataclass

REGRESSIONS = frozenset({"huber_loss", "l1_loss", "mse_loss", "smooth_l1_loss"})
NUMBERS = frozenset({"integer", "number", "lists of integer", "lists of number"})
FEWEST = 16
"""Targets whose range says something."""
FURTHER = 10
"""The distance of an evaluation's targets, in ranges of those of the training, that no sampling explains."""
TOLERANCE = 1e-4
"""Of a range: numbers of a table become single floats on the way to a loss."""

Range = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Scales:
    """A loss of an evaluation: the ranges of its targets and predictions, and of the targets of the training.

    `first` is that of the first batch, `trained` surely has the targets of all rows in it.
    """

    loss: LossEvidence
    targets: Range
    predictions: Range
    first: Range
    trained: Range

    @property
    def differ(self) -> bool:
        """Whether the targets are far from the predictions and from those of the training."""
        distance = _distance(self.targets, self.trained)
        # A script that scales its predictions back compares them with targets that were never scaled.
        is_far = distance >= FURTHER * (self.trained[1] - self.trained[0])
        return is_far and _distance(self.targets, self.predictions) > distance / 2

    @property
    def described(self) -> str:
        """The ranges in words."""
        return (
            f"targets of `{self.loss.function}` are from {_span(self.targets)} in the evaluation, from "
            f"{_span(self.first)} in the first batch; predictions are from {_span(self.predictions)}"
        )


def compared_scales(evidence: Evidence) -> Scales | None:
    """Those of the first loss of an evaluation where they differ, else of the first one; None without any."""
    losses = [loss for loss in evidence.called_losses if loss.function in REGRESSIONS]
    # Of several regressions, which one an evaluation is about is not known.
    first = _targets(losses[0]) if len(losses) == 1 else None
    if first is None or evidence.evaluation is None or evidence.split("train_dataset") is None:
        return None
    trained, found = _range_trained(first, evidence), list[Scales]()
    for loss in evidence.evaluation.called:
        targets, predictions = _targets(loss), _between(loss.input_minimum, loss.input_maximum)
        if loss.function == losses[0].function and targets is not None and predictions is not None:
            found.append(Scales(loss, targets, predictions, first, trained))
    return next((each for each in found if each.differ), found[0] if found else None)


def _range_trained(first: Range, evidence: Evidence) -> Range:
    """The range of all columns that may be the targets; where the loop changes them, that of the first batch."""
    low, high = first
    margin = TOLERANCE * (high - low)
    ranges = [_between(each.minimum, each.maximum) for each in _possible(evidence) if each.kind in NUMBERS]
    around = [each for each in ranges if each is not None and each[0] - margin <= low and high <= each[1] + margin]
    return min((each[0] for each in around), default=low), max((each[1] for each in around), default=high)


def _possible(evidence: Evidence) -> tuple[ColumnEvidence, ...]:
    """The columns of the training data that may be the targets."""
    split = evidence.split("train_dataset")
    if split is None:
        return ()
    # Of a row that is a pair, the second is what the model is to predict.
    own = split.labels or (split.column("1") if split.column_names == {"0", "1"} else None)
    return split.columns if own is None else (own,)


def _targets(loss: LossEvidence) -> Range | None:
    """The range of the targets of a loss; None for a few of them, and for targets that are all the same."""
    found = _between(loss.target_minimum, loss.target_maximum)
    return found if found is not None and found[0] < found[1] and math.prod(loss.target_shape) >= FEWEST else None


def _between(low: float | None, high: float | None) -> Range | None:
    return None if low is None or high is None else (low, high)


def _distance(one: Range, other: Range) -> float:
    """The gap between two ranges; 0 if they meet."""
    return max(one[0] - other[1], other[0] - one[1], 0.0)


def _span(numbers: Range) -> str:
    return f"{numbers[0]:.3g} to {numbers[1]:.3g}"
