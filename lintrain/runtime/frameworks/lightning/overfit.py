"""The overfit stage of a run of Lightning: its own `training_step`, repeated on one batch."""

from __future__ import annotations

import functools
from collections import OrderedDict
from typing import Any

from lintrain.evidence.run import StageName
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.library import library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.driver import NO_STEP
from lintrain.runtime.frameworks.lightning.lightning_run import LightningRun
from lintrain.runtime.measure.outputs import number
from lintrain.runtime.measure.overfit import FACTORS, Descents, classes_in_batch, rows_of
from lintrain.runtime.measure.weights import restore


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
    watching = run.model.register_forward_hook(functools.partial(_keep, outputs))
    descents = Descents(run, run.session.overfit)
    for factor in FACTORS:
        restore(run, before)
        # Momentum of the steps before would carry the first series over.
        optimizer.state.clear()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        _descend(run, batch, descents, outputs)
    watching.remove()
    rows = rows_of(batch) if is_mapping(batch) else rows_of({"first": next(iter(batch), None)})
    run.measured(overfit=descents.evidence(max(rates, default=0.0), rows))


def _descend(run: LightningRun, batch: Any, descents: Descents, outputs: list[Any]) -> None:
    """One run of steps; dropout is off, and nothing is logged."""
    (optimizer,) = run.optimizers
    run.module.eval()
    with replaced(run.module, log=_nothing, log_dict=_nothing), library("torch").enable_grad():

        def take_step() -> float:
            made: list[float] = []
            optimizer.step(functools.partial(_closure, run, batch, made))
            return made[0]

        descents.descend(take_step, lambda: classes_in_batch(run, batch, outputs[-1] if outputs else None))
    run.module.train()


def _closure(run: LightningRun, batch: Any, made: list[float]) -> Any:
    """One pass forward and backward, clipped; some optimizers ask for several in one step."""
    (optimizer,) = run.optimizers
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
    arguments = run.trainer.fit_loop.epoch_loop._build_kwargs(OrderedDict(), batch, 0)
    output = run.trainer.strategy.training_step(*arguments.values())
    return output["loss"] if is_mapping(output) else output


def _keep(outputs: list[Any], _module: Any, _inputs: Any, output: Any) -> None:
    outputs[:] = [output]


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None
