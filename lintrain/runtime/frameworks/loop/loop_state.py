"""What is known of a loop of the script's own while it runs: read by every part that measures it.

The framework of a loop, and the groups of its optimizers.

When enough of a loop was measured, and when it was followed for long enough.

Forward passes of a loop: which of them were for training, and in which modes the model was.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any

from lintrain.evidence.run import LossEvidence, OddCallKind, OptimizerGroup
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.frameworks.loop.effects import Counts, Effects
from lintrain.runtime.frameworks.loop.loaders import Loaders
from lintrain.runtime.frameworks.loop.model import held_by, loss_in, shape_in, shapes_of
from lintrain.runtime.frameworks.loop.odd_calls import OddCalls
from lintrain.runtime.frameworks.loop.ran_lines import RanLines
from lintrain.runtime.frameworks.loop.schedules import Schedules, peak_of
from lintrain.runtime.measure.calls import without_shells
from lintrain.runtime.measure.losses import loss_evidence
from lintrain.runtime.measure.predictions import number
from lintrain.runtime.measure.replay import ids_and_mask
from lintrain.runtime.measure.seen import Forward, Iteration, LossCall, autocast_now, modes_of, tensors_in
from lintrain.runtime.measure.weights import group_evidence


class LoopState(ABC):
    """The counts and the present position of a loop.

    `loader` is the one that batches come from; `rounds` counts how often it was read again. With `is_guided` a library
    runs the loop: it decides which batches it takes and when it ends. With `follows_on` the training was measured, and
    only passes and modes count until an evaluation comes; with `is_between` nothing does until the next training.
    `focus`: optimizers whose model is measured, if not all are; `earlier`: those of trainings before this one.
    """

    def __init__(self, session: ProbeSession) -> None:
        self.session = session
        self.effects = Effects()
        self.schedules = Schedules()
        self.loaders = Loaders(session)
        self.optimizers: list[Any] = []
        self.focus: list[Any] = []
        self.earlier: list[Any] = []
        self._iteration = Iteration()
        self.on_iteration_end: Callable[[Iteration], None] = lambda _: None
        self.loader: Any = None
        self.depth = self.backwards_by_hand = 0
        self.rounds: int = 0
        self.is_guided = self.is_taking = self.is_stepping = False
        self.is_over = self.comes_round = self.follows_on = self.is_between = False
        self.rounds_planned: int | None = None
        self.is_cut_short = False
        self.rows_in_pairs = 0
        self.ran_lines = RanLines()
        self.odd_calls = OddCalls(lambda: self.is_on, lambda: self.iteration.rows())
        self.passes = Passes(self.effects.counts, self.odd_calls)
        self.bounds = Bounds(self.effects.counts, session.stand_ins)
        self._is_paused = False

    @property
    def is_on(self) -> bool:
        """Whether the script itself is at work: not a Trainer that is measured, not one of our measurements.

        The hooks in torch see everything in the process. Without this test the probe would count its own forward
        passes as the script's, and a process that the script started would report a second loop.
        """
        return not self.session.measuring and not self._is_paused and self.session.is_root

    @property
    def iteration(self) -> Iteration:
        """The batch that is trained on now."""
        return self._iteration

    @iteration.setter
    def iteration(self, following: Iteration) -> None:
        if self._iteration.forwards:
            self.on_iteration_end(self._iteration)
        self._iteration = following

    def on_filling(self, tensor: Any) -> None:
        """The script looks for NaN in a tensor, or takes them out of it; while a batch is made, its rows show it."""
        if self.is_on and not self.is_taking:
            self.iteration.on_filling(tensor)

    @property
    def trains_behind(self) -> bool:
        """Whether the text behind this loop trains."""
        return False

    @property
    def is_awaited(self) -> bool:
        """Whether the loop trains another model too, which is measured next."""
        return False

    def is_in_next(self, _error: BaseException) -> bool:
        """Whether an error comes from another training than the measured one."""
        return False

    @property
    @abstractmethod
    def is_evaluating(self) -> bool:
        """Whether what happens now is evaluation."""

    @contextmanager
    def paused(self) -> Generator[None]:
        """The probe uses torch now: nothing is counted or timed, and the script's random state is restored.

        A measurement that drew a random number would change every batch and dropout mask that follows.
        """
        self._is_paused = True
        try:
            with self.loaders.timed.left_out(), same_random_numbers():
                yield
        finally:
            self._is_paused = False


def framework(session: ProbeSession) -> str:
    """The framework of the loop: accelerate or Fabric if the script created one, otherwise torch."""
    if session.launcher:
        return session.launcher
    accelerate = loaded("accelerate.state")
    if accelerate is not None and accelerate.AcceleratorState._shared_state:
        return "accelerate"
    return "torch"


def group_of(optimizer: Any, group: dict[str, Any]) -> OptimizerGroup:
    """One parameter group: its peak rate and its present one."""
    return group_evidence(optimizer, group, peak=peak_of(group), first=float(group["lr"]))


STEPS = 4
"""Optimizer steps after which enough of a loop was measured."""
BATCHES = 4
EVALUATION_BATCHES = 2
SECONDS = 30.0
"""A run is not followed for longer than this, from its first backward pass on."""
SHARE = 4
"""On a machine that others use, how much longer a run is followed: seconds in which it did not compute do not count."""
MOST_ROUNDS = 3
"""How often the training loader may be read again until a backward pass shows that the loop trains once more."""
MOST_STEPS_ON_A_BATCH = 32
SECONDS_ON, SECONDS_WITH_STAND_INS = 4.0, 12.0
"""How long training goes on at most, not measured, until the script evaluates: in the first half with all batches."""
LEAST_SECONDS_ON, SHARE_ON = 1.0, 0.3
"""It goes on for this share of the time until then, or so long at least: a probe takes little more than one step."""
LEAST_PASSES_ON = 256
"""For so many backward passes training goes on twice as long: each takes longer on a busy machine."""
LEAST_WAIT = 0.1
"""Seconds between two looks at the time."""


QUEUE = "/proc/self/schedstat"
"""Linux counts for how long the main thread was ready and had no core, in nanoseconds."""


def queued() -> float:
    """Seconds in which this process was ready and others had the cores; 0 where the system does not count them."""
    try:
        with open(QUEUE, "rb") as numbers:
            return int(numbers.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


class Worked:
    """Seconds since a moment in which the process could work: those in which others had the cores do not count."""

    def __init__(self, at: float = 0.0, computed: float = 0.0, waited: float = 0.0) -> None:
        self._at, self._computed, self._waited = at, computed, waited

    @classmethod
    def from_now(cls) -> Worked:
        """Counted from this moment on."""
        return cls(time.perf_counter(), time.process_time(), queued())

    def seconds(self) -> float:
        """So many until now: those of the clock, or where they are more than was computed, at least a part of them."""
        # On a machine with four processes for each core, 30 s of the clock are 8 s of work, in which a run may
        # not reach its evaluation. A process that waits computes nothing, so that the clock still counts in part.
        passed, computed = time.perf_counter() - self._at, time.process_time() - self._computed
        # The share is a guess, for systems that do not count: with eight processes for each core, it counts 1 s of work
        # where half of it was.
        return max(0.0, min(passed - (queued() - self._waited), max(computed, passed / SHARE)))


class Bounds:
    """Asked by the watch; `counts` are those of the loop's effects, `stand_ins` what was replaced until now."""

    def __init__(self, counts: Counter[str], stand_ins: Sequence[object] = ()) -> None:
        self._counts, self._stand_ins = counts, stand_ins
        self._since_start = self._since_follow_on = Worked()
        self._seconds_on = self._longest_on = SECONDS_ON
        self._passes_on = 0
        self._steps_before = 0

    def start(self) -> None:
        """A run is followed from now on."""
        self._since_start = Worked.from_now()

    def on_batch(self) -> None:
        """The loop asks its loader for a batch."""
        self._steps_before = self._counts["steps"]

    def is_late(self) -> bool:
        """Whether the run was followed for as long as it may be."""
        return self._since_start.seconds() > SECONDS

    def follow_on(self, on_end: Callable[[], None], elapsed: float) -> None:
        """Training goes on from now, without being measured; `on_end` is called if the script does something else.

        So many seconds have `elapsed` since the script began.
        """
        self._since_follow_on = Worked.from_now()
        self._passes_on = 0
        # Whether a script comes to its evaluation is what a probe with stand-ins is for.
        self._longest_on = SECONDS_WITH_STAND_INS if self._stand_ins else SECONDS_ON
        self._seconds_on = min(self._longest_on, max(LEAST_SECONDS_ON, SHARE_ON * elapsed))
        self._call_late(on_end, 2 * self._seconds_on)

    def _call_late(self, on_end: Callable[[], None], seconds: float) -> None:
        """Call a function once the process could work for so long, from a thread of its own."""

        def look() -> None:
            left = seconds - self._since_follow_on.seconds()
            if left > 0:
                self._call_in(left, look)
            else:
                on_end()

        self._call_in(seconds, look)

    def _call_in(self, seconds: float, function: Callable[[], None]) -> None:
        # A timer, because a script that computes without calling torch passes no hook at which the
        # time could be looked at.
        timer = threading.Timer(max(seconds, LEAST_WAIT), function)
        timer.daemon = True
        timer.start()

    def on_pass(self) -> None:
        """A backward pass of a training that goes on without being measured."""
        self._passes_on += 1

    def is_followed(self) -> bool:
        """Whether training went on for as long as it may."""
        # By the time alone, whether a training of one second is seen to its end would depend on the machine.
        is_short = self._passes_on < LEAST_PASSES_ON
        return self._since_follow_on.seconds() > (
            min(self._longest_on, 2 * self._seconds_on) if is_short else self._seconds_on
        )

    def is_hurried(self) -> bool:
        """Whether a round of the training loader is down to one batch, so that what follows all rounds is reached."""
        return self._since_follow_on.seconds() > self._seconds_on / 2

    def why_no_evaluation(self) -> str:
        """Why there was no evaluation when a loop is left."""
        if self.is_late():
            return f"the loop was followed for {SECONDS:g} s, which is the limit"
        return "no other loader was read after the first batches of training"

    def has_seen_enough(self, *, is_wasteful: bool) -> bool:
        """Whether the loop's loader may end: enough steps were taken, or none can be, or it took too long."""
        # Where all gradients are cleared before a step could use them, more batches show nothing new.
        is_taught = self._counts["steps"] >= STEPS or is_wasteful
        return (is_taught and self._counts["batches"] >= BATCHES) or self.is_late()

    def has_to_end(self, *, has_loader: bool) -> bool:
        """Whether a loop that no longer reads a loader, which could end, was observed for long enough."""
        steps = self._counts["steps"] - (self._steps_before if has_loader else 0)
        most = MOST_STEPS_ON_A_BATCH if has_loader else STEPS
        return steps >= most or (steps >= STEPS and self.is_late())

    def is_stuck(self, *, has_loader: bool) -> bool:
        """Whether a loop without a loader takes too long within its first steps, as with a closure."""
        return not has_loader and self.is_late()


