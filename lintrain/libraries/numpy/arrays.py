"""Arrays and tensors by what they hold: what NumPy, SciPy and torch make of logits, probabilities and classes."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    element_of,
    function,
    method,
    operated,
    stored_item_of,
    subscript_of,
    unpacked,
)
from lintrain.interpreter.shapes import ANY, RESHAPES, integer
from lintrain.interpreter.time_axis import note_row
from lintrain.interpreter.tracing import (
    ACTIVATIONS,
    DATA,
    MOVES,
    combined,
    normalised,
    rest,
    subscripted,
    traced,
)
from lintrain.libraries.datasets.access import some_masked
from lintrain.libraries.torch.gradients import new_leaf, note_array
from lintrain.libraries.torch.literals import (
    SCORED,
    from_literal,
    note_choice,
    note_compared,
    note_threshold,
    of_values,
)
from lintrain.libraries.torch.tensors import joined, of_unknown
from lintrain.model.location import Location
from lintrain.pipeline.record import Difference, Misuse
from lintrain.pipeline.values.columns import Series
from lintrain.pipeline.values.data import ColumnValues, Kind
from lintrain.pipeline.values.model import Role, Tensor, one_tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Either,
    Library,
    Sequence,
    Slice,
    Unknown,
    Value,
    is_true,
    join,
    options_of,
    text_of,
)
from lintrain.pipeline.values.tensors import Derived, Shape
from lintrain.pipeline.values.training import Pixels, Predictions

WHOLE_NUMBERS = frozenset({"int", "int8", "int16", "int32", "int64", "long", "bool", "bool_", "uint8", "int_"})
LITERALS = frozenset({"numpy.array", "torch.tensor", "torch.Tensor", "torch.FloatTensor", "torch.LongTensor"})
COMPARISONS = frozenset({"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"})


def array_of(value: Value) -> Value:
    """A value as an array: itself, or what the items of a list have in common."""
    if isinstance(value, Sequence) and value.kind == "list" and value.items:
        items = [item for item in value.items if isinstance(item, Tensor)]
        # Logits of one model are a batch of them; logits and labels in one list are not an array of anything.
        same = {(item.role, id(item.model)) for item in items}
        if len(items) != len(value.items) or len(same) != 1:
            return UNKNOWN
        shapes = {item.shape for item in items}
        rows = len(items) if value.is_complete else None
        known = len(shapes) == 1 and not items[0].shape.is_open
        shape = Shape((rows, *items[0].shape.sizes), False) if known else ANY
        return replace(items[0], shape=shape, is_cleaned=items[0].is_cleaned or not value.is_complete)
    return value


def in_role(role: Role, value: Value, call: Call) -> Tensor:
    """An array of the same model's outputs that holds something else now."""
    if not isinstance(value, Tensor):
        return Tensor(role, UNKNOWN, call.text, origin=call.location)
    # The model comes along: classes out of its logits are still its predictions.
    return Tensor(role, value.model, call.text, is_cleaned=value.is_cleaned, origin=call.location)


def subject_of(call: Call) -> Value:
    """The array that a function or method works on: its receiver, or its first argument."""
    first = call.receiver if isinstance(call.receiver, Tensor | Sequence) else _first(call)
    return one_tensor(join([array_of(option) for option in options_of(first)]))


def _first(call: Call) -> Value:
    given = [call.value(name) for name in ("input", "a", "x", "object", "array") if name in call.keywords]
    return call.positional[0].value if call.positional else next(iter(given), UNKNOWN)


def mapped(call: Call, roles: dict[Role, Role], otherwise: Role | None = Role.UNKNOWN) -> Value:
    """The subject in the role that its own is turned into; unchanged where `otherwise` is None."""
    subject = subject_of(call)
    if isinstance(subject, Either):
        return UNKNOWN
    if not isinstance(subject, Tensor):
        is_kept = isinstance(subject, Unknown) or (otherwise is None and isinstance(subject, ColumnValues))
        # An unknown value stays the same unknown value under operations that keep numbers, so that `x` and
        # `x.copy()` are one thing to rules about the same data.
        return normalised(call) or _reshaped(call, subject) if is_kept else UNKNOWN
    role = roles.get(subject.role, otherwise)
    return traced(call, subject, subject if role is None else in_role(role, subject, call))


def _reshaped(call: Call, subject: Value) -> Value:
    """The same unknown value, with what an operation leaves of the axes that are known of it."""
    name = call.path.rpartition(".")[2]
    if not isinstance(subject, Derived) or subject.shape == ANY or name in ACTIVATIONS | MOVES:
        return subject
    arguments = [argument.value for argument in rest(call, subject)]
    is_followed = name in RESHAPES and not call.is_open and "keepdim" not in call.keywords
    shape = RESHAPES[name](subject.shape, arguments) if is_followed else ANY
    return replace(subject, of=subject, by=name, text=call.text, shape=shape, origin=call.location)


