"""Functions and methods of torch that give a tensor and that no other file follows: always a tensor, of any shape.

Samples and probabilities of `torch.distributions`; the number of devices.
"""

from __future__ import annotations

from functools import reduce

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.registry import METHODS, Transfer, family, function
from lintrain.interpreter.shapes import ANY, broadcast, integer, multiplied, repeated, viewed, without_axes
from lintrain.interpreter.tracing import graph_here, is_data, kind_asked_for
from lintrain.libraries.torch.literals import data, note_compared
from lintrain.pipeline.values.certainty import UNCERTAIN
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Fields,
    Sequence,
    Unknown,
    Value,
    is_missing,
    is_true,
    literal,
    text_of,
)
from lintrain.pipeline.values.tensors import Operation, Shape, Whole, shape_of

LIKE = frozenset({"zeros_like", "ones_like", "rand_like", "randn_like", "empty_like", "full_like", "randint_like"})
"""New tensors with the shape of another."""

ONE_BY_ONE = frozenset(
    {
        "neg", "negative", "erf", "reciprocal", "rsqrt", "floor", "ceil", "sign", "log2", "log10", "expm1", "tan",
        "acos", "asin", "atan", "sinh", "cosh", "cumsum", "cumprod", "flip", "roll", "tril", "triu", "masked_fill",
        "bernoulli", "renorm", "logit", "frac", "trunc", "nan_to_num", "scatter", "scatter_add", "index_fill",
        "index_add", "detach_", "heaviside", "deg2rad", "clamp_min", "clamp_max", "logical_not", "isnan", "isinf",
        "isfinite", "bitwise_not", "pin_memory", "positive", "erfinv", "digamma", "lgamma",
    }
)  # fmt: skip
"""Operations that keep the shape."""

PAIRS = frozenset(
    {
        "add", "sub", "subtract", "mul", "multiply", "div", "divide", "true_divide", "floor_divide", "pow",
        "maximum", "minimum", "fmod", "remainder", "lerp", "atan2", "addcmul", "addcdiv", "hypot", "xlogy",
    }
)  # fmt: skip
"""Operations that broadcast their operands against each other."""

TESTS = frozenset(
    {
        "eq", "ne", "gt", "ge", "lt", "le", "not_equal", "greater", "less", "greater_equal", "less_equal",
        "logical_and", "logical_or", "logical_xor", "isclose", "isin", "bitwise_and", "bitwise_or",
    }
)  # fmt: skip

OFF_GRAPH = TESTS | {
    "isnan", "isinf", "isfinite", "logical_not", "bitwise_not", "bitwise_xor", "nonzero", "bincount", "histc",
    "searchsorted", "bucketize", "count_nonzero", "multinomial", "bernoulli", "heaviside", "any", "all", "unique",
    "sample", "sample_n",
}  # fmt: skip
"""Operations whose result has no gradient."""

PRODUCTS = frozenset({"mm", "matmul", "mv", "bmm"})
NUMBERS = frozenset({"trace", "dot", "vdot", "dist", "det", "logdet"})

OTHERS = frozenset(
    {
        "outer", "ger", "diag", "diagonal", "gather", "index_select", "masked_select", "narrow", "norm", "var",
        "std", "prod", "cdist", "kron", "tensordot", "take", "take_along_dim", "multinomial", "repeat_interleave",
        "repeat", "tile", "expand", "expand_as", "view_as", "reshape_as", "t", "movedim", "moveaxis", "swapaxes",
        "swapdims", "logsumexp", "nonzero", "bincount", "cross", "addmm", "baddbmm", "addbmm", "einsum", "amin",
        "nanmean", "nansum", "stft", "istft", "fft", "unfold", "fold", "hstack", "dstack", "column_stack",
        "block_diag", "cov", "corrcoef", "histc", "searchsorted", "bucketize", "inverse", "pinverse", "cholesky",
        "diag_embed", "diagflat", "select", "new_tensor", "new_zeros", "new_ones", "new_full", "new_empty",
        "unique", "index_put", "quantile", "rot90", "broadcast_to", "as_strided", "sum_to_size", "real", "imag",
        "angle", "view_as_real", "conv1d", "conv2d", "fliplr", "flipud", "count_nonzero", "any", "all", "unflatten",
        "squeeze_", "bitwise_xor",
    }
)  # fmt: skip
"""Operations whose shape is not followed."""

MADE = frozenset(
    {
        "full", "eye", "normal", "randperm", "logspace", "hann_window", "tril_indices", "triu_indices",
        "empty_strided", "sparse_coo_tensor", "complex", "DoubleTensor", "IntTensor", "ByteTensor", "BoolTensor",
        "HalfTensor", "ShortTensor",
    }
)  # fmt: skip
"""New tensors."""

