"""The parts of a training loop, measured in a short, correct loop of lintrain's own: clear, forward, backward,
step.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lintrain.evidence.run import Failure, Stage, StageName
from lintrain.model.location import Location
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.loop.batches import WatchedBatches
from lintrain.runtime.frameworks.loop.bounds import EVALUATION_BATCHES
from lintrain.runtime.frameworks.loop.loop_run import LoopRun
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.in_process.parts import NoLossError, Parts, device_of, on_device
from lintrain.runtime.in_process.restoring import as_before
from lintrain.runtime.in_process.session import InProcessSession, RunEnded
from lintrain.runtime.in_process.unhooking import hooked
from lintrain.runtime.measure.schedule import played_through


class PartsWatch(Watch):
    """A watch of a loop of lintrain's own: the location of the run is the call that requests it."""

    def __init__(self, session: InProcessSession, parts: Parts, call: Location | None) -> None:
        super().__init__(session)
        self.parts, self.call = parts, call
        self.optimizers = [getattr(parts.optimizer, "optimizer", parts.optimizer)]  # under accelerate's wrapper

    def on_optimizer(self, optimizer: Any) -> None:
        """The given optimizer is the only one."""

    def finds_no_batch(self) -> None:
        """The training loader is empty: nothing can be measured, and nothing could be trained."""
        run = self._enter(self.call, failed=StageName.BATCH)
        failure = Failure("ValueError", "the training loader yields no batch", self.call)
        run.record(Stage.failed(StageName.BATCH, failure))

    def _enter(self, location: Location | None, *, loss: Any = None, failed: StageName | None = None) -> LoopRun:
        return super()._enter(self.call or location, loss=loss, failed=failed)


def measure_parts(session: InProcessSession, parts: Parts, call: Location | None) -> None:
    """A few steps and two batches of evaluation; everything that was given is restored afterwards."""
    session.launcher = "torch"  # whatever else runs in this process
    watch = session.watch = PartsWatch(session, parts, call)
    with as_before(parts), hooked(watch, but=("DataLoader",)):
        without_workers(session, parts.loader, parts.eval_loader)
        session.note("lintrain ran its own loop: what yours does around model, loss and optimizer was not measured")
        try:
            _train(watch, parts)
            if watch.run is None:
                watch.finds_no_batch()
            _evaluate(watch, parts)
        except RunEnded:
            return
        except NoLossError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever the collator, the model or the loss raises is the answer
            session.on_error(error)
        else:
            session.on_exit()


def without_workers(session: InProcessSession, *loaders: Any) -> None:
    """An error in a worker process hides the user's line, and what a worker changes cannot be restored."""
    for loader in loaders:
        if getattr(loader, "num_workers", 0):
            session.shorten("data loaders run without worker processes")
            # a loader refuses that some of these are set as attributes
            loader.__dict__.update(num_workers=0, prefetch_factor=None, timeout=0, persistent_workers=False)


def _train(watch: PartsWatch, parts: Parts) -> None:
    parts.model.train()
    watch.effects.ledger.watch(watch.optimizers[0])
    for batch in WatchedBatches(watch, parts.loader, iter(parts.loader)):
        parts.optimizer.zero_grad()
        loss = parts.loss_of(on_device(batch, device_of(parts.model)))
        loss.backward()
        if parts.max_grad_norm:
            library("torch.nn.utils").clip_grad_norm_(parts.model.parameters(), parts.max_grad_norm)
        parts.optimizer.step()
    if watch.run is not None:
        _play_schedule(watch.run, parts)


def _play_schedule(run: LoopRun, parts: Parts) -> None:
    if parts.scheduler is not None and parts.steps is not None:
        try:
            run.measured(schedule=played_through(parts.scheduler, parts.steps))
        except Exception as error:  # noqa: BLE001 - a class of the user's own may not bear being copied
            run.session.note(f"the schedule was not simulated: {type(error).__name__}: {error}")


def _evaluate(watch: PartsWatch, parts: Parts) -> None:
    if parts.eval_loader is None:
        return
    parts.model.eval()
    loader: Iterable[Any] = parts.eval_loader
    with library("torch").no_grad():
        for number, batch in enumerate(WatchedBatches(watch, loader, iter(loader)), start=1):
            parts.loss_of(on_device(batch, device_of(parts.model)))
            if number == EVALUATION_BATCHES:
                return