def note_tuple(call: Call, argument: Value, text: str, location: Location, use: str) -> None:
    """Record a tuple of a model's outputs that is used as if it were the logits."""
    for option in options_of(argument):
        if is_output_tuple(option) or (isinstance(option, Predictions) and option.is_result):
            call.reader.record.misuses.append(Misuse(location, option, use, text))


def is_output_tuple(value: Value) -> bool:
    """Whether a value is the tuple of logits and other outputs that a metric function gets."""
    if not isinstance(value, Sequence) or value.kind != "tuple" or len(value.items) < 2:
        return False
    first, second = value.items[:2]
    is_logits = isinstance(first, Tensor) and first.role is Role.LOGITS
    return is_logits and isinstance(second, Tensor) and second.role is Role.HIDDEN


CHOSEN = {
    Role.LOGITS: Role.CLASSES,
    Role.PROBABILITIES: Role.CLASSES,
    Role.CLASSES: Role.CLASSES,
    Role.LABELS: Role.LABELS,
}
"""What choosing among scores, or rounding them, makes of an array."""


@function("numpy.argmax", "numpy.argsort", "torch.argmax", "torch.argsort", "numpy.argmin")
@function("numpy.round", "numpy.rint", "numpy.around", "torch.round")
def _choose(call: Call) -> Value:
    """Classes out of scores."""
    if call.positional and "arg" in call.path:
        first = call.positional[0]
        note_tuple(call, first.value, first.text, first.location, "argmax")
    if call.path.endswith(".argmax"):
        note_choice(call, subject_of(call), call.argument("axis", 1) or call.argument("dim"))
    return as_tensor(call, mapped(call, CHOSEN))


def as_tensor(call: Call, value: Value) -> Value:
    """What a function gives: those of torch give a tensor, whatever they are given, and some of NumPy an array."""
    gives_one = call.path.startswith("torch.") or call.path in GIVE_ARRAYS
    return of_unknown(call, value) if gives_one and not isinstance(value, Tensor | ColumnValues) else value


GIVE_ARRAYS = frozenset({"numpy.concatenate", "numpy.vstack"})


@method(Tensor, "argmax", "argsort", "round", "long", "int", "bool", "ge", "gt", "le", "lt")
def _choose_by_method(call: Call) -> Value:
    if call.path.endswith(".argmax"):
        note_choice(call, subject_of(call), call.argument("axis", 0) or call.argument("dim"))
    chosen = mapped(call, CHOSEN)
    if isinstance(call.receiver, Tensor) and isinstance(chosen, Tensor) and call.path.endswith((".long", ".int")):
        chosen.of = call.receiver.of
    return chosen


@method(Sequence, "argmax")
def _choose_of_tuple(call: Call) -> Value:
    """`predictions.argmax(-1)`, where the predictions are a tuple."""
    note_tuple(call, call.receiver, call.text.partition(".argmax")[0], call.location, "argmax")
    return UNKNOWN


@function("numpy.where", "torch.where")
def _where(call: Call) -> Value:
    """One of two arrays, place by place; of two plain values, the classes that the condition decides."""
    condition, *options = (argument.value for argument in call.positional[:3]) if call.positional else (UNKNOWN,)
    for argument in call.positional[1:3]:
        note_tuple(call, argument.value, argument.text, argument.location, "where")
    if tensors := [option for option in options if isinstance(option, Tensor)]:
        # `np.where(labels != -100, labels, pad)` replaces -100, so none may remain.
        return replace(tensors[0], is_cleaned=True, text=call.text, origin=call.location)
    if columns := [option for option in options if isinstance(option, ColumnValues)]:
        return some_masked(columns[0], options, call.location)
    if isinstance(condition, Tensor) and options and all(isinstance(option, Constant) for option in options):
        return in_role(Role.CLASSES, condition, call)
    return as_tensor(call, UNKNOWN)


@function("torch.softmax", "torch.nn.functional.softmax", "scipy.special.softmax", "torch.sigmoid")
@function("torch.nn.functional.sigmoid", "scipy.special.expit", "torch.special.expit", "scipy.special.log_softmax")
@function("torch.nn.functional.log_softmax", "torch.log_softmax", "numpy.exp", "torch.exp")
@method(Tensor, "softmax", "sigmoid", "log_softmax", "exp")
def _normalise(call: Call) -> Value:
    """Probabilities out of logits: still one number for each class."""
    return as_tensor(call, mapped(call, {Role.LOGITS: Role.PROBABILITIES}, None))


