"""Tensors and arrays that a script makes itself: their shapes and kinds of number, as far as the call shows them."""

from __future__ import annotations

from collections.abc import Sequence as SequenceType

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import function
from lintrain.interpreter.shapes import ANY, integer, viewed
from lintrain.interpreter.tracing import DATA, kind_given
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.counts import Real, Whole
from lintrain.pipeline.values.data import Column, ColumnValues, Kind, Padding, Rows
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Sequence, Value, is_true, literal
from lintrain.pipeline.values.tensors import Operation, Shape


def data(call: Call, shape: Shape, kind: str) -> Value:
    """A tensor of numbers that no model made; Unknown where autograd shall follow it."""
    # A leaf that learns is a parameter rather than data, and its gradient is what matters.
    if is_true(call.value("requires_grad")):
        return UNKNOWN
    made = Operation(DATA, call.location, call.text)
    return Tensor(text=call.text, made=made, shape=shape, kind=kind_given(call) or kind, origin=call.location)


@function("torch.randn", "torch.rand", "torch.zeros", "torch.ones", "torch.empty", "numpy.random.randn")
@function("numpy.random.rand", "numpy.zeros", "numpy.ones", "numpy.random.random")
def _sized(call: Call) -> Value:
    """`torch.randn(96, 8)`: one argument for each axis, or all in one tuple."""
    size = call.keywords.get("size", call.keywords.get("shape"))
    sizes = [size.value] if size else [argument.value for argument in call.positional]
    if call.path in {"numpy.zeros", "numpy.ones"}:
        sizes = sizes[:1]
    return data(call, ANY if call.is_open else _shape_of(sizes), "float")


def _shape_of(sizes: SequenceType[Value]) -> Shape:
    return viewed(ANY, [Constant(size) for size in map(integer, sizes)]) if _are_numbers(sizes) else viewed(ANY, sizes)


def _are_numbers(sizes: SequenceType[Value]) -> bool:
    return bool(sizes) and all(integer(size) is not None for size in sizes)


@function("torch.randint")
def _integers(call: Call) -> Value:
    """`torch.randint(3, (96,))`, `torch.randint(0, 3, size=(96,))`."""
    sizes: list[Value] = [each.value for each in call.positional if isinstance(each.value, Sequence)]
    sizes.extend([call.keywords["size"].value] if "size" in call.keywords else [])
    return data(call, viewed(ANY, sizes) if len(sizes) == 1 else ANY, "int")


@function("torch.arange", "torch.linspace", "numpy.arange", "numpy.linspace")
def _line(call: Call) -> Value:
    bounds = [literal(argument.value) for argument in call.positional]
    is_whole = call.path.endswith("arange") and bool(bounds) and all(isinstance(bound, int) for bound in bounds)
    return data(call, Shape((None,), False), "int" if is_whole else "")


def _kind_of_number(value: Value) -> str:
    """The kind of a single number; empty for what is none, or may be a list."""
    match value:
        # Before `int`, since True is an int to Python but makes a tensor of booleans.
        case Constant(value=bool()):
            return "bool"
        case Constant(value=int()) | Whole():
            return "int"
        case Constant(value=float()) | Real():
            return "float"
        case ColumnValues(column=Column(kind=Kind.CLASS | Kind.INTEGER | Kind.FLOAT as kind), dataset=Rows() as rows):
            return "" if rows.is_batch else "float" if kind is Kind.FLOAT else "int"
        case _:
            return ""


def note_stacked_rows(call: Call, given: Value) -> None:
    """Record token rows of unequal length that are put into one tensor: `torch.tensor([row["input_ids"] for …])`."""
    match given:
        case Sequence(items=[ColumnValues(column=column, dataset=Rows(is_batch=False) as rows, stretch="") as row]):
            # Only without padding and from several rows: one row alone, or rows of one length, make a
            # tensor.
            is_ragged = column.kind is Kind.TOKENS and column.padding is Padding.NONE and not given.is_complete
            is_certain = not call.reader.guards and len(call.reader.conditions) <= rows.depth
            if is_ragged and is_certain and call.path.startswith("torch."):
                call.reader.record.misuses.append(Misuse(call.location, row, "stacked", call.text))
        case _:
            pass


def from_literal(call: Call) -> Value | None:
    """`torch.tensor([[1.0, 2.0]])`: shape and kind of nested lists of numbers; None for anything else."""
    given = call.positional[0].value if call.positional else Absent()
    note_stacked_rows(call, given)
    if not isinstance(given, Sequence | Whole | Real):
        return None
    sizes: list[int | None] = []
    while isinstance(given, Sequence) and given.items:
        sizes.append(len(given.items) if given.is_complete else None)
        given = given.items[0]
    kind = _kind_of_number(given)
    if not kind:
        return None
    kind = {"torch.Tensor": "float", "torch.FloatTensor": "float", "torch.LongTensor": "int"}.get(call.path, kind)
    return data(call, Shape(tuple(sizes), False), kind)
