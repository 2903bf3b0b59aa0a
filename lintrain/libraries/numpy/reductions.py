"""Numbers that several entries of an array come to: means, sums, and the largest with their places."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function, method
from lintrain.interpreter.shapes import ANY, broadcast, integer
from lintrain.interpreter.time_axis import note_average
from lintrain.interpreter.tracing import reshaped, rest, traced
from lintrain.libraries.numpy.arrays import as_tensor, in_role, mapped, subject_of
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Fields, Value
from lintrain.pipeline.values.tensors import Operation, Shape


@function("numpy.mean", "numpy.max", "numpy.amax", "numpy.sum", "numpy.min", "torch.mean", "torch.sum", "numpy.median")
@method(Tensor, "mean", "sum", "max", "min", "std", "amax", "item")
def _reduce(call: Call) -> Value:
    """Numbers that are no longer one for each class; a loss stays a loss."""
    hits = subject_of(call)
    # `(predictions == labels).mean()` with -100 among the labels counts every ignored token as a miss.
    if call.path.endswith(".mean") and isinstance(hits, Tensor) and hits.hits_of and not hits.is_cleaned:
        call.reader.record.misuses.append(Misuse(call.location, hits.hits_of, "mean of hits", hits.text))
    asked = [argument.value for argument in rest(call, hits)] if isinstance(hits, Tensor) else []
    if isinstance(hits, Tensor) and asked and call.path.rpartition(".")[2] in {"mean", "sum", "max", "amax"}:
        note_average(call.reader, hits, asked[0], call.location)
    if _asks_along(call):
        return _values_and_indices(call)
    return as_tensor(call, mapped(call, {Role.LOSS: Role.LOSS}, Role.SCORES))


def _asks_along(call: Call) -> bool:
    """Whether a method is torch's `max(1)` or `max(dim=1)`; arrays of NumPy are asked with `axis=`."""
    is_along = "dim" in call.keywords or (bool(call.positional) and integer(call.positional[0].value) is not None)
    return call.path.rpartition(".")[2] in {"max", "min"} and isinstance(call.receiver, Tensor) and is_along


@function("torch.max", "torch.min", "torch.topk")
def _values_and_indices(call: Call) -> Value:
    """With a dimension: the largest values, and their indices, which are classes."""
    subject = subject_of(call)
    asked = [argument.value for argument in rest(call, subject)]
    if len(call.positional) + len(call.keywords) + isinstance(call.receiver, Tensor) < 2:
        return traced(call, subject, in_role(Role.SCORES, subject, call)) if isinstance(subject, Tensor) else UNKNOWN
    if asked and isinstance(asked[0], Tensor) and isinstance(subject, Tensor):
        return replace(traced(call, subject, subject), shape=broadcast(subject.shape, asked[0].shape))
    values, indices = in_role(Role.SCORES, subject, call), in_role(Role.CLASSES, subject, call)
    if isinstance(subject, Tensor) and not call.is_open:
        values.shape = indices.shape = _shape_along(call, subject.shape, asked)
        values.kind, values.passes = subject.kind, subject.passes
        values.made = Operation(call.path.rpartition(".")[2], call.location, call.text)
    indices.kind = "int"
    return Fields([values, indices], "tuple", names=("values", "indices"), origin=call.location)


def _shape_along(call: Call, shape: Shape, asked: list[Value]) -> Shape:
    if call.path.endswith("topk"):
        return ANY if shape.is_open else Shape((None,) * len(shape.sizes), False)
    return reshaped(call, "mean", shape, asked)
