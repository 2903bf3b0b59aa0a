"""Tensors that start a graph of their own: `Variable(x)`, and `torch.tensor(x, requires_grad=True)`."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.tracing import DATA, traced
from lintrain.libraries.torch.tensors import from_literal
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Unknown, Value, is_true
from lintrain.pipeline.values.tensors import Derived

REWRAPPED = "rewrapped"
"""The use of a computed tensor whose numbers become a new one that requires gradients."""


def new_leaf(call: Call) -> Value:
    """The same numbers in a tensor without history; it may require gradients of its own."""
    given = call.value("data", 0)
    learns = is_true(call.value("requires_grad"))
    if learns and _is_computed(given):
        # PyTorch drops the history of the tensor, so the code that computed it gets no gradient.
        call.reader.record.misuses.append(Misuse(call.location, given, REWRAPPED, call.text))
    if isinstance(given, Tensor):
        return _rebuilt(call, given, learns=learns)
    if not learns and not call.path.endswith("Variable"):
        return UNKNOWN
    if learns or given is UNKNOWN or not isinstance(given, Unknown):
        return (None if learns else from_literal(call)) or UNKNOWN
    return Derived(of=given, by="Variable", origin=call.location)


def _rebuilt(call: Call, given: Tensor, *, learns: bool) -> Value:
    is_computed = _is_computed(given)
    if learns and not is_computed:
        # Data that shall get a gradient: an input that is optimized, or a parameter.
        return UNKNOWN
    if not learns and given.made and given.made.name == DATA:
        return given
    return traced(call, given, replace(given, text=call.text, origin=call.location))


def _is_computed(value: Value) -> bool:
    """Whether a value comes out of a model or a loss."""
    match value:
        case Tensor():
            return not isinstance(value.model, Unknown) or value.role is Role.LOSS
        case Derived():
            return value.by != "slice" and _is_computed(value.of)
        case Unknown():
            return value.name == "output" or value.name.startswith(("output.", "output["))
        case _:
            return False
