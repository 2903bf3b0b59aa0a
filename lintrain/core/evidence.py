"""What a probe measured at one training run: plain, typed, serialisable; no torch object in it."""

from __future__ import annotations

from dataclasses import dataclass, field

from lintrain.core.place import Place


@dataclass(frozen=True, slots=True)
class Failure:
    """An error that the script or one of its libraries raised; `place` is the innermost frame of the user's own code."""

    type: str
    message: str
    place: Place | None
    code: str = ""
    frames: tuple[str, ...] = ()

    def says(self, *texts: str) -> bool:
        """Whether the error, written as `Type: message`, holds one of the texts."""
        return any(text in f"{self.type}: {self.message}" for text in texts)


@dataclass(frozen=True, slots=True)
class Stage:
    """One step of the probe: `passed`, `failed` (with its error) or `not reached` (with the reason).

    In order: script, construction, dataset, batch, forward, backward, step, evaluation, overfit; seconds of wall time.
    """

    name: str
    status: str
    seconds: float = 0.0
    reason: str = ""
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class ColumnEvidence:
    """One column of a split: its feature kind (`text`, `integer`, `class label`, `token ids`, …) and its range.

    `counts` holds how often each label value occurs, as [value, rows]; `names` the class names; `lengths` the
    shortest, median, 95th percentile and longest list of a list column (entries). `rows_read` says on how many rows
    these rest: all of them, but for datasets that only give one row at a time.
    """

    name: str
    kind: str
    dtype: str
    minimum: float | None = None
    maximum: float | None = None
    counts: tuple[tuple[int, int], ...] = ()
    names: tuple[str, ...] = ()
    lengths: tuple[int, ...] = ()
    rows_read: int = 0
    non_finite: int = 0


@dataclass(frozen=True, slots=True)
class Sample:
    """One row as the model sees it, decoded, with its label by number and name."""

    text: str
    label: str
    label_name: str | None = None


@dataclass(frozen=True, slots=True)
class SplitEvidence:
    """One dataset as the run was given it: by which argument (`train_dataset`, `eval_dataset`), its columns and rows.

    `key` is its name in a dictionary of datasets; `kind` its class.
    """

    argument: str
    rows: int | None
    columns: tuple[ColumnEvidence, ...]
    key: str | None = None
    samples: tuple[Sample, ...] = ()
    label_column: str | None = None
    kind: str = ""

    @property
    def column_names(self) -> set[str]:
        """The names of the columns."""
        return {column.name for column in self.columns}

    def column(self, name: str) -> ColumnEvidence | None:
        """One column by its name, or None where the split has none such."""
        return next((column for column in self.columns if column.name == name), None)

    @property
    def labels(self) -> ColumnEvidence | None:
        """The label column, or None where the split has none."""
        return self.column(self.label_column) if self.label_column else None


CLASSIFICATION_TASKS = frozenset(
    {"SequenceClassification", "TokenClassification", "ImageClassification", "AudioClassification"}
)


@dataclass(frozen=True, slots=True)
class ModelEvidence:
    """The model of a run: its class, what its forward accepts, its head and its limits (tokens).

    `task` is what follows `For` in the class name ("SequenceClassification", "CausalLM"); `fresh` names the parameters
    that no checkpoint filled (with `pretrained`), or is empty where that is not known.
    """

    name: str
    inputs: tuple[str, ...]
    label_inputs: tuple[str, ...]
    task: str
    num_labels: int | None
    label_names: tuple[str, ...]
    positions: int | None
    rotary: bool
    pretrained: bool
    parameters: int
    trainable_parameters: int
    training: bool
    has_dropout_or_batch_norm: bool
    device: str
    fresh: tuple[str, ...] = ()

    @property
    def classifies(self) -> bool:
        """Whether the head gives one logit for each of `num_labels` classes."""
        return self.task in CLASSIFICATION_TASKS


@dataclass(frozen=True, slots=True)
class TensorEvidence:
    """One entry of a collated batch: shape, dtype and range; `non_finite` counts its NaN and infinite entries."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    minimum: float | None = None
    maximum: float | None = None
    non_finite: int = 0


@dataclass(frozen=True, slots=True)
class BatchEvidence:
    """One batch from the run's own loader and collator.

    Token counts are over the probed batches: attended, padding, unknown (UNK ids among the attended ordinary tokens).
    """

    argument: str
    collator: str
    tensors: tuple[TensorEvidence, ...]
    rows: int
    attended_tokens: int | None = None
    padding_tokens: int | None = None
    unknown_tokens: int | None = None
    ordinary_tokens: int | None = None
    unknown_pieces: tuple[str, ...] = ()
    longest: int | None = None
    mask_shape_differs: bool = False
    mask_empty_rows: int = 0
    mask_on_padding: int = 0
    pad_is_eos: bool = False

    def tensor(self, name: str) -> TensorEvidence | None:
        """One tensor by its name, or None where the batch has none such."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)


@dataclass(frozen=True, slots=True)
class ForwardEvidence:
    """The forward passes of the probed batches; `chance` is ln(classes) for a classification head, else None.

    `standard_loss` says that the library's own loss was at work: no override, no smoothing, no class weights.
    `first_non_finite` names the first module with a non-finite output, and says whether its input already was.
    """

    losses: tuple[float, ...]
    chance: float | None
    finite: bool
    logits_shape: tuple[int, ...] = ()
    returned_keys: tuple[str, ...] = ()
    fresh_head: bool = False
    standard_loss: bool = False
    first_non_finite: str | None = None
    first_non_finite_input: bool | None = None


