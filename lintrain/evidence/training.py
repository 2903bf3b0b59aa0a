"""What a probe measures of the model, of a batch and of one training step: plain data, without torch objects."""

from __future__ import annotations

from dataclasses import field

from lintrain.evidence.tokens import EdgeEvidence, LabelEvidence, ScoredTokens
from lintrain.startup.lazy_dataclass import dataclass

CLASSIFICATION_TASKS = frozenset(
    {"SequenceClassification", "TokenClassification", "ImageClassification", "AudioClassification"}
)


@dataclass(frozen=True, slots=True)
class ModelEvidence:
    """The model of a run: its class, what its forward accepts, its head and its limits (tokens).

    `task` is what follows `For` in the class name ("SequenceClassification", "CausalLM"); `fresh` names the parameters
    that no checkpoint filled (with `pretrained`), or is empty if that is not known; `frozen_fresh` are those of them
    in whose layer nothing is trained, `formats` counts the trainable tensors by their dtype, `trained` for the outer
    modules those that train and all. `embedding_rows` are the ids that its input embedding has, `embedding_trains`
    whether it learns; `pad_id` is its configuration's, `checkpoint` what it was loaded from. Where the origin is not
    known, `pretrained` and `fresh` say nothing.
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
    frozen_fresh: tuple[str, ...] = ()
    formats: dict[str, int] = field(default_factory=dict[str, int])
    trained: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    embedding_rows: int | None = None
    embedding_trains: bool | None = None
    pad_id: int | None = None
    checkpoint: str = ""
    is_origin_known: bool = True

    def trained_in(self, part: str) -> tuple[int, int]:
        """The tensors of a module that train, and all; by its name of at most two levels, "" for the whole model."""
        return self.trained.get(part, (0, 0))

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
    `targets` are those of labels that are tokens, None for other labels.
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
    labels: LabelEvidence | None = None
    edges: EdgeEvidence | None = None
    targets: ScoredTokens | None = None

    def tensor(self, name: str) -> TensorEvidence | None:
        """One tensor by its name, or None if the batch has no such tensor."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)


@dataclass(frozen=True, slots=True)
class ForwardEvidence:
    """The forward passes of the probed batches; `chance` is ln(classes) for a classification head, else None.

    `standard_loss` says that the library's own loss was used: no override, no smoothing, no class weights.
    `first_non_finite` names the first module with a non-finite output, with the range of the finite part of its input
    and whether the rest of that was NaN or infinite already; "" for a loss computed from finite outputs, whose range
    is given then.
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
    first_non_finite_range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class LayerGradient:
    """Gradients of one layer group over the probed batches: L2 norms of gradient and weight, parameters without any."""

    layer: str
    norms: tuple[float, ...]
    weight_norm: float
    parameters: int
    without_gradient: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NonFiniteGradient:
    """The first operation of a backward pass that turned finite gradients into NaN or infinity.

    `operation` is its name in autograd ("Sqrt"), `behind` the nearest parameter that the gradients flow to from there,
    `range` that of the finite part of what the operation was computed from, None if autograd kept nothing.
    """

    operation: str
    behind: str | None = None
    range: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class BackwardEvidence:
    """Gradients by layer group, and the global norm of each probed batch (not clipped, not scaled).

    `non_finite` is where NaN or infinity first appeared, if a finite loss has gradients that are not finite.
    """

    layers: tuple[LayerGradient, ...]
    norms: tuple[float, ...]
    finite: bool
    clipped_at: float | None = None
    non_finite: NonFiniteGradient | None = None


@dataclass(frozen=True, slots=True)
class OptimizerGroup:
    """One parameter group: the peak learning rate it was given and the one in force at the first step."""

    learning_rate: float
    first_learning_rate: float
    weight_decay: float
    parameters: int


@dataclass(frozen=True, slots=True)
class LayerUpdate:
    """How far the measured steps moved one layer group: L2 norm of the change over that of the weights, per step."""

    layer: str
    ratio: float


@dataclass(frozen=True, slots=True)
class StepEvidence:
    """Two real optimizer steps at the peak learning rate: how many trainable tensors changed.

    `unchanged` names those that stayed bit-equal although they had a gradient; `outside_optimizer` those in no group;
    `non_finite` counts those that hold NaN or infinity afterwards. `updates` are those of layers whose weights were
    not all 0. `frozen_moved` names parameters that are not trained and moved all the same, `frozen_statistics` counts
    the batch norms without trained parameters that updated their statistics; None where they are too many to look at.
    """

    optimizer: str
    groups: tuple[OptimizerGroup, ...]
    trainable_tensors: int
    changed_tensors: int
    unchanged: tuple[str, ...] = ()
    outside_optimizer: tuple[str, ...] = ()
    skipped: bool = False
    changed_share: float | None = None
    non_finite: int = 0
    updates: tuple[LayerUpdate, ...] = ()
    frozen_moved: tuple[str, ...] | None = None
    frozen_statistics: int = 0


@dataclass(frozen=True, slots=True)
class AccumulationEvidence:
    """The rows of one batch as one batch, and as several whose gradients add up to one step; dropout is off.

    `ratio` is the gradient norm of the parts over that of the whole: 1 where the losses are averaged, as many as there
    are parts if they are not divided.
    """

    parts: int
    rows: int
    ratio: float


@dataclass(frozen=True, slots=True)
class OverfitEvidence:
    """Steps on one repeated batch, dropout off: at the peak learning rate, at ten times it and at a tenth of it.

    Each series starts from the same weights and holds the loss before every step and after the last one.
    """

    steps: int
    losses: tuple[float, ...]
    losses_at_ten_times: tuple[float, ...]
    learning_rate: float
    predicted_classes: int | None = None
    batch_classes: int | None = None
    rows: int = 0
    stopped_early: bool = False
    losses_at_a_tenth: tuple[float, ...] = ()