KINDS_MADE = {
    "eye": "float", "normal": "float", "randperm": "int", "DoubleTensor": "float", "IntTensor": "int",
    "ByteTensor": "int", "BoolTensor": "bool", "HalfTensor": "float", "ShortTensor": "int", "multinomial": "int",
    "nonzero": "int", "bincount": "int", "searchsorted": "int", "bucketize": "int", "randn_like": "float",
    "rand_like": "float", "randint_like": "int", "count_nonzero": "int", "all": "bool", "any": "bool",
    "one_hot": "int", "logical_not": "bool", "isnan": "bool", "isinf": "bool", "isfinite": "bool",
}  # fmt: skip

SEVERAL = frozenset({"chunk", "split", "unbind", "tensor_split", "split_with_sizes", "meshgrid", "hsplit", "vsplit"})
"""Functions that give a tuple of tensors."""

VALUES_AND_INDICES = frozenset({"sort", "topk", "kthvalue", "mode", "cummax", "cummin"})
"""Functions that give values and their indices."""

ALL = LIKE | ONE_BY_ONE | PAIRS | TESTS | PRODUCTS | NUMBERS | OTHERS


@family("torch")
def _tensor_function(path: str) -> Transfer | None:
    package, _, name = path.rpartition(".")
    if package not in {"torch", "torch.special", "torch.linalg", "torch.fft", "torch.cuda"}:
        return None
    if name in MADE:
        return _make
    return _compute if name in ALL else _several if name in SEVERAL else _sorted if name in VALUES_AND_INDICES else None


def _make(call: Call) -> Value:
    """`torch.full((8,), 1)`, `torch.eye(8)`, `torch.randperm(8)`."""
    name = call.path.rpartition(".")[2]
    shapes = {"eye": Shape((None, None), False), "randperm": Shape((None,), False)}
    if name == "full" and not call.is_open:
        kind = _kind_of(call.value("fill_value", 1))
        return data(call, sized(call.value("size", 0)), kind)
    return data(call, shapes.get(name, ANY), KINDS_MADE.get(name, ""))


def sized(size: Value) -> Shape:
    """The shape that a tuple of sizes asks for."""
    return viewed(ANY, [size]) if isinstance(size, Sequence) else ANY


def _kind_of(value: Value) -> str:
    plain = literal(value)
    is_number = isinstance(plain, int | float) and not isinstance(plain, bool)
    return type(plain).__name__ if is_number else ""


def operands_of(call: Call) -> list[Value]:
    """What a function or method works on; of one list or tuple, what is in it."""
    is_method = isinstance(call.receiver, Tensor)
    given = [argument.value for argument in (*call.positional, *call.keywords.values())]
    held = [item for value in given for item in (value.items if isinstance(value, Sequence) else (value,))]
    return [call.receiver, *held] if is_method else held


def _compute(call: Call) -> Value:
    """The tensor that an operation gives of its operands."""
    name = call.path.rpartition(".")[2]
    given = operands_of(call)
    shape = ANY if call.is_open else _other_shape(call, name) if name in OTHERS else shape_after(name, given)
    if name in {"eq", "ne"} and len(given) == 2:
        note_compared(call.reader, given[0], given[1], call.location)
    if name in LIKE:
        return data(call, shape, KINDS_MADE.get(name, ""))
    return computed(call, name, given, shape)


def computed(call: Call, name: str, operands: list[Value], shape: Shape) -> Tensor:
    """What an operation makes of tensors and other things: a tensor of this shape."""
    tensors = [each for each in operands if isinstance(each, Tensor)]
    models = [each.model for each in tensors if each.model is not UNKNOWN]
    cuts = [each.cut for each in tensors if each.cut]
    others = [each for each in operands if not isinstance(each, Tensor)]
    is_cut = bool(tensors) and len(cuts) == len(tensors) and all(map(is_data, others)) and not call.is_open
    return Tensor(
        model=models[0] if models else UNKNOWN,
        text=call.text,
        made=Operation(name, call.location, call.text),
        shape=shape,
        kind=_kind_after(call, name, tensors),
        cut=cuts[0] if is_cut else None,
        is_sliced=any(each.is_sliced for each in tensors),
        origin=call.location,
        passes=frozenset() if name in OFF_GRAPH else graph_here(call.reader, tensors),
    )


def _kind_after(call: Call, name: str, tensors: list[Tensor]) -> str:
    if name in TESTS:
        return "bool"
    kinds = {each.kind for each in tensors}
    known = kind_asked_for(call, KINDS_MADE.get(name, ""))
    # Whatever a tensor of floats is added to or raised to, it stays one.
    is_of_pair = name in PAIRS and kinds == {"float"}
    is_kept = (name in ONE_BY_ONE | OTHERS or is_of_pair) and len(kinds) == 1
    is_kept = is_kept and not known and "dtype" not in call.keywords
    return kinds.pop() if is_kept and name not in {"norm", "var", "std"} else known


