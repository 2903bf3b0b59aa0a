"""The overfit stage of a run of Lightning: its own `training_step` on one batch, again and again."""

from __future__ import annotations

import functools
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from lintrain.core.evidence import OverfitEvidence
from lintrain.probe.child.experiments.outputs import number
from lintrain.probe.child.experiments.weights import restore
from lintrain.probe.child.kinds import is_mapping
from lintrain.probe.child.library import library
from lintrain.probe.child.replace import replaced
from lintrain.probe.child.trainer.overfit import SECONDS, classes_in_batch, rows_of

if TYPE_CHECKING:
    from lintrain.probe.child.lightning.run import LightningRun


def overfit_one_batch(run: LightningRun, before: dict[str, Any], rates: list[float]) -> None:
    """Steps on the first batch from the first weights, at the peak learning rates and at ten times them."""
    steps, batch, (optimizer,) = run.session.overfit, run.batches[0], run.optimizers
    ends = time.perf_counter() + SECONDS
    outputs: list[Any] = []
    watching = run.model.register_forward_hook(functools.partial(_keep, outputs))
    series: list[list[float]] = []
    predicted: tuple[int | None, int | None] = (None, None)
    for factor in (1.0, 10.0):
        restore(run, before)
        optimizer.state.clear()
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate * factor
        series.append(_descend(run, batch, steps, ends))
        predicted = predicted if len(series) > 1 else classes_in_batch(run, batch, outputs[-1] if outputs else None)
    watching.remove()
    run.measured(
        overfit=OverfitEvidence(
            steps=steps,
            losses=tuple(series[0]),
            losses_at_ten_times=tuple(series[1]),
            learning_rate=max(rates, default=0.0),
            predicted_classes=predicted[0],
            batch_classes=predicted[1],
            rows=rows_of(batch) if is_mapping(batch) else rows_of({"first": next(iter(batch), None)}),
            stopped_early=time.perf_counter() > ends,
        )
    )


def _descend(run: LightningRun, batch: Any, steps: int, ends: float) -> list[float]:
    """Losses before each step and after the last; dropout is off, and nothing is logged."""
    losses: list[float] = []
    (optimizer,) = run.optimizers
    run.module.eval()
    with replaced(run.module, log=_nothing, log_dict=_nothing), library("torch").enable_grad():
        for step in range(steps + 1):
            made: list[float] = []
            optimizer.step(functools.partial(_closure, run, batch, step, made))
            losses.append(made[0])
            run.progress("overfit", step, steps)
            if time.perf_counter() > ends:
                break
    run.module.train()
    return losses


def _closure(run: LightningRun, batch: Any, step: int, made: list[float]) -> Any:
    """One pass forward and backward, clipped; some optimizers ask for several in one step."""
    (optimizer,) = run.optimizers
    loss = _loss(run, batch, step)
    made.append(number(loss))
    optimizer.zero_grad()
    loss.backward()
    run.module.configure_gradient_clipping(
        optimizer,
        gradient_clip_val=run.trainer.gradient_clip_val,
        gradient_clip_algorithm=run.trainer.gradient_clip_algorithm,
    )
    return loss


def _loss(run: LightningRun, batch: Any, step: int) -> Any:
    arguments = run.trainer.fit_loop.epoch_loop._build_kwargs(OrderedDict(), batch, step)
    output = run.trainer.strategy.training_step(*arguments.values())
    return output["loss"] if is_mapping(output) else output


def _keep(outputs: list[Any], _module: Any, _inputs: Any, output: Any) -> None:
    outputs[:] = [output]


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    return None
