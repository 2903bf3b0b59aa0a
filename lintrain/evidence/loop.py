"""What a probe measures of the script's own training loop."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from lintrain.evidence.sequences import CtcTargets
from lintrain.evidence.stages import StrEnum
from lintrain.model.location import Location
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class TargetAlignment:
    """Targets of a loss compared with the tokens that the model read: how many are scored, ignored, and scored
    padding.

    `equal_at` holds for 0, 1 and 2 the share of scored targets that are the token so many positions after that of
    their logits, `equal_before` that of those which are the token before it.
    """

    scored: int
    ignored: int
    equal_at: tuple[float | None, ...]
    padding: int | None = None
    equal_before: float | None = None

    @property
    def offset(self) -> int | None:
        """How many positions after the token of its logits each target is: 1 predicts the next, -1 the one before;
        None if it is not clear.
        """
        shares = {-1: self.equal_before, **dict(enumerate(self.equal_at))}
        sure = [offset for offset, share in shares.items() if share is not None and share > SURE]
        return sure[0] if len(sure) == 1 else None

    @property
    def described(self) -> str:
        """The offset in words, with its share."""
        if self.offset is None:
            return f"the {self.scored} scored targets are at no consistent offset from the tokens"
        share = (self.equal_before if self.offset < 0 else self.equal_at[self.offset]) or 0.0
        where = "the token before that of their logits"
        if self.offset >= 0:
            where = f"the token {self.offset} positions after that of their logits"
        return f"{share:.0%} of {self.scored} scored targets are {where}"


SURE = 0.98


@dataclass(frozen=True, slots=True)
class LossEvidence:
    """One call of a torch loss function in the first iteration: its arguments and its result.

    `row_sums` are the least and greatest sum of `exp(input)` or of `input` over the class axis, whichever is nearer to
    1: both are 1 for (log-)probabilities. `ignored` is the share of targets that equal `ignore_index`. `value` is None
    for a call that raised; `location` is where the script's own code makes it. `made_by` is the operation that the
    inputs come from (`Sigmoid`, `Addmm`), views of its result left out; "" for inputs without a graph. `activated_at`
    is where the script calls it, or makes its layer, if it is a sigmoid or a softmax. `mixes_rows`: the inputs are
    probabilities, or logarithms of such, over the rows of the batch for each class. `reduction` and `ignored_index` are
    what it was called with, `log_target` says that the targets of a divergence are logarithms. `is_swapped`: a gradient
    flows to the targets alone, and the inputs are labels. `ctc` are the targets of a CTC loss, `class_weights`
    the weights of the classes, or of 0 and 1; () for none.
    """

    function: str
    input_shape: tuple[int, ...]
    input_dtype: str
    input_minimum: float | None
    input_maximum: float | None
    target_shape: tuple[int, ...]
    target_dtype: str
    target_minimum: float | None
    target_maximum: float | None
    value: float | None
    sums_of_inputs: tuple[float, float] | None = None
    sums_of_exponentials: tuple[float, float] | None = None
    ignored: float | None = None
    is_plain: bool = True
    alignment: TargetAlignment | None = None
    location: Location | None = None
    made_by: str = ""
    mixes_rows: bool = False
    reduction: str = "mean"
    ignored_index: int | None = None
    log_target: bool = False
    is_swapped: bool = False
    activated_at: Location | None = None
    ctc: CtcTargets | None = None
    class_weights: tuple[float, ...] = ()

    @property
    def classes(self) -> int | None:
        """The length of the class axis of the inputs, if it is one over classes; None for a single number."""
        return self.input_shape[1 if len(self.input_shape) > 1 else 0] if self.input_shape else None

    @property
    def gives_probabilities(self) -> bool:
        """Whether the inputs are probabilities over the classes already: none below 0, and every row adds up to 1."""
        return _are_one(self.sums_of_inputs) and (self.input_minimum or 0.0) >= 0.0

    @property
    def gives_log_probabilities(self) -> bool:
        """Whether the inputs are log-probabilities: none above 0, and their exponentials add up to 1."""
        return _are_one(self.sums_of_exponentials) and (self.input_maximum or 0.0) <= 0.0


NEAR = 1e-3


def _are_one(sums: tuple[float, float] | None) -> bool:
    return sums is not None and all(abs(each - 1.0) < NEAR for each in sums)


@dataclass(frozen=True, slots=True)
class LossTerm:
    """One term of the sum that the first backward pass begins with: its value in this sum, and where it is computed.

    `factor` is what the sum multiplies it with. `function` is the torch loss function, "" for what the others leave of
    the sum: a term that the script computes by hand, whose place is not known.
    """

    function: str
    value: float
    factor: float
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class OptimizerUse:
    """What happened to one optimizer in the first steps of a loop.

    `steps_on_nothing` had no gradient at all, `steps_on_used` had gradients that include what an earlier step had used.
    `reached` are the backward passes that gave its parameters a gradient, `dropped` those whose gradients were
    cleared before any step used them, `cleared_at` is where its `zero_grad` first did so, `early_at` where it stepped
    before any of them. `is_stepped_elsewhere`: it never stepped, and another one has the same parameters. `made_at` is
    where the script makes it, and `cut_at` the statement that cuts off the output of a module that it trains, where its
    first step found no gradient; `part_cut_at` is that of a module none of whose weights ever got one, where others
    did. `reached_at` is the first backward pass that gave it a gradient.
    """

    name: str
    tensors: int
    steps: int
    steps_on_nothing: int = 0
    steps_on_used: int = 0
    reached: int = 0
    dropped: int = 0
    is_stepped_elsewhere: bool = False
    made_at: Location | None = None
    cut_at: Location | None = None
    cleared_at: Location | None = None
    early_at: Location | None = None
    reached_at: Location | None = None
    part_cut_at: Location | None = None


@dataclass(frozen=True, slots=True)
class ScheduleUse:
    """How often a schedule was stepped in a loop: in total, before its optimizer's first step, and between batches.

    `length` is the number of its steps after which it ends, `peak` the step of its largest rate; None if it is not
    known. `group_rates` are those of the optimizer's groups before the schedule was made, and the highest after it.
    `made_at` and `stepped_at` are where the script makes it and where it first steps it.
    """

    name: str
    steps: int
    steps_before_optimizer: int = 0
    steps_while_training: int = 0
    length: int | None = None
    peak: int | None = None
    group_rates: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    made_at: Location | None = None
    stepped_at: Location | None = None


@dataclass(frozen=True, slots=True)
class LoaderUse:
    """The loader that a loop trains on: its length and its settings, as they were created.

    `sampler` is the class that orders its rows, `epochs_told` its epoch at the start of each round, `shuffles` whether
    it says that it does. `has_lone_row`: its last batch has one row, and was given to the loop after the first ones.
    `made_at` and `sampler_at` are where the script makes both. `rows` are those of an epoch that has each row once.
    """

    batches: int | None
    batch_size: int | None
    drops_last: bool
    sampler: str
    epochs_told: tuple[int, ...] = ()
    shuffles: bool = False
    has_lone_row: bool = False
    made_at: Location | None = None
    sampler_at: Location | None = None
    rows: int | None = None

    @property
    def dropped(self) -> int | None:
        """The rows of an epoch that fill no batch and are left out; None if they cannot be counted."""
        if self.rows is None or not self.batch_size:
            return None
        return self.rows % self.batch_size if self.drops_last else 0


@dataclass(frozen=True, slots=True)
class ReachedWeights:
    """Parameters in the graph of the first loss: all, those of no optimizer, and those of no called module either.

    `outside_at` is where a module was called that is trained by no optimizer although the loss depends on it.
    `loose_at` is where a class keeps a tensor with a gradient that is no parameter.
    `copied_at` is where the script makes a copy of what an optimizer holds, which is called in its place.
    `stale` counts the tensors of optimizers that belong to no called module, where a called module has others that no
    optimizer holds. `unregistered_at` is where a class keeps modules with such parameters in a list or dictionary.
    """

    tensors: int
    outside_optimizers: int
    outside_modules: int
    outside_at: Location | None = None
    stale: int = 0
    copied_at: Location | None = None
    unregistered_at: Location | None = None
    loose_at: Location | None = None


class OddCallKind(StrEnum):
    """Calls of the script's own code that show a mistake by themselves."""

    PERMUTING_VIEW = "permuting view"
    """`view` or `reshape` gives a tensor its own sizes in another order."""
    DROPOUT_IN_EVAL = "dropout in eval mode"
    HALF_FOR_LOGITS = "0.5 for logits"
    """Logits are compared with 0.5, or rounded."""
    OTHER_AXIS = "other axis"
    """The greatest score is looked for along another axis than that of the classes, which the loss reads."""
    COMPARED_IN_PAIRS = "compared in pairs"
    REPEATED_MODULE = "repeated module"
    OWN_GRADIENT = "own gradient"
    """A backward pass begins with the loss as its gradient."""
    CLIPPED_NOTHING = "clipped nothing"
    OPTIMIZER_AGAIN = "optimizer again"
    """An optimizer takes the place of one that was just like it and had stepped."""
    LEFT_IN_EVAL = "left in eval mode"
    """An evaluation before the training calls `eval()`, and the training goes on in this mode."""
    LOG_OF_PROBABILITY = "log of a probability"
    """A loss contains the logarithm of a sigmoid or softmax, computed in two steps."""
    MEAN_OVER_CLASSES = "mean over classes"
    """A divergence is divided by the number of all values, and the script has not chosen that."""
    SQUEEZED_ROWS = "squeezed rows"
    """`squeeze()` of a batch: of one with a single row it removes that axis too."""
    LOST_ROWS = "lost rows"
    """The same, and a loss gets the result, which raises an error for a batch of one row."""
    IGNORED_WARMUP = "ignored warm-up"
    """A schedule that is constant from the first step on gets warm-up steps."""
    SAME_DIRECTION = "same direction"
    """The loss of a generator moves the scores of its rows as the loss of the network that judges them does."""
    RANDOM_TEACHER = "random teacher"
    """A network that is not trained gives other answers to the same rows each time, and a loss follows them."""


