"""Following tensors: what each operation leaves of shape, kind of number, last operation and autograd's graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.certainty import is_certain
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.shapes import (
    ANY,
    RESHAPES,
    Key,
    broadcast,
    columns_taken,
    integer,
    multiplied,
    undivided,
    without_axes,
)
from lintrain.interpreter.shapes import subscripted as shape_of_subscript
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse, ShapeMisfit
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Constant,
    Library,
    Slice,
    Unknown,
    Value,
    is_true,
    literal,
    text_of,
)
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.pipeline.values.tensors import (
    Derived,
    Operation,
    Real,
    Shape,
    Whole,
    root_of,
    shape_of,
)
from lintrain.startup.lazy_pattern import lazy_pattern

ACTIVATIONS = frozenset(
    {
        "softmax", "log_softmax", "sigmoid", "logsigmoid", "relu", "leaky_relu", "elu", "gelu", "silu", "tanh", "selu",
        "softplus", "exp", "log", "relu6", "mish", "hardtanh", "hardsigmoid", "softmin", "clamp", "clip", "log1p",
        "sqrt", "abs", "nan_to_num", "sin", "cos", "square",
    }
)  # fmt: skip
"""Operations on each number, or along one axis, that keep the shape."""

MOVES = frozenset(
    {
        "contiguous", "clone", "cpu", "cuda", "to", "copy", "requires_grad_", "dropout", "float", "double", "half",
        "bfloat16", "type", "astype", "alpha_dropout",
    }
)  # fmt: skip
"""Operations that leave the numbers what they are."""

CUTS = frozenset(
    {"detach", "item", "numpy", "tolist", "argmax", "argsort", "argmin", "long", "int", "bool", "Variable"}
)
"""Operations after which no gradient flows back."""

REBUILDS = frozenset({"tensor", "Tensor", "FloatTensor", "LongTensor", "array", "asarray"})
"""Functions that make an array of their own out of numbers."""

DEVICE = lazy_pattern(r"device|dev$|cuda|cpu|gpu|mps|rank", re.IGNORECASE)
"""Names of what a tensor is moved to."""

KINDS = {
    "float": "float", "double": "float", "half": "float", "bfloat16": "float", "long": "int", "int": "int",
    "argmax": "int", "argsort": "int", "argmin": "int", "bool": "bool", "Tensor": "float", "FloatTensor": "float",
    "LongTensor": "int",
}  # fmt: skip

FLOATS = frozenset({"float", "double", "half", "float16", "float32", "float64", "bfloat16", "float_", "FloatTensor"})
INTEGERS = frozenset({"int", "long", "short", "int8", "int16", "int32", "int64", "uint8", "LongTensor"})


SECOND_SOFTMAX = "log-softmax of probabilities"
"""A use of a tensor that no correct code has: log-softmax takes logits, and softmax has made probabilities of them."""


def traced(call: Call, before: Tensor, after: Tensor) -> Tensor:
    """A tensor after an operation, the call's: `before` itself if nothing that is followed has changed."""
    name = call.path.rpartition(".")[2]
    arguments = [argument.value for argument in rest(call, before)]
    shape, kind, cut, made = before.shape, before.kind, before.cut, before.made
    here = Operation(_along(call, name, before.shape), call.location, call.text, _given(call, before))
    if name in RESHAPES:
        _note_undivided(call, name, before, arguments)
        _note_permuted(call, name, before, arguments)
        shape = reshaped(call, name, shape, arguments)
    elif name in {"cat", "concat", "vstack", "concatenate", "T", "transpose"}:
        shape = ANY
    if name in ACTIVATIONS or name in {"mean", "sum", "max", "min", "argmax", "round"}:
        made = here
    if name == "log_softmax" and before.made is not None and before.made.name == "softmax" and is_certain(call.reader):
        call.reader.record.misuses.append(Misuse(call.location, before, SECOND_SOFTMAX, call.text))
    if name == "exp" and before.made is not None and before.made.name.startswith("log_softmax"):
        made = replace(here, name=before.made.name.removeprefix("log_"))
    if name in CUTS or (name in REBUILDS and call.path.startswith("torch.")):
        cut = cut or here
    kind = kind_asked_for(call, "" if _asks_for_unknown_kind(call, name) else KINDS.get(name, kind))
    if name == "item":
        shape, kind = Shape((), False), "number"
    moved = before.is_reshaped or name in RESHAPES
    fields = (shape, kind, cut, made, moved)
    if after is before and fields == (before.shape, before.kind, before.cut, before.made, before.is_reshaped):
        return before
    after = replace(after, shape=shape, kind=kind, cut=cut, made=made, is_sliced=before.is_sliced, is_reshaped=moved)
    after.passes = frozenset() if call.reader.without_grad else before.passes
    return after


