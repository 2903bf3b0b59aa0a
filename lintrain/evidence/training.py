"""What a probe measures of model, batch and one training step, and of `fit` of Keras: no torch objects."""

from __future__ import annotations

from dataclasses import field

from lintrain.evidence.data import EdgeEvidence, LabelEvidence, ScoredTokens
from lintrain.evidence.kept_rows import CollatedRows, SegmentEvidence
from lintrain.evidence.loop import LossEvidence, LossTerm
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass

CLASSIFICATION_TASKS = frozenset(f"{kind}Classification" for kind in ("Sequence", "Token", "Image", "Audio"))


@dataclass(frozen=True, slots=True)
class ModelEvidence:
    """The model of a run: its class, what its forward accepts, its head and its limits (tokens).

    `task` is what follows `For` in the class name ("SequenceClassification", "CausalLM"); `fresh` names the parameters
    that no checkpoint filled (with `pretrained`), or is empty if that is not known; `frozen_fresh` are those of them
    in whose layer nothing is trained, `formats` counts the trainable tensors by their dtype, `trained` for the outer
    modules those that train and all. `embedding_rows` are the ids that its input embedding has, `embedding_trains`
    whether it learns; `pad_id` is its configuration's, `checkpoint` what it was loaded from. Where the origin is not
    known, `pretrained` and `fresh` say nothing. `problem_type` is what the configuration says of its labels; without
    it, transformers decides at the first batch. `idle_freeze` is the module that the script freezes with a name that
    does nothing. `is_left_random`: it has the configuration of its checkpoint, whose weights were not loaded, and the
    script does not say why. `token_types` are those that its embedding has, None where it has none. `rows_before` are
    the ids that its embedding had before the script resized it, None if it did not.
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
    problem_type: str | None = None
    idle_freeze: str | None = None
    is_left_random: bool = False
    token_types: int | None = None
    rows_before: int | None = None

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
    device: str = ""


@dataclass(frozen=True, slots=True)
class BatchEvidence:
    """One batch from the run's own loader and collator.

    Token counts are over the probed batches: attended, padding, unknown (UNK ids among the attended ordinary tokens).
    `targets` are those of labels that are tokens, None for other labels. `collated` compares the rows with those that
    the collator received, `segments` their token types with their separators.
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
    collated: CollatedRows | None = None
    segments: SegmentEvidence | None = None

    def tensor(self, name: str) -> TensorEvidence | None:
        """One tensor by its name, or None if the batch has no such tensor."""
        return next((tensor for tensor in self.tensors if tensor.name == name), None)


@dataclass(frozen=True, slots=True)
class NonFiniteRows:
    """The rows of a batch whose loss, output or input is not finite: the first of `count`, of `all` rows.

    `labels` are the distinct labels of these rows, if they are whole numbers; `are_theirs`: no other row has one of
    them. With `all_ignored` no row is counted: every target is ignored, and the mean is one over nothing.
    """

    rows: tuple[int, ...]
    count: int
    all: int
    labels: tuple[int, ...] = ()
    are_theirs: bool = False
    all_ignored: bool = False


@dataclass(frozen=True, slots=True)
class NonFiniteOrigin:
    """The operation that made the first NaN or infinity of a loss, found in a second run of the script.

    `code` is the script's expression at `location`, `cause` what is known of its inputs. `before` is where an infinity
    was made that this operation turned into NaN.
    """

    operation: str
    location: Location | None
    code: str = ""
    cause: str = ""
    before: Location | None = None


