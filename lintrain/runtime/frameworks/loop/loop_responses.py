"""A loop's model called again with the inputs of its first batch; and where its loss stopped being finite."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.non_finite import NonFiniteModule, first_non_finite
from lintrain.runtime.measure.responses import Responses
from lintrain.runtime.measure.seen import Forward, Iteration, LossCall
from lintrain.runtime.measure.standard_loss import tokens_of


def responses_of(run: MeasuredRun, iteration: Iteration, loss: Any) -> Responses | None:
    """Repeated calls like the last one of the model that autograd recorded; None if there was none."""
    forward = _trained(run, iteration)
    if forward is None:
        return None
    call = Call(forward.called, forward.args, forward.kwargs)
    return Responses(run, call, tokens_of(_losses_on(iteration, call), loss, run.model))


def _losses_on(iteration: Iteration, call: Call) -> list[LossCall]:
    """The losses after a call with the same tokens; all of them if the model reads no tokens."""
    ids = call.tensors()[call.ids] if call.ids is not None else None
    return [each for each in iteration.losses if ids is None or each.ids is ids]


def _trained(run: MeasuredRun, iteration: Iteration) -> Forward | None:
    return next((each for each in reversed(iteration.forwards) if each.records and each.module is run.model), None)


def non_finite_module_of(run: MeasuredRun, iteration: Iteration | None) -> NonFiniteModule | None:
    """The first part of the model with an output that is not finite; None if its call cannot be made again."""
    forward = _trained(run, iteration) if iteration is not None else None
    if forward is None:
        return None
    with forward.autocast:
        return first_non_finite(forward.called, lambda: forward.called(*forward.args, **forward.kwargs))