def reshaped(call: Call, name: str, shape: Shape, arguments: Sequence[Value]) -> Shape:
    """What an operation on the axes leaves of a shape, `keepdim=` among its arguments included."""
    kept = call.keywords.get("keepdim", call.keywords.get("keepdims"))
    if call.is_open or (kept is not None and not isinstance(kept.value, Constant)):
        return ANY
    if kept is not None and is_true(kept.value) and len(arguments) < 2:
        return without_axes(shape, arguments[0] if arguments else None, keeps=True)
    return RESHAPES[name](shape, arguments)


def _note_undivided(call: Call, name: str, before: Tensor, arguments: Sequence[Value]) -> None:
    """Record a `view(-1, n)` into which the rows of a batch do not go."""
    shape = before.shape
    # Numbers that a script makes itself may be put into any shape; what a network returns has rows.
    is_batch = shape.sizes[:1] == (None,) or not isinstance(before.model, Unknown)
    if name not in {"view", "reshape"} or not is_batch or call.is_open or not is_certain(call.reader):
        return
    found = undivided(shape, arguments)
    if found is not None:
        call.reader.record.misfits.append(ShapeMisfit(call.location, name, *found, str(shape)))


PERMUTES = "permuting view"
"""The use of a tensor whose view has the sizes of its axes in another order."""


def _note_permuted(call: Call, name: str, before: Tensor, arguments: Sequence[Value]) -> None:
    """Record a view of known sizes that has the same sizes in another order: `view(8, 64, 64, 3)` of (8, 3, 64, 64)."""
    given = arguments[0].items if len(arguments) == 1 and isinstance(arguments[0], SequenceValue) else arguments
    new, old = [integer(each) for each in given], list(before.shape.sizes)
    if name in {"view", "reshape"} and _moves_features(before, new) and is_certain(call.reader):
        call.reader.record.misuses.append(Misuse(call.location, before, PERMUTES, f"(rows, tokens, {new[1]})"))
        return
    if name not in {"view", "reshape"} or before.shape.is_open or len(new) != len(old) or None in new or None in old:
        return
    known, sizes = [each for each in new if each is not None], [each for each in old if each is not None]
    is_same = sorted(known) == sorted(sizes) and [each for each in known if each > 1] != [
        each for each in sizes if each > 1
    ]
    if is_same and is_certain(call.reader) and not _is_written_out(call, before):
        call.reader.record.misuses.append(Misuse(call.location, before, PERMUTES, str(before.shape)))


def _moves_features(before: Tensor, new: Sequence[int | None]) -> bool:
    """Whether a view puts the features of tokens, which are on the last axis, before the tokens: `view(n, 50, -1)`."""
    made = before.made.name if before.made is not None else ""
    # A linear layer keeps the axes of what it gets, so three of them have to be known.
    is_of_tokens = made in {"embedding", "lstm", "gru", "rnn"} or (made == "linear" and before.shape.rank == 3)
    features = before.shape.last
    rests = {-1, None, before.shape.sizes[1]} - {features} if before.shape.rank == 3 else {-1, None}
    has_room = len(new) == 3 and new[2] in rests and new[1] == features
    return is_of_tokens and not before.is_reshaped and not before.is_sliced and has_room and (features or 0) > 1


def _is_written_out(call: Call, tensor: Tensor) -> bool:
    """Whether a tensor shows numbers that the code lists or counts, whose axes mean nothing: `torch.arange(6)`."""
    return tensor.origin is not None and LISTED.match(call.reader.source.code(tensor.origin)) is not None


LISTED = lazy_pattern(r"(torch|np|numpy)\.((\w*[tT]ensor|array)\(\s*[\[(]|arange\(|linspace\()")


def graph_of(values: Iterable[Value]) -> frozenset[int]:
    """The forward passes in the graphs of some values."""
    return frozenset[int]().union(*(value.graph for value in values if isinstance(value, Tensor)))


def graph_here(reader: Reader, values: Iterable[Value]) -> frozenset[int]:
    """The forward passes in the graph of what is computed here from values: none where autograd may be off."""
    return frozenset() if reader.without_grad else graph_of(values)


def detached(tensor: Tensor, name: str, location: Location) -> Tensor:
    """A tensor's numbers without its graph, as an attribute gives them: `x.data`."""
    return replace(tensor, cut=tensor.cut or Operation(name, location), origin=location)