MOST, MOST_CALLS = 64, 4


class Passes:
    """Passes and losses that wait for the backward pass that decides what they were for.

    `evaluated_losses` and `evaluated_shape`, the shape of the last output, are of those that were for evaluation.
    """

    def __init__(self, counts: Counts, odd_calls: OddCalls) -> None:
        self.counts = counts
        self._odd_calls = odd_calls
        self.waiting: list[Forward] = []
        self.losses: list[LossCall] = []
        self.evaluated_losses: list[float] = []
        self.evaluated_calls: list[LossEvidence] = []
        self.evaluated_shape: tuple[int, ...] = ()
        self.ids: Any = None
        self.mask: Any = None
        self._eval_at: Location | None = None
        self._eval_before: Location | None = None

    def reads(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """A whole module is called: the losses that follow are about the tokens that it reads."""
        self.ids, self.mask = ids_and_mask(args, kwargs) or (self.ids, self.mask)

    def on_eval_mode(self) -> None:
        """A module is put into eval mode: passes that train after that may owe it to this call."""
        frame = users_frame()
        self._eval_at = frame_location(frame)
        if self.counts["trained"] and self._eval_at is not None:
            self.counts.first_at.setdefault("evaluation_mode", self._eval_at)
        if self._eval_before is not None and self._eval_at == self._eval_before:
            self._odd_calls.note(OddCallKind.LEFT_IN_EVAL, "it was called before the training and again", frame)

    def add(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Forward | None:
        """A whole module gave its output; None if it trains nothing, or where enough passes are waiting.

        Losses train nothing, and neither do torchvision's transforms, which are modules and work row by row.
        """
        if isinstance(module, library("torch.nn").modules.loss._Loss) or len(self.waiting) >= MOST:
            return None
        # After the test for losses, because a loss may have parameters of its own (a temperature).
        if next(module.parameters(), None) is None:
            return None
        # Whether autograd recorded the pass, whatever the mode of the model is: `eval()` alone does not turn it off.
        records = any(tensor.requires_grad for tensor in tensors_in(output))
        # DDP, compile and Fabric wrap the module; modes and weights are those of the inner one.
        own = without_shells(module)
        location = frame_location(users_frame())
        forward = Forward(own, args, kwargs, output, records, modes_of(module), own, autocast_now(), location)
        self.waiting.append(forward)
        return forward

    @property
    def records(self) -> bool:
        """Whether autograd recorded one of them."""
        return any(forward.records for forward in self.waiting)

    def train(self) -> None:
        """A backward pass follows: the last pass that autograd recorded was for training."""
        # One backward pass, one training pass: earlier recorded passes are a teacher's, a reference model's, or an
        # evaluation that forgot `no_grad`.
        for forward in [forward for forward in self.waiting if forward.records][-1:]:
            is_in_eval_mode = bool(forward.modes) and not any(forward.modes)
            # A pass without gradients came between this call and the training: an evaluation, if the call comes again.
            is_evaluated = any(not each.records and each.module is forward.module for each in self.waiting)
            if is_in_eval_mode and is_evaluated and not self.counts["trained"]:
                self._eval_before = self._eval_at
            self.counts.note("trained", 1, forward.location)
            self.counts.note("trained_in_eval_mode", is_in_eval_mode, self._eval_at or forward.location)

    def on_loss(self, call: LossCall) -> None:
        """A loss function is called."""
        if len(self.losses) < MOST:
            self.losses.append(call)

    def clear(self) -> None:
        """Nothing is pending: the result of the passes is known, or is not needed."""
        self.waiting.clear()
        self.losses.clear()

    def evaluate(self, optimizers: Sequence[Any], but: Iteration | None = None) -> None:
        """No backward pass follows: those of models that an optimizer holds were for evaluation."""
        held = {key for optimizer in optimizers for key in held_by(optimizer)}
        trained = {shapes_of(group["params"]) for each in optimizers for group in each.param_groups[:1]}
        behind = but or Iteration()
        of_models: list[float] = []
        modules = set[int]()
        for forward in self.waiting:
            # Those of the present iteration belong to the backward pass that proved the new round.
            own = list(forward.module.parameters())
            # Weights that were loaded or averaged are those of a copy.
            is_trained = any(id(weight) in held for weight in own) or shapes_of(own) in trained
            if forward not in behind.forwards and is_trained:
                self.counts.note("evaluated", 1, forward.location)
                self.counts.note("evaluated_in_train_mode", any(forward.modes), forward.location)
                self.counts.note("recorded_for_nothing", forward.records, forward.location)
                modules.add(id(forward.module))
                self.evaluated_shape = shape_in(forward.output) or self.evaluated_shape
                of_models += loss_in(forward.output)
        calls = [call for call in self.losses if call not in behind.losses and call.result is not None]
        self.evaluated_losses += of_models or [number(call.result) for call in calls]
        self.evaluated_calls += map(loss_evidence, calls[: MOST_CALLS - len(self.evaluated_calls)])
        if len(modules) > 1:  # of which of them a metric judges is not known
            self.evaluated_shape = ()
        self.clear()
