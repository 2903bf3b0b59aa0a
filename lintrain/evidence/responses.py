"""What a probe measures by calling the model again: the same rows in eval mode, with one thing changed at a time.

What the evaluation stage measures: two batches through the metrics of a run.
"""

from __future__ import annotations

from dataclasses import field

from lintrain.evidence.loop import LoaderUse, LossEvidence
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

LESS_THAN_SHOWN, CERTAIN = 1e-9, 1e-3
"""Shares of the largest output: less than float64 shows of an effect, and a certain change."""


@dataclass(frozen=True, slots=True)
class SpreadEvidence:
    """How much the outputs of different rows differ, as a share of their largest value: at first, and after two steps.

    `rows` is how many different ones there are; `dtype` is that of the outputs. None for what was not measured.
    """

    rows: int
    dtype: str
    before: float | None
    after: float | None = None


@dataclass(frozen=True, slots=True)
class MaskEvidence:
    """Rows with padding, with and without their mask; changes are shares of the largest output.

    `given`: the model receives a mask. `change` is that of the outputs at attended positions if padding is attended
    too. `cut` is that of the row with the most padding if it is passed alone, without its `cut_tokens` tokens of
    padding; None if it cannot be cut.
    """

    given: bool
    rows: int
    padding: int
    change: float
    cut: float | None = None
    cut_tokens: int = 0


@dataclass(frozen=True, slots=True)
class FutureEvidence:
    """Scored positions of next-token targets, called again with the target itself changed in the model's input.

    `equal_to_next` of the targets are the token after their position. `change` is that of the outputs at these
    positions, as a share of the largest output. `doubt` says why even a change would prove nothing.
    """

    positions: int
    equal_to_next: float
    change: float
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class TokenEvidence:
    """One row of a batch in a model of the script's own, with single tokens changed; changes are shares of its output.

    The row has `tokens` tokens and `padding` ones, on its left with `pads_left`. `by_first` is the change of outputs by
    another first token, `by_others` the largest by another one at its other positions; of outputs for each token, the
    one of the changed token does not count. `by_order` is that by the tokens between the first and the last in another
    order; None if they are all the same. `by_padding` is that by other tokens in place of the padding, `by_cut` that of
    the row without its padding, None if it cannot be cut. `attends`: attention was seen; `added_mask` is the form of a
    mask of 0 and 1 in floats that it gets. `is_set`: the name of the class says that order does not matter.
    """

    tokens: int
    padding: int
    pads_left: bool
    attends: bool
    is_set: bool
    added_mask: str
    by_first: float
    by_others: float
    by_order: float | None
    by_padding: float | None
    by_cut: float | None

    @property
    def reads_padding_alone(self) -> bool:
        """Whether no token but the first changes the outputs of others, and padding does: changed, or removed."""
        by_padding = max(self.by_padding or 0.0, self.by_cut or 0.0)
        return self.by_others <= LESS_THAN_SHOWN and by_padding > CERTAIN

    @property
    def reads_text_alone(self) -> bool:
        """Whether later tokens change the outputs, and those of a row without its padding are the same."""
        return self.by_cut is not None and self.by_cut <= CERTAIN < self.by_others


@dataclass(frozen=True, slots=True)
class CacheEvidence:
    """The last `tokens` of a row, given one by one with the cache of those before in `argument`.

    `change` is that of their outputs against those of the whole row at once, as a share of the largest.
    """

    argument: str
    tokens: int
    change: float


@dataclass(frozen=True, slots=True)
class MixedRows:
    """The answers of all `rows` but one, which was replaced: their change, as a share of the largest answer.

    `layer` is the class of the layer that hands the change on, because it reads the rows as steps, called at `at`;
    `view` is a call that gives a tensor another shape before the others see the change.
    """

    rows: int
    change: float
    layer: str = ""
    at: Location | None = None
    view: Location | None = None