def rest(call: Call, tensor: Value) -> list[Argument]:
    """The arguments of an operation without the tensor that it works on."""
    named = [call.keywords[name] for name in ("dim", "axis", "start_dim", "end_dim", "shape") if name in call.keywords]
    positional = list(call.positional)
    if isinstance(call.receiver, Tensor) or (call.receiver is tensor and isinstance(tensor, Unknown)):
        return [*positional, *named]
    return [*positional[1:], *named]


def _given(call: Call, before: Tensor) -> str:
    if isinstance(call.receiver, Tensor):
        return call.receiver_text
    return call.positional[0].text if call.positional else ""


def kind_asked_for(call: Call, kind: str) -> str:
    """The kind of number that a call gives, which is `kind` without a `dtype=`; empty if its `dtype=` is not known."""
    given = call.keywords.get("dtype")
    is_open = given is not None and not (isinstance(given.value, Constant) and given.value.value is None)
    return kind_given(call) or ("" if is_open else kind)


def kind_given(call: Call) -> str:
    """The kind of number that a `dtype=` asks for, or the type that `to` and `astype` are given; empty if none."""
    given = [call.keywords["dtype"].value] if "dtype" in call.keywords else []
    if call.path.rpartition(".")[2] in {"to", "type", "astype"}:
        given.extend(argument.value for argument in call.positional)
    names = [value.name if isinstance(value, Library) else text_of(value) or "" for value in given]
    return next((kind for name in names if (kind := kind_of(name))), "")


def _asks_for_unknown_kind(call: Call, name: str) -> bool:
    """Whether a move goes to a type that is not known (`y.to(x.dtype)`, `y.to(x)`), not merely to a device."""
    given = call.positional if name in {"to", "type", "astype"} else []
    return any(isinstance(each.value, Bound | Tensor | Unknown) and not DEVICE.search(each.text) for each in given)


def kind_of(name: str) -> str:
    """The kind of number of a type by its name; empty if it is none of the usual ones."""
    return "float" if name in FLOATS else "int" if name in INTEGERS else "bool" if name == "bool" else ""


DATA = "data"
"""The operation behind tensors that no model made: by the script itself, or out of its data."""

NORMALISERS = frozenset({"softmax", "log_softmax", "sigmoid"})


def normalised(call: Call) -> Tensor | None:
    """What softmax and sigmoid of torch give of something that is not understood; None for other operations."""
    name = call.path.rpartition(".")[2]
    is_method = isinstance(call.receiver, Unknown) and not call.path.startswith("torch.")
    if name not in NORMALISERS or not (is_method or call.path.startswith("torch.")):
        return None
    given = call.receiver if is_method else call.positional[0].value if call.positional else UNKNOWN
    text = call.receiver_text if is_method else _given(call, Tensor())
    made = Operation(_along(call, name, shape_of(given)), call.location, call.text, text)
    return Tensor(text=call.text, made=made, shape=shape_of(given), kind="float", origin=call.location)


def _along(call: Call, name: str, shape: Shape) -> str:
    """Softmax over the rows of a batch is another operation than softmax over the classes."""
    if shape.rank == 1:
        return name
    positions = [argument.value for argument in call.positional]
    axis = call.keywords["dim"].value if "dim" in call.keywords else positions[-1] if positions else UNKNOWN
    return f"{name} over rows" if name != "sigmoid" and literal(axis) == 0 and integer(axis) == 0 else name


FROM_DATA = lazy_pattern(r"\.\[\]|^batch\.\[")
"""Names of unknown things that a loop over data gives: an element, or a part of one."""


def is_data(value: Value) -> bool:
    """Whether a value certainly comes from the data, or is a literal: no gradient flows into it."""
    match value:
        case Tensor():
            is_made_of_data = value.role is Role.LABELS or (value.made is not None and value.made.name == DATA)
            is_same_as_data = value.of is not UNKNOWN and is_data(value.of)
            return (isinstance(value.model, Unknown) and is_made_of_data) or value.cut is not None or is_same_as_data
        case Constant() | Absent():
            return True
        case Derived():
            return is_data(root_of(value.of) if value.by == "slice" else root_of(value))
        case Unknown():
            return FROM_DATA.search(value.name) is not None
        case SequenceValue():
            return all(is_data(item) for item in value.items)
        case _:
            return False


