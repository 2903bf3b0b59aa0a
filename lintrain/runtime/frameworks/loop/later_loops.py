"""Loops of the script's own after a measured one: each is a run of its own.

The measured loop runs on with one batch a round, so that the script comes to what follows it.
"""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import StageName
from lintrain.model.location import Location
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import Line, lines_now, lines_of
from lintrain.runtime.frameworks.loop.loop_run import LoopRun
from lintrain.runtime.frameworks.loop.loop_state import MOST
from lintrain.runtime.frameworks.loop.model import held_by
from lintrain.runtime.frameworks.loop.training_lines import (
    Lines,
    are_one_training,
    comes_again,
    is_in_loop,
    is_later_loop,
    joined,
    outside_in,
    trains_behind,
)
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.measure.gradients import leaves_of
from lintrain.runtime.measure.seen import Iteration, LossCall


class LoopAfterLoop(Watch):
    """The watch of a script with several trainings: each is a run of its own, within the bounds of the session.

    Until the next one begins, `is_between` holds and nothing of the measured loop counts any more.
    """

    def __init__(self, session: ProbeSession) -> None:
        super().__init__(session)
        self._lines: Lines = ()
        self._made: dict[int, Lines] = {}
        self._since: list[Any] = []  # optimizers that were made since the run began
        self._stepped: dict[int, Any] = {}
        self._measured: list[Any] = []
        self._unmeasured: list[Any] = []  # of another model that the same loop trains
        self._before: Lines = ()
        self._asked: dict[int, Line] = {}
        self._asked_at: set[Line] = set()
        self._coming: tuple[Any, Iteration] = (None, Iteration())
        self._accounts: dict[int, Location | None] = {}
        self._earlier_schedules = self.schedules
        self._first_made: Lines = ()

    @property
    def trains_behind(self) -> bool:
        """Whether the text behind this loop trains."""
        return self.run is not None and trains_behind(self._lines, self._made_at())

    # what is seen of the loop

    def on_loader_start(self, loader: Any) -> bool:
        """A loader is iterated: remember where."""
        lines = lines_now()
        if lines:
            self._asked[id(loader)] = lines[0]
            if not self.is_between:
                self._asked_at.add(lines[0])
        return super().on_loader_start(loader)

    def has_enough(self, loader: Any, taken: int) -> bool:
        """Between two trainings one batch is enough for the loops of the first."""
        if self.is_between:
            return taken > 0 and self._asked.get(id(loader)) in self._asked_at
        return super().has_enough(loader, taken)

    def on_batch(self, loader: Any, batch: Any) -> None:
        """A loader gave a batch, which may be the first of another training."""
        if self.is_between:
            self.passes.clear()
            self.is_taking, self.loader = False, loader
            self.phase, self.iteration = StageName.FORWARD, Iteration(batch)
            return
        if self.run is not None and not self.is_guided:
            self._coming = (loader, Iteration(batch))
            if loader is self.loader and not self.run.is_settled:
                self.run.evaluation.leave_out_unread()
        super().on_batch(loader, batch)

    def on_forward(self, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """A whole module gave its output."""
        # Between two trainings nothing clears the passes, and an inference over a data set would hold every output.
        if self.is_between and len(self.passes.waiting) + 1 >= MOST:
            self.passes.clear()
            self.iteration.forwards.clear()
        before = len(self.passes.waiting)
        super().on_forward(module, args, kwargs, output)
        if len(self.passes.waiting) > before:
            self._coming[1].forwards.append(self.passes.waiting[-1])

    def on_loss(self, name: str, given: Any, target: Any, rest: tuple[Any, ...], options: dict[str, Any]) -> LossCall:
        """A loss function is called."""
        call = super().on_loss(name, given, target, rest, options)
        self._coming[1].on_loss(call)
        return call

    def on_optimizer(self, optimizer: Any) -> None:
        """The script made an optimizer."""
        super().on_optimizer(optimizer)
        if self.is_on:
            self._made[id(optimizer)] = outside_in()
            self._since.append(optimizer)

    def on_step_start(self, optimizer: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """An optimizer is about to step; between two trainings this is the one that was measured."""
        if self.is_between:
            return
        if self.is_on and self.run is not None and not self.is_guided:
            self._stepped[id(optimizer)] = optimizer
            # An optimizer of the training before may be used again, after the run that knew it was closed.
            if all(optimizer is not each for each in self.optimizers):
                self.optimizers.append(optimizer)
        super().on_step_start(optimizer, args, kwargs)

    def on_clipping(self, parameters: list[Any], limit: Any) -> None:
        """Gradients are about to be clipped."""
        if not self.is_between:
            super().on_clipping(parameters, limit)

    def on_schedule_step(self, schedule: Any, at: Location | None) -> None:
        """A schedule goes on by one."""
        if not self.is_between:
            super().on_schedule_step(schedule, at)

    # from one training to the next

    def on_backward_start(self, loss: Any) -> None:
        """Gradients are about to be made: of the present training, or of another one."""
        lines = outside_in() if self.is_on and not self.is_guided else ()
        if self.follows_on:
            self.bounds.on_pass()
        if self.is_between and lines:
            if not self._is_another(lines, loss):
                self._forget()
                return
            self._begin(loss)
        elif self.run is not None and lines and self._is_another(lines, loss) and self._may_follow(self.run):
            self._change_over(self.run, loss)
        is_first = self.run is None
        if self.run is not None and not self.is_guided:
            if self._trains_on(self.run, lines):
                self._begin_round(self.run)
            else:
                self._flush(self.run)
        super().on_backward_start(loss)
        if is_first and self.run is not None:
            self._lines, self._since = lines, []
        self._coming = (None, Iteration())

    def _is_another(self, lines: Lines, loss: Any) -> bool:
        """Whether a backward pass is one of another training than the measured one."""
        first, made = (self._before, self._first_made) if self.is_between else (self._lines, self._made_at())
        # Outside of any loop, the next backward pass may be the second statement of one training.
        if not first or not is_in_loop(first, made):
            return False
        if lines != first and not are_one_training(first, lines, made):
            return True
        if not (self._since or self._unmeasured):
            return False
        # The graph decides where the lines do not: a GAN steps two optimizers on one line of a helper.
        leaves = (leaves_of(loss) or {}).keys()
        if self._unmeasured and leaves & held_by(*self._unmeasured):
            return True
        return bool(leaves & held_by(*self._since)) and not leaves & held_by(*self._measured, *self._stepped.values())

    def _trains_on(self, run: LoopRun, lines: Lines) -> bool:
        """Whether the batch that came last, of a loader not seen before, is one of the measured training."""
        # A script that makes its loader in each epoch: its second one is no evaluation.
        loader = self._coming[0]
        return lines == self._lines and run.is_settled and loader is not self.loader and run.evaluation.awaits(loader)

    def _begin_round(self, run: LoopRun) -> None:
        """The training goes on with another loader."""
        self.loader, self.iteration = self._coming
        run.evaluation.forget(self.loader)
        self.rounds += 1

    def _forget(self) -> None:
        """What the measured loop did until now is not looked at."""
        self.passes.clear()
        if not self._unmeasured:  # another model learns from the same batch
            self.loader, self.iteration = None, Iteration()

    def _flush(self, run: LoopRun) -> None:
        if run.evaluation.is_waiting:
            with self.paused():
                run.evaluation.flush()

    def _made_at(self) -> Lines:
        """Where the optimizer of the run was made; of one that no line of the script made, nowhere."""
        own = self.run.optimizers if self.run is not None else ()
        return next((self._made[id(each)] for each in own if id(each) in self._made), ())

    def _may_follow(self, run: LoopRun) -> bool:
        return self.session.may_continue and self.is_in_main_thread and not run.has_failed

    @property
    def is_awaited(self) -> bool:
        """Whether the loop trains another model too, which is measured next."""
        return self.run is not None and self._may_follow(self.run) and bool(self._others(self.run))

    def _others(self, run: LoopRun) -> list[Any]:
        """Optimizers of the loop whose models were not measured."""
        known = [*self._measured, *run.optimizers]
        return [each for each in self._stepped.values() if all(each is not other for other in known)]

    def _leave(self, run: LoopRun) -> None:
        """The loop comes round again: end, unless the script trains something else in it or after it."""
        unmeasured = self._others(run)
        if not (
            self._may_follow(run) and (unmeasured or self.trains_behind or comes_again(self._lines, self._made_at()))
        ):
            self.finish()
            return
        self._close_and_go_on(run, unmeasured)

    def on_library(self) -> None:
        """A library trains next: the loop before it is over."""
        if self.run is not None and not self.is_guided and self._may_follow(self.run):
            self._close_and_go_on(self.run, [])

    def guided_by(self, run: LoopRun) -> None:
        """A library takes over."""
        if self.is_between:
            self.is_between, self.optimizers = False, []
        super().guided_by(run)

    def _change_over(self, run: LoopRun, loss: Any) -> None:
        """Another training begins while the present one is still open."""
        self._move_on(run)
        self._begin(loss)

    def _move_on(self, run: LoopRun) -> None:
        """Close the present run; what came since its last backward pass belongs to another training."""
        # The batch and passes since the last backward pass: by the time that the new one proves another training, they
        # were counted as the old one's.
        loader, iteration = self._coming
        run.evaluation.forget(loader)
        if run.is_settled:
            self.passes.evaluate(self.optimizers, but=iteration)
        self._close_and_go_on(run, [])
        self.loader, self.iteration = loader, iteration
        self.passes.waiting, self.passes.losses = list(iteration.forwards), list(iteration.losses)

    def _close_and_go_on(self, run: LoopRun, unmeasured: list[Any]) -> None:
        """Close the run; the script continues, and the next training is a run of its own."""
        # The timer of the run may end the process at the same moment. It then waits for this lock for good, and the new
        # run gets one of its own.
        self._ending.acquire()
        self._settle(run)
        self.close(run)
        lines, made, since, asked, asked_at = self._lines, self._made, self._since, self._asked, self._asked_at
        measured = [*self._measured, *self._stepped.values()]
        measured = [each for each in measured if all(each is not other for other in unmeasured)]
        # `start_over` of the session empties the watch. Optimizers survive it, for the next training may use
        # one that exists already.
        kept = {id(each): each for each in (*self.optimizers, *self._measured)}
        accounts, schedules = self.effects.ledger.made_at(), self.schedules
        first_made, loader, batch = self._made_at(), self.loader, self.iteration.batch
        self.session.continue_after_call(is_new=True)
        self.is_between, self._before, self._made = True, lines, made
        self._since = [each for each in since if all(each is not other for other in measured)]
        self._asked, self._asked_at = asked, asked_at
        self._measured, self._unmeasured, self.optimizers = measured, unmeasured, list(kept.values())
        if unmeasured:
            self.loader, self.iteration = loader, Iteration(batch)
        self._accounts, self._earlier_schedules, self._first_made = accounts, schedules, first_made

    def _begin(self, loss: Any) -> None:
        """The next training begins with a backward pass: of its optimizers those count that may step in it."""
        leaves = (leaves_of(loss) or {}).keys()
        fresh = [each for each in self.optimizers if all(each is not other for other in self._measured)]
        is_of_fresh = bool(leaves & held_by(*fresh))
        self.is_between = False
        self.focus = self._unmeasured if leaves & held_by(*self._unmeasured) else []
        self._unmeasured = []
        every, self.optimizers = self.optimizers, fresh if is_of_fresh and not self.focus else self.optimizers
        self.earlier = [each for each in every if all(each is not own for own in self.optimizers)]
        for each in self.optimizers:
            self.effects.ledger.watch(each, self._accounts.get(id(each)))
        self.schedules.take_over(self._earlier_schedules, self.optimizers)
        self.taken = 1
        if self.loader is not None:
            self.effects.on_batch()

    def is_in_next(self, error: BaseException) -> bool:
        """Whether an error comes from a loop that trains and is not the measured one."""
        first, made = (self._before, self._first_made) if self.is_between else (self._lines, self._made_at())
        lines = joined(first, tuple(lines_of(error)))
        return bool(lines) and is_in_loop(first, made) and is_later_loop(lines, first, made)

    def on_error(self, error: BaseException) -> bool:
        """The script ends with an error, which may be one of another loop than the measured one."""
        if self.is_guided or not (self.is_between or self.run is not None):
            return super().on_error(error)
        # The rounds of folds train in one loop, whose evaluation is the measured one's if the probe ended it early.
        is_of_next = self.is_in_next(error) and not self.loaders.caused(error)
        if self.is_between and not is_of_next:
            return False
        if self.run is not None and is_of_next and self._may_follow(self.run):
            self._move_on(self.run)
            self.phase = StageName.FORWARD
        self.is_between = False
        return super().on_error(error)