@function("numpy.array", "numpy.asarray", "numpy.squeeze", "numpy.reshape", "numpy.ravel", "numpy.copy")
@function("numpy.concatenate", "numpy.vstack", "numpy.nan_to_num", "numpy.transpose")
@function("torch.from_numpy", "torch.as_tensor", "torch.Tensor", "torch.squeeze", "torch.flatten")
@function("torch.cuda.FloatTensor", "torch.cuda.LongTensor")
@function("torch.cat", "torch.concat", "torch.vstack", "torch.FloatTensor", "torch.LongTensor")
@function("numpy.sin", "numpy.cos", "numpy.square", "numpy.sqrt", "numpy.abs", "numpy.tanh")
def _keep(call: Call) -> Value:
    """The same numbers in another shape or place."""
    if (pixels := _pixels_in(call)) is not None:
        return pixels
    made = _made_of(call)
    kept = mapped(call, {}, None) if made is None else made
    together = joined(call) if call.path in {"torch.cat", "torch.concat"} else None
    # Parts of one model's outputs stay what they are; parts of several are something new.
    if isinstance(kept, Tensor) and together is not None:
        # Whole numbers and others together are not whole: rows of zeros and a one, next to smoothed ones.
        return replace(kept, shape=together.shape, kind=together.kind)
    return as_tensor(call, kept) if together is None else together


def _pixels_in(call: Call) -> Pixels | None:
    """The images that are put into an array, or into another shape."""
    given = call.positional[0].value if call.positional else UNKNOWN
    items = given.items if isinstance(given, Sequence) and given.items else [given]
    images = [each for each in items if isinstance(each, Pixels)]
    is_one = len(images) == len(items) and len({each.is_scaled for each in images}) == 1
    return replace(images[0], side=None) if is_one else None


def _made_of(call: Call) -> Value | None:
    """The array that a call makes of numbers, of the values of a frame or of an image; None of anything else."""
    given = call.positional[0].value if call.positional else UNKNOWN
    is_image = isinstance(given, ColumnValues) and given.column.kind is Kind.IMAGE
    makes = call.path in LITERALS or call.path in {"torch.from_numpy", "torch.as_tensor", "numpy.asarray"}
    if makes and (call.path.startswith("torch.") or is_image or isinstance(given, Series)):
        made = of_values(call, given)
        if made is not None:
            return made
    return from_literal(call) if call.path in LITERALS else None


@function("numpy.clip", "torch.clamp")
def _limit(call: Call) -> Value:
    """The same numbers, those beyond a limit replaced."""
    kept = mapped(call, {}, None)
    return replace(kept, is_cleaned=True) if isinstance(kept, Tensor) else as_tensor(call, kept)


@method(Tensor, "cpu", "squeeze", "unsqueeze", "reshape", "view", "flatten", "ravel")
@method(Tensor, "contiguous", "float", "double", "half", "cuda", "to", "transpose", "permute")
def _keep_by_method(call: Call) -> Value:
    return mapped(call, {}, None)


@method(Tensor, "detach", "numpy", "tolist")
@function("torch.tensor", "torch.autograd.Variable", "torch.autograd.variable.Variable")
def _take_off(call: Call) -> Value:
    """The same numbers, in a tensor of its own that autograd does not know."""
    note_array(call)
    if is_true(call.value("requires_grad")) or call.path.endswith("Variable"):
        return new_leaf(call)
    made = _made_of(call)
    kept = mapped(call, {}, None) if made is None else made
    return replace(kept) if isinstance(kept, Tensor) else as_tensor(call, kept)


@method(Tensor, "astype", "type")
def _convert(call: Call) -> Value:
    """Whole numbers can be classes; another type changes nothing; one that is not known may be either."""
    kind = call.value("dtype", 0)
    if (name := kind.name if isinstance(kind, Library) else text_of(kind)) is None:
        return UNKNOWN
    if name not in WHOLE_NUMBERS:
        return mapped(call, {}, None)
    given = call.receiver
    is_score = isinstance(given, Tensor) and given.role is Role.PROBABILITIES and not given.is_cleaned
    if isinstance(given, Tensor) and is_score and given.made and given.made.name == "predict":
        call.reader.record.misuses.append(Misuse(call.location, given, "probabilities as integers", call.receiver_text))
    return mapped(call, CHOSEN)