@dataclass(frozen=True, slots=True)
class ForwardEvidence:
    """The forward passes of the probed batches; `chance` is ln(classes) for a classification head, else None.

    `terms` are those that the loss of a Trainer adds up, `calls` those of loss functions that the script itself makes
    in it. `standard_loss` says that the library's own loss was used: no
    override, no smoothing, no class weights.
    `first_non_finite` names the first module with a non-finite output, with the range of the finite part of its input
    and whether the rest of that was NaN or infinite already; "" for a loss computed from finite outputs, whose range
    is given then. `random_head` is the layer that gives the output and is frozen at random values.
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
    terms: tuple[LossTerm, ...] = ()
    non_finite_rows: NonFiniteRows | None = None
    calls: tuple[LossEvidence, ...] = ()
    random_head: str | None = None


@dataclass(frozen=True, slots=True)
class LayerGradient:
    """Gradients of one layer group over the probed batches: L2 norms of gradient and weight, parameters without any.
    A class of a library has those of `left_out` and does not use them."""

    layer: str
    norms: tuple[float, ...]
    weight_norm: float
    parameters: int
    without_gradient: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NonFiniteGradient:
    """The first operation of a backward pass that turned finite gradients into NaN or infinity.

    `operation` is its name in autograd ("Sqrt"), `behind` the nearest parameter that the gradients flow to from there,
    `range` that of the finite part of what the operation was computed from, None if autograd kept nothing. `forward`
    is the line of the script that calls it, known from a second run.
    """

    operation: str
    behind: str | None = None
    range: tuple[float, float] | None = None
    forward: str = ""


@dataclass(frozen=True, slots=True)
class BackwardEvidence:
    """Gradients by layer group, and the global norm of each probed batch (not clipped, not scaled).

    `non_finite` is where they first stopped being finite, for a finite loss. `alike` are weights that are the same for
    all units of a layer and got one gradient for all of them, with the units; optimizers got none for `waiting`.
    """

    layers: tuple[LayerGradient, ...]
    norms: tuple[float, ...]
    finite: bool
    clipped_at: float | None = None
    non_finite: NonFiniteGradient | None = None
    alike: tuple[tuple[str, int], ...] = ()
    waiting: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OptimizerGroup:
    """One parameter group: the peak learning rate it was given and the one used at the first step.

    `betas` and `epsilon` are those of Adam and its relatives, None for other optimizers; `is_decoupled`: the decay
    shrinks the weights themselves, as in AdamW and in SGD. `formats` are the dtypes of its parameters.
    """

    learning_rate: float
    first_learning_rate: float
    weight_decay: float
    parameters: int
    betas: tuple[float, float] | None = None
    epsilon: float | None = None
    is_decoupled: bool = False
    formats: tuple[str, ...] = ()


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
class BatchAnswers:
    """What a model answers to one batch: how often each class is `predicted` and `wanted`, as [class, entries].

    `accuracy` is over all labels that are scored, `metrics` are those of the metric function of a Trainer. Empty where
    the labels are no classes.
    """

    predicted: tuple[tuple[int, int], ...] = ()
    wanted: tuple[tuple[int, int], ...] = ()
    accuracy: float | None = None
    metrics: dict[str, float] = field(default_factory=dict[str, float])


@dataclass(frozen=True, slots=True)
class OverfitEvidence:
    """Steps on one repeated batch, dropout off: at the peak learning rate, at ten times it and at a tenth of it.

    Each series starts from the same weights and holds the loss before every step and after the last one. Where none of
    them falls, `losses_of_fresh` are those of a new Adam for all weights that train, at the rate that was best of some,
    `fresh_rate`. `answers` are those after the steps at the peak learning rate.
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
    fresh_rate: float | None = None
    losses_of_fresh: tuple[float, ...] = ()
    answers: BatchAnswers = field(default_factory=BatchAnswers)


@dataclass(frozen=True, slots=True)
class KerasEvidence:
    """The loss of `compile`, and its arguments in the first batch.

    `loss` is its name in Keras (`sparse_categorical_crossentropy`), empty for one of the script's own or several;
    `from_logits` is None if it has no such setting. The shapes are empty if the loss was not reached, or if there are
    several outputs. `sums` are the least and greatest sum over the last axis of the outputs. `inputs` are the names in
    a dictionary of inputs; `has_targets` says whether the batch has a second part. `modal_calls` counts the calls of
    dropout, batch normalisation and other layers that work differently in training, within one training step,
    `modal_calls_in_training` those in training mode. `corrected` is the loss of the run and that of the same outputs
    as mere numbers, where the library computes it from something before them. `activation` is that of the last layer,
    "" if the model is no chain or graph of layers; `untrained_at` is where a training step calls the model so that its
    modal layers are not in training mode. `fractions` is the share of the targets that are no whole numbers.
    """

    loss: str
    from_logits: bool | None
    inputs: tuple[str, ...]
    has_targets: bool
    output_shape: tuple[int, ...] = ()
    output_minimum: float | None = None
    output_maximum: float | None = None
    sums: tuple[float, float] | None = None
    target_shape: tuple[int, ...] = ()
    target_dtype: str = ""
    modal_calls: int = 0
    modal_calls_in_training: int = 0
    corrected: tuple[float, float] | None = None
    activation: str = ""
    untrained_at: Location | None = None
    fractions: float | None = None

    @property
    def units(self) -> int | None:
        """Entries of the last axis of the outputs, or None if the loss was not reached."""
        return self.output_shape[-1] if len(self.output_shape) > 1 else None

    @property
    def span(self) -> str:
        """The range of the outputs in words."""
        return f"outputs from {self.output_minimum or 0.0:.3g} to {self.output_maximum or 0.0:.3g}"

    @property
    def are_within_one(self) -> bool | None:
        """Whether every output is between 0 and 1; None if there is none."""
        if self.output_minimum is None or self.output_maximum is None:
            return None
        return self.output_minimum >= 0.0 and self.output_maximum <= 1.0

    @property
    def are_probabilities(self) -> bool | None:
        """Whether every row of outputs is a distribution over classes (or a probability, of one unit)."""
        if self.are_within_one is None or self.sums is None:
            return None
        is_whole = self.units == 1 or all(abs(each - 1.0) < NEAR for each in self.sums)
        return self.are_within_one and is_whole

    @property
    def targets_are_rows(self) -> bool | None:
        """Whether the targets have an entry for each class, as one-hot rows have; None if there are none."""
        if not self.target_shape or self.units is None:
            return None
        return len(self.target_shape) == len(self.output_shape) and self.target_shape[-1] == self.units != 1


@dataclass(frozen=True, slots=True)
class WatchedNames:
    """The names that callbacks of Keras monitor, and the names that an epoch of the run logs.

    `computed` are those of a training step and of the evaluation; `missing` those of `watched` that are not among
    them, although every part of an epoch passed, and that no callback of the script's own contains.
    """

    watched: tuple[str, ...]
    computed: tuple[str, ...]
    missing: tuple[str, ...]


NEAR = 1e-3
