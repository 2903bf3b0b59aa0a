"""Train and eval mode, and clearing gradients, of modules and of what is not understood."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import instance_method, method
from lintrain.pipeline.events import Act
from lintrain.pipeline.modules import MODULE
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Unknown, Value


@method(Module, "train", "eval")
@instance_method(MODULE, "train", "eval")
def _set_mode(call: Call) -> Value:
    act = _mode_of(call)
    call.reader.act(act, call.location, call.receiver, text=Constant(call.receiver_text))
    return call.receiver


@method(Unknown, "train", "eval")
def _set_unknown_mode(call: Call) -> Value:
    """`.train()` and `.eval()` of something unknown: with other arguments they are not those of a module."""
    if len(call.positional) + len(call.keywords) > 1 or call.is_open or (call.keywords and "mode" not in call.keywords):
        call.reader.act(Act.ESCAPE, call.location, call.receiver)
        return UNKNOWN
    return _set_mode(call)


def _mode_of(call: Call) -> Act:
    """`.train(False)` is `.eval()`; a mode that is not known may be either."""
    mode = call.value("mode", 0)
    if call.path.endswith(".eval"):
        return Act.EVAL_MODE
    if isinstance(mode, Absent):
        return Act.TRAIN_MODE
    if not isinstance(mode, Constant) or mode.is_default:
        return Act.ESCAPE
    return Act.TRAIN_MODE if mode.value else Act.EVAL_MODE


@method(Value, "zero_grad", "zero_grads", "clear_grad", "clear_gradients", "cleargrads", "optimizer_zero_grad")
@instance_method(MODULE, "zero_grad")
def _zero_grad(call: Call) -> Value:
    """Gradients are cleared, also those of what is not understood, like a model that a library made."""
    call.reader.act(Act.ZERO_GRAD, call.location, call.receiver, text=Constant(call.receiver_text))
    return Constant(None)


@method(Module, "requires_grad_")
@method(Unknown, "requires_grad_")
@instance_method(MODULE, "requires_grad_")
def _freeze(call: Call) -> Value:
    call.reader.act(Act.FREEZE, call.location, call.receiver, wanted=UNKNOWN, part=Constant(""), is_all=Constant(False))
    return call.receiver