def shape_after(name: str, operands: list[Value]) -> Shape:
    """The shape after an operation on numbers, rows or pairs."""
    shapes = [shape_of_operand(each) for each in operands]
    if name in NUMBERS:
        return Shape((), False)
    if not shapes:
        return ANY
    if name in ONE_BY_ONE | LIKE:
        return shapes[0]
    if name in PAIRS | TESTS:
        return reduce(broadcast, shapes[:2])
    if name in {"mm", "matmul", "mv"} and len(shapes) == 2:
        return multiplied(*shapes)
    return Shape((None, None, None), False) if name == "bmm" else ANY


REDUCED = frozenset(
    {"norm", "var", "std", "prod", "amin", "amax", "nanmean", "nansum", "logsumexp", "any", "all", "count_nonzero"}
)
"""Operations that leave one number, or one axis less."""

SIZED = frozenset({"repeat", "tile", "expand", "broadcast_to", "new_zeros", "new_ones", "new_empty"})
AS_ANOTHER = frozenset({"expand_as", "view_as", "reshape_as"})
IN_ROWS = frozenset({"index_select", "fliplr", "flipud", "rot90", "sum_to_size", "narrow", "real", "imag", "angle"})
"""Operations that keep the number of axes."""

OF_RANK = {
    "nonzero": 2,
    "masked_select": 1,
    "outer": 2,
    "ger": 2,
    "cdist": 2,
    "addmm": 2,
    "baddbmm": 3,
    "bincount": 1,
    "histc": 1,
}


def _other_shape(call: Call, name: str) -> Shape:
    """The shape after an operation on the axes of one tensor."""
    is_method = isinstance(call.receiver, Tensor)
    given = [argument.value for argument in call.positional]
    subject = call.receiver if is_method else given[0] if given else call.value("input")
    shape, others = shape_of_operand(subject), given if is_method else given[1:]
    if name in REDUCED:
        return _reduced(call, name, shape, others)
    if name in OF_RANK and "as_tuple" not in call.keywords:
        return Shape((None,) * OF_RANK[name], False)
    if name == "einsum":
        return named_by(text_of(call.value("equation", 0)))
    if name in SIZED:
        asked = call.keywords.get("size", call.keywords.get("dims"))
        return repeated(shape, others if asked is None else [asked.value])
    if name == "new_full":
        return repeated(shape, [call.value("size", 0)])
    if name in AS_ANOTHER:
        return shape_of_operand(call.value("other", 0 if is_method else 1))
    if name in {"gather", "take_along_dim", "take"}:
        return shape_of_operand(call.value("index", len(given) - 1))
    return _kept_rank(call, name, shape, others)


def named_by(equation: str | None) -> Shape:
    """An axis for each letter that an equation of `einsum` leaves."""
    left = (equation or "...").partition("->")[2].replace(" ", "")
    return Shape((None,) * len(left), False) if "->" in (equation or "") and "." not in left else ANY


def _reduced(call: Call, name: str, shape: Shape, others: list[Value]) -> Shape:
    position = 1 if name == "norm" else 0
    axis = call.keywords.get("dim", call.keywords.get("axis"))
    along = axis.value if axis else others[position] if len(others) > position else None
    keeps = [each.value for name, each in call.keywords.items() if name.startswith("keepdim")]
    if len(others) > position + 1 or any(not isinstance(each, Constant) for each in keeps):
        return ANY
    return without_axes(shape, along, keeps=any(map(is_true, keeps)))


@function("torch.nn.functional.pairwise_distance", "torch.pairwise_distance")
@function("torch.nn.functional.cosine_similarity", "torch.cosine_similarity")
def _distance(call: Call) -> Value:
    """One number for each pair of rows: an axis of both is gone, the last one for a distance."""
    given, name = operands_of(call)[:2], call.path.rpartition(".")[2]
    shape = reduce(broadcast, map(shape_of_operand, given)) if len(given) == 2 and not call.is_open else ANY
    axis = call.argument("dim", 2) if name == "cosine_similarity" else None
    keeps = call.value("keepdim", 4)
    along = axis.value if axis else Constant(1 if name == "cosine_similarity" else -1)
    known = is_missing(keeps) or isinstance(keeps, Constant)
    return computed(call, name, given, without_axes(shape, along, keeps=is_true(keeps)) if known else ANY)


