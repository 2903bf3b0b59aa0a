"""A callback that follows a run of Lightning: which stage it is in, and what passes through it."""

from __future__ import annotations

import traceback
from typing import Any

from lintrain.evidence.run import StageName
from lintrain.runtime.child.kinds import is_row
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.lightning.lightning_run import LightningRun
from lintrain.runtime.frameworks.lightning.overfit import overfit_if_asked
from lintrain.runtime.frameworks.lightning.quiet import package_of
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.measure.seen import Iteration

DATA_HOOKS = ("prepare_data", "setup_data", "_call_setup_hook", "_request_dataloader")
"""Functions in which Lightning requests the data; an error below them belongs to the data set stage."""


class Guide:
    """Hooks of a callback, in the order in which Lightning calls them; an error belongs to the present `stage`."""

    def __init__(self, watch: Watch, run: LightningRun) -> None:
        self.watch = watch
        self.run = run
        self.stage = StageName.CONSTRUCTION
        self.has_validated = False
        self._logged: dict[str, Any] = {}

    def stage_of(self, error: BaseException) -> StageName:
        """The stage of an error that ended the call."""
        if self.stage is StageName.CONSTRUCTION:
            names = {step.name for step in traceback.extract_tb(error.__traceback__)}
            return StageName.DATASET if names & set(DATA_HOOKS) else StageName.CONSTRUCTION
        if self.stage is StageName.FORWARD and not self.run.module.automatic_optimization and self.watch.is_stepping:
            return StageName.STEP
        return self.stage

    def on_sanity_check_start(self, *_: Any) -> None:
        """Validation is tried before training."""
        self.stage = StageName.EVALUATION

    def on_train_start(self, *_: Any) -> None:
        """Training starts: its first batch comes next."""
        self.stage = StageName.BATCH

    def on_train_batch_start(self, _trainer: Any, _module: Any, batch: Any, *_: Any) -> None:
        """A batch is there."""
        self.stage = StageName.FORWARD
        self.watch.loaders.timed.on_batch(self.run.loader)
        self.watch.iteration = Iteration(batch)
        self.watch.effects.counts["batches"] += 1
        with self.watch.paused():
            self.run.on_batch_start(batch)

    def on_before_backward(self, *_: Any) -> None:
        """The loss is there."""
        self.stage = StageName.BACKWARD

    def on_after_backward(self, _trainer: Any, module: Any, *_: Any) -> None:
        """Gradients are there; by hand, another forward pass may follow."""
        self.stage = StageName.STEP if module.automatic_optimization else StageName.FORWARD

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """A batch was trained on."""
        is_last = trainer.fit_loop.epoch_loop._is_training_done
        self.watch.loaders.timed.on_batch_request(self.run.loader)
        with self.watch.paused():
            self.run.on_batch_end()
        if self.watch.bounds.is_late():
            self.run.session.shorten("training was stopped after 30 s")
            trainer.should_stop = True
        if is_last or trainer.should_stop:
            self.watch.ends_guided()
        self.stage = StageName.EVALUATION if is_last or trainer.should_stop else StageName.BATCH

    def on_validation_start(self, trainer: Any, *_: Any) -> None:
        """Validation begins."""
        self.run.evaluation.restart()
        self._logged = dict(trainer.callback_metrics)

    def on_validation_end(self, trainer: Any, *_: Any) -> None:
        """What validation logged is there."""
        self.run.evaluation.on_logged(trainer.callback_metrics, self._logged)

    on_test_start, on_test_end = on_validation_start, on_validation_end

    def on_validation_batch_start(
        self, trainer: Any, _module: Any, batch: Any, _index: int, dataloader_idx: int = 0
    ) -> None:
        """A batch of validation is there."""
        # The sanity check logs nothing that a callback may watch.
        self.has_validated = self.has_validated or not trainer.sanity_checking
        self._takes(trainer.val_dataloaders, batch, dataloader_idx)

    def on_test_batch_start(self, trainer: Any, _module: Any, batch: Any, _index: int, dataloader_idx: int = 0) -> None:
        """A batch of a test is there."""
        self._takes(trainer.test_dataloaders, batch, dataloader_idx)

    def on_predict_batch_start(
        self, trainer: Any, _module: Any, batch: Any, _index: int, dataloader_idx: int = 0
    ) -> None:
        """A batch to predict is there."""
        self._takes(trainer.predict_dataloaders, batch, dataloader_idx)

    def _takes(self, loaders: Any, batch: Any, index: int) -> None:
        flat: list[Any] = [*loaders] if is_row(loaders) else [loaders]
        if batch is not None and index < len(flat):
            self.run.on_evaluation_batch(flat[index], batch)

    def on_train_epoch_end(self, trainer: Any, *_: Any) -> None:
        """One epoch shows it all."""
        self.stage = StageName.EVALUATION
        trainer.should_stop = True

    def on_train_end(self, *_: Any) -> None:
        """Everything was measured, and the run is still set up."""
        with self.watch.paused():
            overfit_if_asked(self.run)


def callback_of(trainer: Any, watch: Watch, run: LightningRun) -> Any:
    """The guide as a callback of the Trainer's own library."""
    callback = library(f"{package_of(trainer)}.callbacks.callback").Callback
    return type("Guide", (Guide, callback), {})(watch, run)
