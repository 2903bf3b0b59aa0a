"""Functions of NumPy that give an array and that no other file follows: always an array, of any shape."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.registry import Transfer, family, function
from lintrain.interpreter.shapes import ANY, multiplied, unsqueezed
from lintrain.interpreter.tracing import kind_given
from lintrain.libraries.torch.functions import (
    LIKE,
    ONE_BY_ONE,
    computed,
    operands_of,
    shape_after,
    shape_of_operand,
    sized,
)
from lintrain.libraries.torch.literals import data
from lintrain.pipeline.values.python import UNKNOWN, Constant, LibraryObject, Value
from lintrain.pipeline.values.tensors import Shape
from lintrain.pipeline.values.training import Pixels

OF_NUMPY = frozenset(
    {
        "zeros_like", "ones_like", "full_like", "empty_like", "add", "subtract", "multiply", "divide", "power",
        "maximum", "minimum", "log", "log1p", "log2", "log10", "expm1", "cumsum", "floor", "ceil", "sign", "hstack",
        "column_stack", "dstack", "dot", "matmul", "outer", "tile", "repeat", "expand_dims", "roll", "flip", "fliplr",
        "flipud", "rot90", "swapaxes", "moveaxis", "einsum", "diff", "pad", "bincount", "eye", "full", "identity",
        "std", "var", "atleast_2d", "broadcast_to", "take", "cov", "histogram_bin_edges", "interp", "convolve", "sinh",
    }
)  # fmt: skip
"""Functions of NumPy that give an array."""

READ_BY_NUMPY = frozenset({"load", "loadtxt", "genfromtxt", "fromfile", "frombuffer", "fromstring"})


@family("numpy")
def _array_function(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    if package != "numpy":
        return None
    return _read_array if name in READ_BY_NUMPY else _compute_array if name in OF_NUMPY else None


@function("numpy.memmap")
def _map_file(call: Call) -> Value:
    """The numbers of a file, in a row where no shape is asked for."""
    shape = Shape((None,), False) if "shape" not in call.keywords and len(call.positional) < 5 else ANY
    return data(call, ANY if call.is_open else shape, kind_given(call))


def _read_array(call: Call) -> Value:
    """`np.load("x.npy")`; objects of any kind may be in a file that is read with pickle."""
    # A table of text is read as text first, and its columns are converted later.
    is_table = call.path in {"numpy.loadtxt", "numpy.genfromtxt"}
    is_of_others = "dtype" in call.keywords and not kind_given(call) and not is_table
    if call.is_open or "allow_pickle" in call.keywords or is_of_others:
        escape(call)
        return LibraryObject(call.path, call.values(), origin=call.location)
    return data(call, ANY, kind_given(call))


def _compute_array(call: Call) -> Value:
    """An array of arrays and numbers; of something that is not understood nothing more is known."""
    name = call.path.rpartition(".")[2]
    first = call.positional[0].value if call.positional else UNKNOWN
    if name == "expand_dims" and isinstance(first, Pixels):
        return replace(first, side=None)
    given = operands_of(call)
    # Text and objects are no arrays of numbers.
    if any(isinstance(each, Constant) and isinstance(each.value, str) for each in given):
        return LibraryObject(call.path, call.values(), origin=call.location)
    return computed(call, name, given, ANY if call.is_open else _shape_of_array(call, name, given))


def _shape_of_array(call: Call, name: str, given: list[Value]) -> Shape:
    shapes = [shape_of_operand(each) for each in given]
    rank = next((shape.rank for shape in shapes if shape.rank is not None), None)
    if name in BROADCAST:
        return shape_after("add", given)
    if name in LIKE | ONE_BY_ONE | {"log", "log1p"}:
        return shapes[0] if shapes else ANY
    if name in {"dot", "matmul"} and len(shapes) == 2:
        return multiplied(*shapes)
    if name == "expand_dims" and shapes:
        return unsqueezed(shapes[0], [call.value("axis", 1)])
    if name in {"full", "eye", "identity"}:
        return sized(call.value("shape", 0)) if name == "full" else Shape((None, None), False)
    if rank is None:
        return ANY
    is_kept = name in {"hstack", "diff", "pad", "swapaxes", "moveaxis"}
    known = 2 if name == "column_stack" else rank if is_kept else 0
    return Shape((None,) * known, False) if known else ANY


BROADCAST = frozenset({"add", "subtract", "multiply", "divide", "maximum", "minimum", "power"})
