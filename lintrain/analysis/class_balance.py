"""Weights of classes, compared with the rows of each class that a run has counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lintrain.evidence.run import Evidence, LossEvidence
from lintrain.model.verdict import Verdict

EVEN = frozenset({"RandomSampler", "SeedableRandomSampler", "SequentialSampler"})
"""Samplers that give each row once, so that the loss gets the classes as often as the data set has them."""
RESAMPLING = frozenset({"get_train_dataloader", "_get_train_sampler"})
"""Methods of a Trainer that may choose rows."""
MORE = 1.5
"""So many times the rows of another class are clearly more."""
SIGMAS = 3
"""Standard deviations by which the numbers of their rows differ, where only some rows were read."""
NEAR = 0.02
"""The relative deviation of weights that were computed from the rows of classes."""
FEWEST_TO_REORDER = 3
"""Of two classes, weights in the other order are weights that grow."""


def weighted_losses(evidence: Evidence) -> tuple[LossEvidence, ...]:
    """The losses of the first batch that got a weight for each class, and one label for each row."""
    return tuple(
        loss
        for loss in evidence.losses_of("binary_cross_entropy_with_logits", "cross_entropy", "nll_loss")
        if loss.class_weights and loss.target_shape and loss.target_shape[1:] in ((), (1,))
    )


def rows_of_classes(evidence: Evidence) -> dict[int, int] | str:
    """How many training rows each class has, or why that is not known."""
    loader = evidence.loop.loader if evidence.loop is not None else None
    if (loader is not None and loader.sampler not in EVEN) or RESAMPLING & set(evidence.overrides):
        return "a sampler of the script's own may balance the classes"
    split = evidence.split("train_dataset")
    labels = split.labels if split is not None else None
    marked = split.column("1") if split is not None and split.column_names == {"0", "1"} else None
    if labels is None and marked is not None and marked.ones and marked.ones < marked.rows_read:
        return {0: marked.rows_read - marked.ones, 1: marked.ones}
    if labels is None or labels.lengths or len(labels.counts) < 2:
        return "the rows of each class are not known"
    return dict(labels.counts)


def meaning_of(weights: Sequence[float], counts: Mapping[int, int]) -> str:
    """What is wrong with weights that were certainly computed from the rows of the classes; "" for any other."""
    if not _fit(weights, counts):
        return ""
    if _is_even([weights[label] / rows for label, rows in counts.items()]) and _pairs(counts):
        return "grow with the rows of a class"
    return "are in another order than the classes" if _are_reordered(weights, counts) else ""


def judge(weights: Sequence[float], counts: Mapping[int, int]) -> Verdict:
    """Whether weights of classes grow with the rows of the classes."""
    pairs = _pairs(counts)
    if not _fit(weights, counts) or not pairs:
        return Verdict.inconclusive(f"{len(counts)} classes have about as many rows each, or no weight")
    growing = sum(weights[many] > weights[few] for many, few in pairs)
    measured = {"growing": growing, "pairs": len(pairs)}
    if growing == len(pairs):
        return Verdict.confirmed(_described(weights, counts, counts), **measured)
    if _are_reordered(weights, counts):
        shares = {label: weights[label] * rows for label, rows in counts.items()}
        return Verdict.confirmed(f"in the wrong order, {_described(weights, counts, shares)}", **measured)
    if not growing:
        return Verdict.refuted(_described(weights, counts, counts), **measured)
    return Verdict.inconclusive(f"of {len(pairs)} pairs of classes the more common one has more weight in {growing}")


def _described(weights: Sequence[float], counts: Mapping[int, int], order: Mapping[int, float]) -> str:
    """The last and the first class of an order, with their rows and weights."""
    last, first = max(order, key=lambda label: order[label]), min(order, key=lambda label: order[label])
    return (
        f"class {last} has {counts[last]} rows and weight {weights[last]:.3g}, "
        f"class {first} has {counts[first]} and {weights[first]:.3g}"
    )


def _fit(weights: Sequence[float], counts: Mapping[int, int]) -> bool:
    return all(0 <= label < len(weights) and weights[label] > 0 and rows for label, rows in counts.items())


def _pairs(counts: Mapping[int, int]) -> list[tuple[int, int]]:
    """The classes of which the first clearly has more rows than the second."""
    return [
        (many, few)
        for many, rows in counts.items()
        for few, other in counts.items()
        if rows >= MORE * other and rows - other > SIGMAS * (rows + other) ** 0.5
    ]


def _are_reordered(weights: Sequence[float], counts: Mapping[int, int]) -> bool:
    """Whether weights are the inverse rows of the classes, but not each of its own class."""
    if len(counts) < FEWEST_TO_REORDER or not _fit(weights, counts):
        return False
    own = [weights[label] * rows for label, rows in counts.items()]
    by_size = zip(sorted(weights[label] for label in counts), sorted(counts.values(), reverse=True), strict=True)
    return max(own) > MORE * min(own) and _is_even([weight * rows for weight, rows in by_size])


def _is_even(numbers: Sequence[float]) -> bool:
    return max(numbers) <= (1 + NEAR) * min(numbers)