@dataclass(frozen=True, slots=True)
class LayerGradient:
    """Gradients of one layer group over the probed batches: L2 norms of gradient and weight, parameters without any."""

    layer: str
    norms: tuple[float, ...]
    weight_norm: float
    parameters: int
    without_gradient: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackwardEvidence:
    """Gradients by layer group, and the global norm of each probed batch (not clipped, not scaled)."""

    layers: tuple[LayerGradient, ...]
    norms: tuple[float, ...]
    finite: bool
    clipped_at: float | None = None


@dataclass(frozen=True, slots=True)
class OptimizerGroup:
    """One parameter group: the peak learning rate it was given and the one in force at the first step."""

    learning_rate: float
    first_learning_rate: float
    weight_decay: float
    parameters: int


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """Two real optimizer steps at the peak learning rate: how many trainable tensors changed.

    `unchanged` names those that stayed bit-equal although they had a gradient; `outside_optimizer` those in no group.
    """

    optimizer: str
    groups: tuple[OptimizerGroup, ...]
    trainable_tensors: int
    changed_tensors: int
    unchanged: tuple[str, ...] = ()
    outside_optimizer: tuple[str, ...] = ()
    skipped: bool = False


@dataclass(frozen=True, slots=True)
class EvaluationEvidence:
    """Two evaluation batches through the run's own metric function, before any training.

    `wanted`: the run evaluates by itself while it trains. `predictions` is the type that the metric function got.
    """

    wanted: bool
    has_metric_function: bool
    metric_function_called: bool = False
    argument: str = "eval_dataset"
    rows: int = 0
    predictions: str = ""
    predictions_are_tuple: bool = False
    predictions_shape: tuple[int, ...] = ()
    metrics: dict[str, float | None] = field(default_factory=dict[str, float | None])
    non_finite: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OverfitEvidence:
    """Steps on one repeated batch that holds every label, dropout off, at the peak learning rate and at ten times it."""

    steps: int
    losses: tuple[float, ...]
    losses_at_ten_times: tuple[float, ...]
    learning_rate: float
    predicted_classes: int | None = None
    batch_classes: int | None = None
    rows: int = 0
    stopped_early: bool = False


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything measured at one run of a script; None where a stage was not reached.

    `overrides` names the trainer's methods that the user's subclass replaces, and the functions given in their stead
    (`compute_loss`, `compute_loss_func`, `get_train_dataloader`). `shortcuts` lists what was changed to be quick.
    """

    script: str
    framework: str
    trainer: str
    call: Place | None
    construction: Place | None
    device: str
    versions: dict[str, str]
    stages: tuple[Stage, ...] = ()
    splits: tuple[SplitEvidence, ...] = ()
    model: ModelEvidence | None = None
    batches: tuple[BatchEvidence, ...] = ()
    forward: ForwardEvidence | None = None
    backward: BackwardEvidence | None = None
    step: StepEvidence | None = None
    evaluation: EvaluationEvidence | None = None
    overfit: OverfitEvidence | None = None
    arguments: dict[str, str | int | float | bool | None] = field(
        default_factory=dict[str, str | int | float | bool | None]
    )
    overrides: tuple[str, ...] = ()
    shortcuts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def place(self) -> Place:
        """Where findings about the run as a whole stand: its trainer's construction, else the training call."""
        return self.construction or self.call or Place(self.script, 1, 1, 1, 1)

    def split(self, argument: str) -> SplitEvidence | None:
        """The split that was given by an argument of the trainer, or None where it was not reached."""
        return next((split for split in self.splits if split.argument == argument), None)

    def batch(self, argument: str = "train_dataset") -> BatchEvidence | None:
        """The batch collated from the split of an argument, or None where none was made."""
        return next((batch for batch in self.batches if batch.argument == argument), None)

    def stage(self, name: str) -> Stage | None:
        """One stage by its name, or None where the probe has no such stage."""
        return next((stage for stage in self.stages if stage.name == name), None)

    def passed(self, name: str) -> bool:
        """Whether a stage was reached and went through."""
        stage = self.stage(name)
        return stage is not None and stage.status == "passed"

    def failed_with(self, *texts: str) -> Stage | None:
        """The first failed stage whose error (`Type: message`) holds one of the texts, or None."""
        return next((stage for stage in self.stages if stage.failure and stage.failure.says(*texts)), None)

    def not_reached(self, name: str) -> str:
        """Why a stage has no answer, in words that stand after `unsettled:`."""
        stage = self.stage(name)
        if stage is not None and stage.reason:
            return f"the {name} stage was not reached: {stage.reason}"
        return f"the {name} stage was not reached"

    @property
    def given_splits(self) -> dict[str, tuple[SplitEvidence, ...]]:
        """The splits by trainer argument; several where a dictionary of datasets was given."""
        given: dict[str, tuple[SplitEvidence, ...]] = {}
        for split in self.splits:
            given[split.argument] = (*given.get(split.argument, ()), split)
        return given

    @property
    def peak_learning_rate(self) -> float | None:
        """The largest learning rate of any parameter group (warm-up skipped), or None before the step stage."""
        if self.step is None:
            return None
        return max((group.learning_rate for group in self.step.groups), default=None)

    @property
    def failed_stage(self) -> Stage | None:
        """The first stage that failed, or None."""
        return next((stage for stage in self.stages if stage.status == "failed"), None)

    @property
    def failure(self) -> Failure | None:
        """The error of the first failed stage, or None."""
        return self.failed_stage.failure if self.failed_stage else None