@dataclass(frozen=True, slots=True)
class OddCall:
    """One such call: where it is, what was seen of it (shapes, a range, a class), and how often it was made."""

    kind: OddCallKind
    location: Location
    text: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class LoopEvidence:
    """How often things happened in the first steps of a loop of the script's own.

    `batches`, `backwards`, `steps`, `clips`: how many there were; `backwards_per_step` for every step.
    `clipped_for_nothing`: clipping without fresh gradients; `clipped_while_scaled`: of gradients still multiplied by
    the scale. `undivided_losses`: of several added up to one step, those not divided or multiplied by anything;
    `divided_twice`: those divided two times, `divided_twice_alike` by the same number. `rounds_planned`: how often the
    loops around repeat it, and `is_cut_short`: a statement in it may leave it before its batches are over.
    `rows_in_pairs`: predictions of shape `(rows, 1)` that a loss computed by hand compares with every target.
    `kept_old_graphs`: backward passes while the graph of an earlier one was still held. `past_the_launcher`: backward
    passes that accelerate or Fabric did not make. `trained`: forward passes that a backward pass used;
    `trained_in_eval_mode`: those with all dropout and batch norm in eval mode. `evaluated`: passes behind the training
    that no backward pass used; `evaluated_in_train_mode`: those with some dropout or batch norm in train mode;
    `recorded_for_nothing`: those that autograd recorded. `searched_for_nan`: backward passes with the detection of
    anomalies on. `scaled`: losses that a scaler multiplied. `scaler_steps`: those of scalers that the script enables,
    `steps_without_update`: those of them that follow one of the same optimizer without an update between them.
    `came_round`: the loop began its second round over the loader; `ended`: that, or the script came to its end.
    `batches_past_the_launcher`, `steps_past_the_launcher`: those that accelerate or Fabric had no part in. `inputs` are
    the arguments of the model's forward; `learning_rates` are those of the first group, step by step.
    `clipped_after_step`, `clipped_before_backward`: clipping without fresh gradients, after or before the step of its
    batch. `batches_per_step`: the batches that were taken for every step. `growing_graphs`: backward passes at which
    graphs of several batches that were long over were still held. `losses_without_graph`: losses that are new tensors.
    `softmaxes_over_rows`: softmax functions over the first of several axes, called by the script itself.
    `terms_without_graph`: numbers in new tensors that are added to a loss. `rounded`: losses of predictions that were
    rounded. `same_inputs`: batches for which models and losses got the very tensors of the batch before.
    `backwards_behind_a_step`: those with no forward pass since the last step. `accumulates`: the batches for a step
    that accelerate was asked for. `seen_at`: by the names of these counts, where in the script it first came to that.
    `unscaled_halves` and `scaled_halves`: backward passes after a forward pass in float16 of a GPU, as the script asks
    for it, whose loss no gradient scaler multiplied, and one did; `other_casts`: those in another format.
    `unscalings`: calls of `unscale_`, `unscaled_again`: those of them that follow one without an update between them.
    `stable_logs`: logarithms of a sigmoid or softmax in the first loss that the script computes in one step.
    `skipped` are lines of the loop, and of functions that it called, that never ran while it was followed.
    `mentions` are what files of the script speak of: a `seed` or generator, a division by steps of `accumulation`,
    and a call that steps a `schedule`.
    """

    batches: int = 0
    backwards: int = 0
    steps: int = 0
    backwards_per_step: tuple[int, ...] = ()
    batches_per_step: tuple[int, ...] = ()
    clips: int = 0
    clipped_for_nothing: int = 0
    clipped_after_step: int = 0
    softmaxes_over_rows: int = 0
    terms_without_graph: int = 0
    rounded: int = 0
    stable_logs: int = 0
    same_inputs: int = 0
    clipped_before_backward: int = 0
    clipped_while_scaled: int = 0
    growing_graphs: int = 0
    losses_without_graph: int = 0
    backwards_behind_a_step: int = 0
    accumulates: int = 1
    undivided_losses: int = 0
    divided_twice: int = 0
    divided_twice_alike: int = 0
    kept_old_graphs: int = 0
    past_the_launcher: int = 0
    trained: int = 0
    trained_in_eval_mode: int = 0
    evaluated: int = 0
    evaluated_in_train_mode: int = 0
    recorded_for_nothing: int = 0
    searched_for_nan: int = 0
    scaled: int = 0
    scaler_steps: int = 0
    steps_without_update: int = 0
    unscalings: int = 0
    unscaled_again: int = 0
    unscaled_halves: int = 0
    scaled_halves: int = 0
    other_casts: int = 0
    came_round: bool = False
    ended: bool = False
    rounds_planned: int | None = None
    is_cut_short: bool = False
    rows_in_pairs: int = 0
    batches_past_the_launcher: int = 0
    steps_past_the_launcher: int = 0
    inputs: tuple[str, ...] = ()
    loader: LoaderUse | None = None
    learning_rates: tuple[float, ...] = ()
    optimizers: tuple[OptimizerUse, ...] = ()
    schedules: tuple[ScheduleUse, ...] = ()
    reached: ReachedWeights | None = None
    losses: tuple[LossEvidence, ...] = ()
    terms: tuple[LossTerm, ...] = ()
    seen_at: dict[str, Location] = field(default_factory=dict[str, Location])
    skipped: tuple[Location, ...] = ()
    mentions: tuple[Literal["seed", "accumulation", "schedule"], ...] = ()

    @property
    def alignment(self) -> TargetAlignment | None:
        """The targets of the first loss that can be compared with the tokens that the model read, or None."""
        return next((loss.alignment for loss in self.losses if loss.alignment), None)

    def losses_of(self, *functions: str) -> tuple[LossEvidence, ...]:
        """The calls of some loss functions in the first iteration."""
        return tuple(loss for loss in self.losses if loss.function in functions)


@dataclass(frozen=True, slots=True)
class ScheduleEvidence:
    """The learning rate of the first parameter group over the planned optimizer steps.

    `steps` are all that the run will take; `rates` are pairs of step (from 0) and learning rate, at most 101 and evenly
    spaced, the first and the last among them. `highest` is the greatest rate that is reached, first at `highest_at`.
    """

    name: str
    steps: int
    rates: tuple[tuple[int, float], ...]
    highest: float
    highest_at: int

    def rate_at(self, share: float) -> float:
        """The learning rate after this share (0 to 1) of the run."""
        wanted = share * (self.steps - 1)
        return min(self.rates, key=lambda pair: abs(pair[0] - wanted))[1]

    @property
    def last(self) -> float:
        """The learning rate of the last step."""
        return self.rates[-1][1]
