"""A loop of the script's own under watch: from its first backward pass until enough of it was measured."""

from __future__ import annotations

import functools
import threading
from typing import Any

from lintrain.evidence.run import StageName
from lintrain.model.location import Location
from lintrain.runtime.child.following import is_about_names
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.library import gpu_answers
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import Line, is_behind, lines_now
from lintrain.runtime.frameworks.loop.activations import chooses_reduction, library_frame
from lintrain.runtime.frameworks.loop.loop_run import LoopRun
from lintrain.runtime.frameworks.loop.loop_state import (
    BATCHES,
    EVALUATION_BATCHES,
    MOST_ROUNDS,
    SECONDS_ON,
    LoopState,
    Passes,
)
from lintrain.runtime.frameworks.loop.metrics import MetricUses
from lintrain.runtime.measure.held_values import made_by_statement, planned_rounds
from lintrain.runtime.measure.losses import is_rounded
from lintrain.runtime.measure.model import has_batch_norm
from lintrain.runtime.measure.seen import Iteration, LossCall


class Watch(LoopState):
    """Decides what each event in torch means for the loop; `run` exists from the first backward pass on."""

    def __init__(self, session: ProbeSession) -> None:
        super().__init__(session)
        self.run: LoopRun | None = None
        self.metrics = MetricUses(self)
        self.is_in_main_thread = self._went_backward = False
        self.taken = 0
        self.phase = StageName.BATCH
        self._last_step: list[Line] = []
        self._ending = threading.Lock()
        """Taken for good by the thread that ends the run."""

    def start_over(self) -> None:
        """Forget the loop: the script begins again. The hooks in torch and in metrics keep their objects."""
        metrics, odd_calls = self.metrics, self.odd_calls
        self.ran_lines.stop()
        odd_calls.__init__(lambda: self.is_on, lambda: self.iteration.rows())  # type: ignore[misc] # of this very class
        self.__init__(self.session)  # type: ignore[misc] # as above
        metrics.__init__(self)  # type: ignore[misc] # as above
        self.metrics, self.odd_calls = metrics, odd_calls
        self.passes = Passes(self.effects.counts, odd_calls)

    @property
    def is_evaluating(self) -> bool:
        """Whether what happens now is evaluation: never before the first backward pass."""
        return self.run is not None and self.run.is_evaluating

    # loaders

    def on_loader_start(self, loader: Any) -> bool:
        """A loader is iterated; False if its batches need no watching. Its second round may be an evaluation."""
        if self.is_guided:
            return False
        if self.run is not None and loader is self.loader:
            self._settle(self.run)
            self.rounds += 1
            if self.bounds.is_followed() if self.follows_on else self.rounds > MOST_ROUNDS:
                self._leave(self.run)
        self.loaders.on_loader_start(loader)
        return bool(self.optimizers)

    def on_batch_request(self, loader: Any) -> None:
        """A batch is about to be loaded."""
        self.is_taking = True
        self.bounds.on_batch()
        if self.run is None:
            self.loader = loader
        if loader is self.loader:
            self.phase = StageName.BATCH
            self.taken += 1

    def on_batch(self, loader: Any, batch: Any) -> None:
        """A loader gave a batch."""
        self.is_taking = False
        # Before the first backward pass the last loader that gave a batch counts as the training's: a script may read
        # its validation loader first, to show a sample.
        if self.run is None or loader is self.loader:
            self.loader = loader
            self.phase = StageName.FORWARD
            self.iteration = Iteration(batch, earlier=self.iteration.batch)
            if not self.rounds:
                self.effects.on_batch()
            if self.run is not None and len(self.run.batches) < BATCHES:
                self.run.batches.append(batch)
        else:
            self.run.on_evaluation_batch(loader, batch)

    def given_batch_for(self, batch: Any) -> Any:
        """The batch of a file that the user gave, in place of the first one before training begins."""
        return batch if self.run is not None else self.session.given_batch.instead_of(batch)

    def on_loader_end(self, loader: Any) -> None:
        """A loader has no more batches."""
        self.is_taking = False
        if self.run is not None and loader is self.loader:
            self._settle(self.run)

    def has_enough(self, loader: Any, taken: int) -> bool:
        """Whether a loader has given all the batches that are needed."""
        if self.run is None:
            return False
        if loader is self.loader and not self.rounds:
            return self.bounds.has_seen_enough(is_wasteful=self.effects.ledger.is_wasteful())
        if loader is self.loader and self.follows_on:
            return taken > 0 and self.bounds.is_hurried()
        # Before training is settled another loader may be a second data source of the step, and is not cut short.
        return self.run.is_settled and taken >= EVALUATION_BATCHES

    def gives_more(self, loader: Any) -> bool:
        """Whether a script that asks with `next`, and so counts on its batches, gets more than are measured.

        It trains on until it evaluates, and evaluates to the end, unless that takes too long.
        """
        if self.run is not None and loader is self.loader:
            self._follow_on(self.run)
            return True
        return self.run is not None and self.run.settled_for < SECONDS_ON

    def lone_row(self, loader: Any) -> Any:
        """The last batch of a loader, once, if it has a single row and the model normalizes over rows; else None."""
        if self.run is None or loader is not self.loader or self.rounds or not has_batch_norm(self.run.model):
            return None
        with self.paused():
            return self.loaders.lone_row(loader)

    def on_early_end(self, loader: Any, taken: int, *, can_end: bool) -> None:
        """A loader is about to say that it has no more batches than those taken."""
        self.loaders.on_early_end(loader, taken)
        if self.run is not None and (loader is self.loader or not can_end):
            self._settle(self.run)
            # For a script's own `next`, StopIteration would be an error of lintrain's making: the process ends.
            if not can_end or self.bounds.is_late():
                self.finish()

    # models and losses

    def on_forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A whole module gave its output."""
        if self.run is not None and not self.follows_on:
            self.run.memory.on_forward()
        # A module that is called before any optimizer exists is not yet the loop's: an embedding of a data set, a
        # warm-up call.
        is_of_loop = self.optimizers and not self.is_taking  # a data set may call modules too
        if is_of_loop and (forward := self.passes.add(module, args, kwargs, output)) is not None:
            self._restart()
            self.odd_calls.on_forward(forward)
            if self.run is not None:
                self.run.evaluation.on_forward(forward.output)
            if forward.records:
                self.effects.on_training_pass()
            self.iteration.on_forward(forward)

    def on_loss(self, name: str, given: Any, target: Any, rest: tuple[Any, ...], options: dict[str, Any]) -> LossCall:
        """A loss function is called."""
        self._restart()
        location = frame_location(users_frame())
        call = LossCall(name, given, target, options, None, location, self.passes.ids, self.passes.mask, rest)
        call.is_chosen = name != "kl_div" or chooses_reduction(library_frame(), rest, options)
        if is_rounded(given):
            self.effects.counts.note("rounded", 1, made_by_statement(given) or location)
        if name == "binary_cross_entropy_with_logits":
            self.odd_calls.on_logits(given, self.iteration.forwards)
        self.odd_calls.on_loss(name, given, target, self.iteration.forwards)
        self.iteration.on_loss(call)
        self.passes.on_loss(call)
        return call

    def _restart(self) -> None:
        """Without a loader that says so, a batch ends with its backward pass: its graph is not held beyond it."""
        if self._went_backward and self.loader is None and not self.is_guided:
            self.iteration = Iteration()
            self.phase = StageName.FORWARD
            self.taken += 1
        self._went_backward = False

    def on_backward_start(self, loss: Any) -> None:
        """Gradients are about to be made."""
        # Gradients without an optimizer of torch: the script updates its weights by hand. Only counted, to say so in
        # the end.
        if not self.optimizers:
            self.backwards_by_hand += 1
            return
        if self.run is not None and not self.is_guided and self.bounds.is_stuck(has_loader=self.loader is not None):
            self.finish()
        run = self.run or self._enter(frame_location(users_frame()), loss=loss)
        self.passes.train()
        # Passes since the loader started again had no backward pass: they were an evaluation. This is the first proof
        # that the loop trains again, so everything before it has been seen.
        if self.rounds or self.follows_on:  # it trains once more: what it did in between was evaluation
            self.comes_round |= self.rounds > 0
            self.passes.evaluate(self.optimizers, but=self.iteration)
            self._follow_on(run)
            return
        self.passes.clear()
        with self.paused():
            run.on_backward_start(self.iteration, loss)
        self.effects.on_inputs(self.iteration)
        self.effects.on_backward_start(loss)
        self.phase = StageName.BACKWARD

    def _follow_on(self, run: LoopRun) -> None:
        """Enough of the training was measured; unless an evaluation was seen, the script trains on until it comes."""
        is_seen = run.evaluation.is_seen or self.effects.counts["evaluated"]
        is_asked_more = self.session.overfit or self.session.also
        if is_seen or is_asked_more or self.is_awaited or (self.follows_on and self.bounds.is_followed()):
            self._leave(run)
        elif not self.follows_on:
            self._settle(run)
            self.follows_on = True
            self.bounds.follow_on(functools.partial(self._end_late, run), self.session.elapsed())

    def _end_late(self, run: LoopRun) -> None:
        """End the process from another thread: the script is busy with what is no training."""
        if self.run is run and not self.is_over:
            self.finish()

    def on_backward_end(self) -> None:
        """Gradients are there."""
        self._went_backward = True
        if self.follows_on:
            return
        self.phase = StageName.STEP
        self.effects.ledger.on_backward_end()
        if self.run is not None:
            with self.paused():
                self.run.on_backward_end()

    # steps

    def on_optimizer(self, optimizer: Any) -> None:
        """The script made an optimizer."""
        if self.is_on:
            self.optimizers.append(optimizer)
            self.odd_calls.on_optimizer(optimizer, users_frame())
            self.effects.ledger.watch(optimizer)

    def on_clipping(self, parameters: list[Any], limit: Any) -> None:
        """Gradients are about to be clipped."""
        if self.follows_on:
            return
        self.effects.on_clipping(parameters, None if limit is None else float(limit))
        if self.run is not None and limit is not None:
            self.run.limit = float(limit)

    def on_schedule_step(self, schedule: Any, at: Location | None) -> None:
        """A schedule goes on by one; `at` is where the script does it itself."""
        if self.is_on and not self.follows_on:
            is_training = self.run is not None and not self.run.is_settled
            steps = self.effects.counts["steps"]
            self.schedules.on_schedule_step(schedule, optimizer_steps=steps, is_training=is_training, at=at)

    def on_step_start(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An optimizer is about to step."""
        if not self.session.is_root and not self.session.measuring:
            self.session.on_training_elsewhere()
        if self.follows_on or not (self.is_on and optimizer.param_groups):  # Lightning has one that stands for none
            return
        # With a closure (LBFGS) the gradients are made inside `step`: nothing can be read before it.
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)  # the first is the optimizer
        # A step without a backward pass before it: the run starts here, to show that it steps on nothing.
        if self.run is None and closure is None:
            self._enter(frame_location(users_frame()))
        self.effects.on_step_start(optimizer, self.iteration.forwards, has_closure=closure is not None)
        self.is_stepping = True
        if self.run is not None:
            self.run.memory.on_step_start(optimizer, has_closure=closure is not None)
            with self.paused():
                self.run.on_step_start(optimizer)

    def on_step_end(self, optimizer: Any, _args: tuple[Any, ...], _kwargs: dict[str, Any]) -> None:
        """An optimizer has stepped."""
        self.is_stepping = False
        if self.follows_on or not self.is_on or self.run is None:
            return
        self.effects.on_step_end(optimizer)
        self._last_step = lines_now()
        with self.paused():
            self.run.on_step_end(optimizer)
        # After the weights were compared: what that allocates must not be counted as the step's.
        self.run.memory.on_step_end(optimizer)
        if not self.is_guided and self.bounds.has_to_end(has_loader=self.loader is not None):
            self._follow_on(self.run)

    # the run

    def guided_by(self, run: LoopRun) -> None:
        """A library takes over: it trains what it was given, and reports to `run`."""
        self.bounds.start()
        self.run, self.is_guided = run, True

    def on_library(self) -> None:
        """A library trains next."""

    def ends_guided(self) -> None:
        """The library says that the training part is over."""
        if self.run is not None:
            self._settle(self.run)

    def _enter(self, location: Location | None, *, loss: Any = None, failed: StageName | None = None) -> LoopRun:
        self.bounds.start()
        self.is_in_main_thread = threading.current_thread() is threading.main_thread()
        self.rounds_planned, self.is_cut_short = planned_rounds()
        self.run = LoopRun(self.session, location, self, self.metrics)
        if self.session.may_trace:
            self.ran_lines.start()
        with self.paused():
            self.run.enter(self.loader, self.iteration, loss=loss, failed=failed)
        return self.run

    def _settle(self, run: LoopRun) -> None:
        """The training part was seen; what follows until the loop comes round again is evaluation."""
        if not run.is_settled:
            with self.paused():
                run.settle()
            self.passes.clear()

    def _leave(self, _run: LoopRun) -> None:
        """Enough of a run was seen."""
        self.finish()

    def finish(self) -> None:
        """End the process: the loop comes round again, or nothing more of it can be seen."""
        if self.run is not None:
            self._ending.acquire()
            self._settle(self.run)
            self.close(self.run)
            self.session.finish()

    def on_exit(self) -> bool:
        """The script ended; whether there was a run that is measured now."""
        if self.run is None:
            return False
        self._ending.acquire()
        try:
            self._settle(self.run)
            self.is_over = True
            self.close(self.run)
        except BaseException:
            self._ending.release()  # whoever catches it ends the process once more
            raise
        return True

    def close(self, run: LoopRun) -> None:
        """Nothing more of a run will be seen."""
        self.ran_lines.stop()
        if gpu_answers():
            self.passes.evaluate(self.optimizers)
        with self.paused():
            run.close()

    def is_behind(self, error: BaseException) -> bool:
        """Whether the script continued after a step outside of any loop, and ends with an error further below."""
        follows = self.run is not None and not self.run.is_settled and not self.is_guided
        return follows and is_behind(error, self._last_step)

    def on_error(self, error: BaseException) -> bool:
        """The script ends with an error; whether that is the answer of a stage of a run."""
        if self.run is None and not self._was_training():
            return False
        # Training that was cut short may be what the script fails on, as with curves of unequal lengths.
        is_cut = self._stage() is StageName.EVALUATION and self.loaders.caused(error)
        if is_cut or (self.follows_on and not is_about_names(error)):
            self.passes.evaluate(self.optimizers, but=self.iteration)
            return self.on_exit()
        stage = self._stage()
        # Passes that an error left without their backward pass would look like an evaluation.
        if stage is not StageName.EVALUATION:
            self.passes.clear()  # the error came between them and their backward pass
        run = self.run or self._enter(None, failed=stage)
        with self.paused():
            run.on_error(error, stage, self.taken)
        self.close(run)
        return True

    def _was_training(self) -> bool:
        """Whether the script stood in its loop before the first backward pass: a loader open, or a model called."""
        # Before the first backward pass an error is a stage's result only if the loop has visibly begun.
        return bool(self.optimizers) and (self.is_taking or self.iteration.batch is not None or self.passes.records)

    def _stage(self) -> StageName:
        """The stage of a run that the script is in."""
        if self.run is not None and self.run.is_settled and not (self.is_taking and self.phase is StageName.BATCH):
            return StageName.EVALUATION
        if self.is_stepping:
            return StageName.STEP
        return StageName.BATCH if self.is_taking else self.phase