@dataclass(frozen=True, slots=True)
class ResponseEvidence:
    """The model called again: `noise` is by how much outputs for the same input differ, as a share of the largest.

    It is measured only if later tokens changed the outputs, and 0 otherwise. `ahead` is the change of all earlier
    outputs if the last token of each row is another one; measured where targets are the tokens at their own places.
    `tokens`, `cache` and `mixed` are measured of the script's own modules alone. `rewritten` are weights that train and
    that one more pass, without a step, changes, and `rewritten_at` is the statement that assigns to the first of them.
    `reason` says why nothing, or not everything, was measured.
    """

    noise: float = 0.0
    spread: SpreadEvidence | None = None
    mask: MaskEvidence | None = None
    future: FutureEvidence | None = None
    ahead: float | None = None
    tokens: TokenEvidence | None = None
    cache: CacheEvidence | None = None
    mixed: MixedRows | None = None
    rewritten: tuple[str, ...] = ()
    rewritten_at: Location | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class MetricUse:
    """The arguments and results of a metric of scikit-learn, evaluate or torchmetrics at one location of the script.

    `classes` counts the distinct references that are whole numbers, `ignored` those of -100 among `references`
    entries; None if they are not whole numbers, or too many to count. `options` are the names of other arguments,
    `values` the numbers that were returned (a bare one under ""), those of the last of `calls`. `error` is the type
    and `message` the text of what it raised. `is_training`: it was called before the evaluation. `of_constant` are its
    values for the best constant answer to the same references, `of_random` the mean of those for random answers.
    """

    library: str
    function: str
    predictions_shape: tuple[int, ...] = ()
    predictions_dtype: str = ""
    references_shape: tuple[int, ...] = ()
    references_dtype: str = ""
    references: int = 0
    classes: int | None = None
    ignored: int | None = None
    options: tuple[str, ...] = ()
    values: dict[str, float] = field(default_factory=dict[str, float])
    error: str = ""
    message: str = ""
    location: Location | None = None
    calls: int = 1
    is_training: bool = False
    of_constant: dict[str, float] = field(default_factory=dict[str, float])
    of_random: dict[str, float] = field(default_factory=dict[str, float])

    def raises(self, *texts: str) -> bool:
        """Whether it raised an error that holds one of the texts."""
        return bool(self.error) and any(text in self.message for text in texts)

    def is_at(self, path: str, first: int, last: int) -> bool:
        """Whether it was called on one of these lines of a file."""
        return self.location is not None and self.location.path == path and first <= self.location.line <= last

    @property
    def got(self) -> str:
        """Its arguments, in words."""
        if not self.predictions_dtype:
            return "nothing with a shape"
        return f"predictions of shape {list(self.predictions_shape)} ({self.predictions_dtype})"


@dataclass(frozen=True, slots=True)
class RewardEvidence:
    """What the completions of a policy got: the mean and the standard deviation of the rewards of each batch.

    `completions` were generated in all, over as many batches as there are means.
    """

    completions: int
    means: tuple[float, ...]
    spreads: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class EvaluationEvidence:
    """Two evaluation batches: through a Trainer's own metric function, or in an evaluation that was followed.

    `is_followed`: a loop of the script's own, Lightning or Keras runs it after some steps; there is no metric function
    of a Trainer then. Of such an evaluation, `batches` and `passes` of the model were counted,
    `passes_in_training_mode` with some dropout or batch norm in this mode (for Keras the calls of such layers),
    `recorded_passes` recorded by autograd; `losses` are those that were computed, `called` the first calls of loss
    functions, and `metric_uses` the calls of metrics that libraries have. `predictions_shape` is that of the last
    logits or outputs there, `loaders` the first ones that it reads.

    Of a metric function: `wanted`: the run evaluates while it trains. `predictions` is the type that the metric
    function got and `returned` that of what it gave, at `returned_at`. `label_classes` counts the distinct labels that
    are scored, `ignored_labels` the entries of -100 among `labels` entries, and `change_by_ignored` is the most that a
    metric changes when there are twice as many of them; None where the labels are no one array of whole numbers.
    `change_by_opposite` is that from predictions that agree with the labels to their opposite, for one output per row:
    a threshold sees it, an `argmax` does not.
    `of_constant` are the metrics of the best constant answer to the same rows, `of_random` the mean of those of random
    answers. `given` are the names that the whole evaluation gave, those of a trainer of another library among them.
    `number_of_rows` is the size of the whole evaluation set; `free_memory` what the machine has left, in bytes.
    """

    wanted: bool
    has_metric_function: bool
    metric_function_called: bool = False
    argument: str = "eval_dataset"
    rows: int = 0
    predictions: str = ""
    predictions_are_tuple: bool = False
    predictions_shape: tuple[int, ...] = ()
    returned: str = ""
    returned_at: Location | None = None
    chosen_at: Location | None = None
    change_by_opposite: float | None = None
    labels: int = 0
    ignored_labels: int | None = None
    label_classes: int | None = None
    change_by_ignored: float | None = None
    number_of_rows: int | None = None
    bytes_per_row: float | None = None
    free_memory: int | None = None
    metrics: dict[str, float | None] = field(default_factory=dict[str, float | None])
    of_constant: dict[str, float] = field(default_factory=dict[str, float])
    of_random: dict[str, float] = field(default_factory=dict[str, float])
    given: tuple[str, ...] = ()
    non_finite: tuple[str, ...] = ()
    is_followed: bool = False
    batches: int = 0
    passes: int = 0
    passes_in_training_mode: int = 0
    recorded_passes: int = 0
    losses: tuple[float, ...] = ()
    called: tuple[LossEvidence, ...] = ()
    metric_uses: tuple[MetricUse, ...] = ()
    loaders: tuple[LoaderUse, ...] = ()

    def used_at(self, path: str, first: int, last: int) -> tuple[MetricUse, ...]:
        """The calls of metrics on some lines of a file; those that raised come first."""
        found = [use for use in self.metric_uses if use.is_at(path, first, last)]
        return tuple(sorted(found, key=lambda use: not use.error))
