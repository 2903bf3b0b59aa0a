"""Lightning's manual optimization: the optimizers that a step gets back, and the backward pass that it starts."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import instance_method
from lintrain.libraries.lightning import MODULE
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import UNKNOWN, Constant, Instance, Mapping, Sequence, Value


@instance_method(MODULE, "manual_backward")
def _backward(call: Call) -> Value:
    given = call.argument("loss", 0)
    loss, text = (given.value, given.text) if given else (UNKNOWN, "")
    call.reader.act(Act.BACKWARD, call.location, call.receiver, loss=loss, text=Constant(text))
    return Constant(None)


@instance_method(MODULE, "clip_gradients")
def _clip(call: Call) -> Value:
    """It changes the gradients of an optimizer, and neither makes nor drops any."""
    return Constant(None)


@instance_method(MODULE, "optimizers")
def _optimizers(call: Call) -> Value:
    """The optimizers that `configure_optimizers` returned: the only one, or all of them in their order."""
    owner = call.receiver.cls if isinstance(call.receiver, Instance) else None
    # The method has been read by now: Lightning calls it before the first step, and so does the reader.
    returned = [
        each.value
        for each in call.reader.record.returned
        if each.cls is owner and each.method.name == "configure_optimizers"
    ]
    found = _optimizers_in(returned[-1]) if returned else []
    if not found or not all(isinstance(each, Optimizer) for each in found):
        return UNKNOWN
    return found[0] if len(found) == 1 else Sequence(found, is_complete=True)


def _optimizers_in(value: Value) -> list[Value]:
    match value:
        case Sequence(items=[Sequence(is_complete=True) as optimizers, *_]):
            return optimizers.items
        case Sequence(items=items, is_complete=True):
            return [optimizer for each in items for optimizer in _optimizers_in(each)]
        case Mapping(entries={"optimizer": optimizer}):
            return [optimizer]
        case _:
            return [value]