@subscript_of(Tensor)
def _part(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """Rows chosen by a mask or slice stay what they are; one column or one row of scores is something else."""
    if not isinstance(value, Tensor):
        return UNKNOWN
    keys = key.items if isinstance(key, Sequence) and key.kind == "tuple" else [key]
    text = reader.code(location)
    note_row(reader, value, keys, location)
    if value.shape.rank == 0 and value.role is Role.LOSS and integer(key) == 0:
        reader.record.misuses.append(Misuse(location, value, "scalar index", text))
    elif text.endswith(".data[0]") and not value.shape.rank:
        reader.record.misuses.append(Misuse(location, value, "data index", text))
    if all(isinstance(each, Slice | Tensor) or _is_whole_axis(each) for each in keys):
        chosen = value.is_cleaned or any(isinstance(each, Tensor) for each in keys)
        return subscripted(replace(value, text=text, is_cleaned=chosen, origin=location), keys)
    if value.role in SCORED:
        return Tensor(Role.SCORES, value.model, text, origin=location) if len(keys) > 1 else UNKNOWN
    chosen = value.is_cleaned or not _are_numbers(keys)
    return subscripted(replace(value, text=text, is_cleaned=chosen, origin=location), keys)


def _are_numbers(keys: list[Value]) -> bool:
    return all(isinstance(each, Constant | Slice) for each in keys)


@stored_item_of(Tensor)
def _store_part(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`labels[labels == -100] = pad`."""
    if isinstance(owner, Tensor):
        owner.is_cleaned = True


def _is_whole_axis(key: Value) -> bool:
    """`None` in a subscript, which adds an axis."""
    return (isinstance(key, Constant) and key.value is None) or (
        isinstance(key, Library) and key.path == "numpy.newaxis"
    )


@element_of(Tensor)
def _row(reader: Reader, value: Value) -> Value:
    if not isinstance(value, Tensor) or not value.shape.rows_first:
        return value
    return replace(value, shape=value.shape.with_rows(first=False))


@unpacked(Tensor)
def _rows(reader: Reader, value: Value, count: int) -> list[Value] | None:
    """`loss, logits = network(x)`, where it is not known what the network returns: parts of that."""
    if not isinstance(value, Tensor):
        return None
    sizes = value.shape.sizes
    shape = ANY if value.shape.is_open or not sizes else Shape(sizes[1:], False)
    return [replace(value, shape=shape) for _ in range(count)]


def _compared(operator: str, tensors: list[Tensor]) -> Tensor | None:
    """The labels that classes are compared with as they are, if that is what two tensors are."""
    labels = [tensor for tensor in tensors if tensor.role is Role.LABELS]
    classes = [tensor for tensor in tensors if tensor.role is Role.CLASSES]
    if operator != "Eq" or len(labels) != 1 or len(classes) != 1 or labels[0].is_cleaned or classes[0].is_cleaned:
        return None
    return labels[0]


@operated(Tensor)
def _operate(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """A comparison of scores decides classes; arithmetic with a plain number changes nothing of the role."""
    tensors = [operand for operand in (left, right) if isinstance(operand, Tensor)]
    text = reader.code(location)
    if operator in COMPARISONS:
        if operator in {"Eq", "NotEq"}:
            note_compared(reader, left, right, location)
        note_threshold(reader, left, right, location)
        role = CHOSEN.get(tensors[0].role, Role.UNKNOWN)
        compared = combined(reader, left, operator, right, text, location)
        are_data = all(tensor.made and tensor.made.name == DATA for tensor in tensors)
        return replace(
            compared,
            role=role,
            model=tensors[0].model,
            kind="bool",
            passes=frozenset(),
            made=tensors[0].made if are_data else None,
            hits_of=_compared(operator, tensors),
        )
    after = combined(reader, left, operator, right, text, location)
    if operator in {"Sub", "Mult"} and isinstance(left, Tensor) and isinstance(right, Tensor):
        _note_difference(reader, left, operator, right, text, location)
    if len(tensors) == 1 and operator in {"Add", "Sub", "Mult", "Div", "Pow"}:
        return replace(after, role=tensors[0].role, model=tensors[0].model)
    if len(tensors) == 2 and tensors[0].role is tensors[1].role:
        return replace(after, role=tensors[0].role, model=tensors[0].model)
    return after


def _note_difference(reader: Reader, left: Tensor, operator: str, right: Tensor, text: str, location: Location) -> None:
    """Record a difference or product of what a model gave and what the data holds, which an own loss is made of."""
    origins = {isinstance(tensor.model, Unknown) for tensor in (left, right)}
    are_data = any(tensor.made and tensor.made.name == DATA for tensor in (left, right))
    # A column times a vector of weights is meant: each row has its own numbers then.
    are_rows = operator == "Sub" or (left.shape.rows_first and right.shape.rows_first)
    if len(origins) == 2 and are_data and are_rows:
        reader.record.differences.append(Difference(location, left.shape, right.shape, text, operator))