def combined(reader: Reader, left: Value, operator: str, right: Value, text: str, location: Location) -> Tensor:
    """What arithmetic makes of a tensor and something else: numbers of its own, off the graph if both are."""
    tensors = [operand for operand in (left, right) if isinstance(operand, Tensor)]
    cuts = [operand.cut for operand in tensors if operand.cut]
    others = [operand for operand in (left, right) if not isinstance(operand, Tensor)]
    is_cut = len(cuts) == len(tensors) and all(is_data(operand) for operand in others)
    put_together = multiplied if operator == "MatMult" else broadcast
    shape = put_together(tensors[0].shape, tensors[-1].shape) if len(tensors) == 2 else ANY
    if len(tensors) == 1 and any(isinstance(operand, Constant | Whole | Real) for operand in (left, right)):
        shape = tensors[0].shape
    made = Operation(operator.lower(), location, text)
    kind = _kind_after(operator, left, right)
    cut = cuts[0] if is_cut else None
    return Tensor(
        text=text,
        made=made,
        shape=shape,
        kind=kind,
        cut=cut,
        origin=location,
        passes=graph_here(reader, tensors),
    )


def _kind_after(operator: str, left: Value, right: Value) -> str:
    """The kind of number that arithmetic gives: integers stay integers, except in a division or with a float."""
    kinds = {_kind_of_operand(operand) for operand in (left, right)}
    if "" in kinds or not kinds <= {"int", "float"}:
        return ""
    return "float" if operator == "Div" or "float" in kinds else "int"


def _kind_of_operand(operand: Value) -> str:
    if isinstance(operand, Tensor):
        return operand.kind
    plain = literal(operand)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        return ""
    return "int" if isinstance(plain, int) else "float"


def subscripted(tensor: Tensor, keys: Sequence[Value]) -> Tensor:
    """A tensor after a subscript: its numbers, in another shape."""
    kinds = key_kinds(keys, tensor.shape)
    is_table = sum(kind != "new" for kind in kinds) == 2 and _is_table(tensor)
    is_sliced = tensor.is_sliced or any(kind != "new" for kind in kinds)
    shape = shape_of_subscript(TABLE if is_table else tensor.shape, kinds)
    if is_table and shape.rank == 2 and isinstance(columns := keys[-1], Slice):
        shape = Shape((None, columns_taken(columns, None)), False)
    return replace(tensor, shape=shape, is_sliced=is_sliced)


TABLE = Shape((None, None), False)
READS_TABLE = lazy_pattern(r"\b(?:loadtxt|genfromtxt)\(")


def _is_table(tensor: Tensor) -> bool:
    """Whether numbers come from a file of text as they are: two axes, if the code takes a part along a second one."""
    is_whole = tensor.shape.is_open and not tensor.shape.sizes and not tensor.is_sliced and not tensor.is_reshaped
    made = tensor.made
    return is_whole and made is not None and made.name == DATA and bool(READS_TABLE.search(made.text))


def key_kinds(keys: Sequence[Value], shape: Shape) -> list[Key]:
    """What the keys of a subscript do to the axes of a tensor."""
    if len(keys) == 1 and isinstance(keys[0], Tensor) and keys[0].kind == "bool":
        rank = shape.rank if shape.rank == 1 else keys[0].shape.rank
        # A mask over several axes leaves one, for the entries that it chooses.
        return ["other"] if not rank else [*["axis"] * (rank - 1), "mask"]
    kinds = [key_kind(key) for key in keys]
    if kinds.count("rest") == 1 and shape.rank is not None:
        # `x[..., 0]`: the axes that no other key is for stay as they are.
        at, left = kinds.index("rest"), shape.rank - sum(kind not in {"new", "rest"} for kind in kinds)
        kinds[at : at + 1] = ["all"] * left
    return ["other" if kind == "rest" else kind for kind in kinds]


def key_kind(key: Value) -> Key:
    """What one key of a subscript does to its axis: `all`, `slice`, `axis`, `new`, `rest` or another."""
    if isinstance(key, Slice):
        return "all" if all(isinstance(bound, Absent) for bound in (key.lower, key.upper, key.step)) else "slice"
    if isinstance(key, Library) and key.path == "numpy.newaxis":
        return "new"
    if isinstance(key, Whole):
        return "axis"
    if isinstance(key, Constant):
        return "new" if key.value is None else "axis"
    if isinstance(key, Unknown) and key.name == "...":
        return "rest"
    if isinstance(key, SequenceValue) and key.kind == "list":
        are_places = key.is_complete and all(isinstance(literal(item), int) for item in key.items)
        is_mask = any(isinstance(literal(item), bool) for item in key.items)
        return Shape((len(key.items),), False) if are_places and not is_mask else "mask"
    # A row of truths and a row of places leave one axis both.
    is_row = isinstance(key, Tensor) and key.shape.rank is not None and (key.kind == "int" or key.shape.rank == 1)
    return key.shape if is_row and isinstance(key, Tensor) else "other"
