"""Mixed precision of torch: gradient scalers, whose step is the optimizer's."""

from __future__ import annotations

import re

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.module_parts import runs_inside_a_forward
from lintrain.interpreter.core.registry import function, method
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Scaler
from lintrain.pipeline.values.python import UNKNOWN, Constant, Unknown, Value
from lintrain.startup.lazy_pattern import lazy_pattern

SCALER = lazy_pattern(r"(^|[._])(grad_?|amp_?|loss_?)?scaler$", re.IGNORECASE)


@function("torch.cuda.amp.GradScaler", "torch.amp.GradScaler", "torch.cuda.amp.grad_scaler.GradScaler")
@function("torch.amp.grad_scaler.GradScaler", "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler")
def _scaler(call: Call) -> Value:
    return Scaler(call.path, call.values(), origin=call.location)


@method(Scaler, "scale")
def _scale(call: Call) -> Value:
    return call.value("outputs", 0)


@method(Scaler, "step")
def _step(call: Call) -> Value:
    scaled_step(call)
    return UNKNOWN


def scaled_step(call: Call) -> None:
    """`scaler.step(optimizer)`: the optimizer's step."""
    given = call.argument("optimizer", 0)
    subject = given.value if given else UNKNOWN
    texts = {"text": Constant(given.text if given else ""), "scaler_text": Constant(call.receiver_text)}
    # The event is one of the optimizer, with the scaler as a detail: all rules about steps hold for scaled
    # ones.
    call.reader.act(Act.STEP, call.location, subject, named=Constant(True), scaler=call.receiver, **texts)


def is_scaler(value: Value, text: str) -> bool:
    """Whether a value is a gradient scaler, or something unknown that scripts call so."""
    return isinstance(value, Scaler) or SCALER.search(text) is not None


@method(Scaler, "unscale_")
@method(Unknown, "unscale_")
def _unscale(call: Call) -> Value:
    call.reader.act(Act.UNSCALE, call.location, call.value("optimizer", 0))
    return UNKNOWN


@method(Scaler, "update")
def _update(call: Call) -> Value:
    call.reader.act(Act.SCALER_UPDATE, call.location, call.receiver)
    return UNKNOWN


@method(Unknown, "update")
def _update_unknown(call: Call) -> Value:
    """`scaler.update()` where the scaler came in by a parameter."""
    # Dictionaries and progress bars have an `update` too. A scaler's takes at most one argument.
    if is_scaler(call.receiver, call.receiver_text) and len(call.positional) < 2:
        return _update(call)
    if not runs_inside_a_forward(call.reader):
        call.reader.act(Act.ESCAPE, call.location, UNKNOWN, callee=call.receiver)
    escape(call)
    return UNKNOWN


@method(Scaler, "state_dict", "load_state_dict", "get_scale", "is_enabled")
def _look(call: Call) -> Value:
    return UNKNOWN
