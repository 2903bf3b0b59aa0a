"""What the evaluation stage measures: the metric function of a run on two batches, before any training."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class EvaluationEvidence:
    """Two evaluation batches through the run's own metric function, before any training.

    `wanted`: the run evaluates by itself while it trains. `predictions` is the type that the metric function got and
    `returned` that of what it gave. `label_classes` counts the distinct labels that are scored, `ignored_labels` the
    entries of -100 among `labels` entries, and `change_by_ignored` is the most that a metric changes when there are
    twice as many of them; None where the labels are no one array of whole numbers. `number_of_rows`
    is the size of the whole evaluation set; `free_memory` what the machine has left, in bytes.
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
    labels: int = 0
    ignored_labels: int | None = None
    label_classes: int | None = None
    change_by_ignored: float | None = None
    number_of_rows: int | None = None
    bytes_per_row: float | None = None
    free_memory: int | None = None
    metrics: dict[str, float | None] = field(default_factory=dict[str, float | None])
    non_finite: tuple[str, ...] = ()