def _kept_rank(call: Call, name: str, shape: Shape, others: list[Value]) -> Shape:
    """Operations that leave as many axes as there were, each of another size."""
    if name == "repeat_interleave" and not call.keywords and len(others) == 1:
        return Shape((None,), False)
    if name == "t":
        return Shape(shape.sizes[::-1], shape.is_open)
    is_kept = name in IN_ROWS or (name == "repeat_interleave" and len(others) + len(call.keywords) == 2)
    return Shape((None,) * len(shape.sizes), False) if is_kept and not shape.is_open else ANY


def shape_of_operand(value: Value) -> Shape:
    """The shape of a tensor, or of a number."""
    match value:
        case Tensor(shape=shape):
            return shape
        case Constant():
            return Shape((), False)
        case ColumnValues(axes=int(axes), dataset=Unknown()):
            return Shape((None,) * axes, False)
        case _:
            return shape_of(value)


def _several(call: Call) -> Value:
    """`left, right = x.chunk(2)`: as many parts as are asked for, where that is a number."""
    name = call.path.rpartition(".")[2]
    given = operands_of(call)
    whole = shape_of_operand(given[0]) if given else ANY
    known = not whole.is_open and name in {"chunk", "split", "tensor_split", "split_with_sizes", "hsplit", "vsplit"}
    part = computed(call, name, given, Shape((None,) * len(whole.sizes), False) if known else ANY)
    asked = call.value("chunks", 0 if isinstance(call.receiver, Tensor) else 1)
    count = integer(asked) if name == "chunk" else None
    if count is not None and 0 < count <= MOST_PARTS:
        return Sequence([part] * count, "tuple", origin=call.location)
    return Sequence([part], "tuple", False, True, origin=call.location)


MOST_PARTS = 64
"""Parts up to this number are known one by one."""


def _sorted(call: Call) -> Value:
    given, name = operands_of(call), call.path.rpartition(".")[2]
    whole = shape_of_operand(given[0]) if given and not call.is_open else ANY
    is_kept = name in {"sort", "topk", "cummax", "cummin"} and not whole.is_open
    shape = Shape((None,) * len(whole.sizes), False) if is_kept else ANY
    values, indices = (computed(call, name, given, shape) for _ in range(2))
    indices.kind, indices.passes = "int", frozenset()
    return Fields([values, indices], "tuple", names=("values", "indices"), origin=call.location)


def _in_place(call: Call) -> Value:
    """`x.add_(1)`: the tensor itself, with other numbers."""
    return call.receiver


def _register() -> None:
    """The same operations as methods of a tensor, where no other file has them."""
    kinds = ((ALL, _compute), (SEVERAL, _several), (VALUES_AND_INDICES, _sorted))
    for names, transfer in kinds:
        for name in names:
            METHODS.setdefault((Tensor, name), transfer)
    for name in (*PAIRS, *ONE_BY_ONE, "sqrt", "exp"):
        METHODS.setdefault((Tensor, f"{name}_"), _in_place)


_register()


@function("torch.nn.utils.rnn.pack_padded_sequence", "torch.nn.utils.rnn.pack_sequence")
def _pack(call: Call) -> Value:
    """The tokens of all rows one after the other, and what tells the rows apart."""
    given = call.value("input", 0)
    packed = given if isinstance(given, Tensor) else Tensor(shape=shape_of(given), origin=call.location)
    sizes = packed.shape.sizes[2:] if not packed.shape.is_open and len(packed.shape.sizes) > 1 else None
    data_of = Tensor(
        packed.role, packed.model, call.text, packed.made, ANY if sizes is None else Shape((None, *sizes), False),
        packed.kind, packed.cut, origin=call.location,
    )  # fmt: skip
    # Two parts up to torch 1.0, four since then.
    fields = ("data", "batch_sizes", "sorted_indices", "unsorted_indices")
    parts: list[Value] = [data_of, Unknown(), Unknown(), Unknown()]
    return Fields(parts, "tuple", False, False, 4, names=fields, origin=call.location)


@function("torch.nn.functional.one_hot")
def _one_hot(call: Call) -> Value:
    """One axis more, with a place for each class."""
    given, shape = call.value("tensor", 0), ANY
    known = shape_of_operand(given)
    if not known.is_open and not call.is_open:
        size = integer(call.value("num_classes", 1))
        shape = Shape((*known.sizes, size if size is not None and size > 0 else None), False)
    return computed(call, "one_hot", [given], shape)


@function("torch.is_tensor")
def _is_tensor(call: Call) -> Value:
    """`if torch.is_tensor(index): index = index.tolist()`: a number is none."""
    given = call.value("obj", 0)
    if isinstance(given, Whole | Constant):
        return Constant(False)
    return Constant(True) if isinstance(given, Tensor) else UNKNOWN


@function("torch.cuda.device_count", "torch.xpu.device_count")
def _devices(call: Call) -> Value:
    """One device, where it is not known how many there are."""
    return Constant(1, UNCERTAIN, origin=call.location)
