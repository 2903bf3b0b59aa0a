"""A callback that follows a run of Lightning: which stage it is in, and what passes through it.

The overfit stage of a run of Lightning: its own `training_step`, repeated on one batch.
"""

from __future__ import annotations

import functools
import traceback
from collections import OrderedDict
from typing import Any

from lintrain.evidence.run import BatchAnswers, StageName
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import is_mapping, is_row, library
from lintrain.runtime.frameworks.driver import NO_STEP
from lintrain.runtime.frameworks.lightning.lightning_run import LightningRun
from lintrain.runtime.frameworks.lightning.quiet import package_of
from lintrain.runtime.frameworks.loop.watch import Watch
from lintrain.runtime.measure.descents import FACTORS, Descents, answers_in_batch, answers_of
from lintrain.runtime.measure.predictions import IGNORED, number
from lintrain.runtime.measure.seen import Iteration, LossCall, rows_of, seen_losses
from lintrain.runtime.measure.weights import restore

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
            # Before the loop, set-up and data are one call of Lightning: only the traceback tells them apart.
            names = {step.name for step in traceback.extract_tb(error.__traceback__)}
            return StageName.DATASET if names & set(DATA_HOOKS) else StageName.CONSTRUCTION
        # With manual optimization the step is a line of `training_step`, which a callback sees only
        # before and after as a whole.
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
        # Read before the measurements: Lightning decides on it by its counters, and `should_stop` may be set below.
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
        # A copy: Lightning updates its dictionary in place, and what training logged under a name is
        # no result of validation.
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


def overfit_if_asked(run: LightningRun) -> None:
    """On request: overfit the first batch, from the weights before the first step."""
    if not run.is_asked(StageName.OVERFIT):
        return
    if not run.passed(StageName.STEP) or not run.passed(StageName.BATCH):
        run.skip(StageName.OVERFIT, f"{NO_STEP} on a batch of a loader")
    elif not run.module.automatic_optimization:
        run.skip(StageName.OVERFIT, "the module uses manual optimization")
    else:
        cannot = "`training_step` cannot be called alone"
        run.attempt_extra(StageName.OVERFIT, lambda: _overfit_one_batch(run), cannot)


def _overfit_one_batch(run: LightningRun) -> None:
    """Steps on the first batch from the first weights, at each of three learning rates."""
    batch, (optimizer,) = run.batches[0], run.optimizers
    before, rates = run.first_weights, run.peak_rates
    outputs: list[Any] = []
    # `training_step` returns the loss alone; the outputs of the model are seen only from outside.
    watching = run.model.register_forward_hook(functools.partial(_keep, outputs))
    descents = Descents(run, run.session.overfit)
    for factor in FACTORS:
        restore(run, before)
        # Momentum of the steps before would carry the first series over.
        optimizer.state.clear()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        _descend(run, batch, descents, outputs, optimizer)
    for fresh in descents.sound_optimizers(run.module.parameters()):
        restore(run, before)
        _descend(run, batch, descents, outputs, fresh)
    restore(run, before)
    watching.remove()
    rows = rows_of(batch) if is_mapping(batch) else rows_of({"first": next(iter(batch), None)})
    run.measured(overfit=descents.evidence(max(rates, default=0.0), rows))


def _descend(run: LightningRun, batch: Any, descents: Descents, outputs: list[Any], optimizer: Any) -> None:
    """One run of steps; dropout is off, and nothing is logged."""
    run.module.eval()
    # `log` raises here: Lightning allows it only in some of its hooks.
    quiet = replaced(run.module, log=_nothing, log_dict=_nothing)
    with quiet, library("torch").enable_grad(), seen_losses() as calls:

        def take_step() -> float:
            made: list[float] = []
            calls.clear()
            optimizer.step(functools.partial(_closure, run, batch, made, optimizer))
            return made[0]

        descents.descend(take_step, lambda: _answers(run, batch, outputs, calls))
    run.module.train()


def _answers(run: LightningRun, batch: Any, outputs: list[Any], calls: list[LossCall]) -> BatchAnswers:
    """Those in the output of the model, else what its loss was given."""
    found = answers_in_batch(run, batch, outputs[-1] if outputs else None)
    if found.accuracy is not None or not calls:
        return found
    return answers_of(calls[-1].input, calls[-1].target, calls[-1].options.get("ignore_index", IGNORED))


def _closure(run: LightningRun, batch: Any, made: list[float], optimizer: Any) -> Any:
    """One pass forward and backward, clipped; some optimizers ask for several in one step."""
    loss = _loss(run, batch)
    made.append(number(loss))
    optimizer.zero_grad()
    loss.backward()
    run.module.configure_gradient_clipping(
        optimizer,
        gradient_clip_val=run.trainer.gradient_clip_val,
        gradient_clip_algorithm=run.trainer.gradient_clip_algorithm,
    )
    return loss


def _loss(run: LightningRun, batch: Any) -> Any:
    """The loss of the first batch; its number stays the same, for it is the same batch."""
    # Lightning passes the batch index only to a `training_step` that has the parameter, so the
    # library builds the arguments.
    arguments = run.trainer.fit_loop.epoch_loop._build_kwargs(OrderedDict(), batch, 0)
    output = run.trainer.strategy.training_step(*arguments.values())
    return output["loss"] if is_mapping(output) else output


def _keep(outputs: list[Any], _module: Any, _inputs: Any, output: Any) -> None:
    outputs[:] = [output]


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None
