"""Arrays and tensors that code makes of numbers: of nested lists, of the values of a frame, of an image."""

from __future__ import annotations

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import operated
from lintrain.interpreter.shapes import ANY, integer
from lintrain.interpreter.tracing import DATA, KINDS, kind_asked_for
from lintrain.model.location import Location
from lintrain.pipeline.record import Difference, Misuse
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.columns import Series
from lintrain.pipeline.values.data import Column, ColumnValues, Kind, Padding, Rows
from lintrain.pipeline.values.model import Model, Network, Role, Tensor
from lintrain.pipeline.values.python import (
    Absent,
    Constant,
    Either,
    LibraryObject,
    OneOf,
    Sequence,
    Unknown,
    Value,
    is_true,
    literal,
    text_of,
)
from lintrain.pipeline.values.tensors import CLASSES, Operation, Real, Shape, Whole
from lintrain.pipeline.values.training import KerasLabels
from lintrain.startup.lazy_pattern import lazy_pattern


def data(call: Call, shape: Shape, kind: str) -> Tensor:
    """A tensor of numbers that no model made; one that autograd shall follow is a leaf of its graph."""
    # A leaf that learns is a parameter rather than data, and its gradient is what matters.
    if is_true(call.value("requires_grad")):
        return Tensor(text=call.text, shape=shape, kind=kind_asked_for(call, kind), origin=call.location)
    made = Operation(DATA, call.location, call.text)
    return Tensor(text=call.text, made=made, shape=shape, kind=kind_asked_for(call, kind), origin=call.location)


NUMERIC = "number"
"""The kind of one number of which nothing else is known."""

OF_FRAMES = {Kind.CLASS: "int", Kind.INTEGER: "int", Kind.FLOAT: "float", Kind.UNKNOWN: NUMERIC, Kind.IMAGE: "int"}
"""The kinds of tensors that are made of a frame's values, and of images: those of text raise."""


def of_values(call: Call, given: Value) -> Tensor | None:
    """The array that a column of a frame, one number of it or an image becomes; None of anything else."""
    match given:
        case ColumnValues(column=column, dataset=Unknown(), axes=axes) if column.kind in OF_FRAMES:
            is_image = column.kind is Kind.IMAGE
            if axes is None and not is_image:
                return None
        case Series(column=column, gaps=gaps):
            axes = 1
            # `torch.tensor` reads the items by their numbers, `torch.LongTensor` iterates over them (torch 2.12).
            if gaps is not None and call.path in {"torch.tensor", "torch.as_tensor"} and not call.reader.guards:
                call.reader.record.misuses.append(Misuse(call.location, given, READ_BY_LABEL, call.text))
        case _:
            return None
    kind = OF_FRAMES.get(column.kind, "")
    shape = ANY if axes is None else Shape((None,) * axes, False)
    named = KINDS.get(call.path.rpartition(".")[2], "")
    return data(call, shape, named or ("" if kind == NUMERIC else kind))


READ_BY_LABEL = "read by label"
"""The use of a column whose index has gaps by what counts its items."""


MOST_ITEMS = 64
"""Numbers of a list whose kinds are compared."""


def _kind_of_number(value: Value) -> str:
    """The kind of a single number; empty for what is none, or may be a list."""
    match value:
        case OneOf(literals=(first, *_)) if isinstance(first, int | float):
            return type(first).__name__  # `bool`, `int` or `float`
        case Either(options=options):
            kinds = {_kind_of_number(option) for option in options}
            return kinds.pop() if len(kinds) == 1 else ""
        case ColumnValues(column=column, dataset=Unknown(), axes=0):
            return OF_FRAMES.get(column.kind, "")
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


JOINED = "joined numbers"
"""The use of tensors without an axis that `torch.cat` is given; `text` is the code of the function."""


def note_joined_numbers(call: Call, given: list[Tensor]) -> None:
    """Record tensors without an axis that are concatenated: a list that gets the loss of each batch."""
    reader = call.reader
    # What is in a `try` may be there to fail, and one of several values may be the one that fits.
    if call.node is None or reader.guards or reader.alternatives:
        return
    # Of other tensors an axis may have been lost in reading: `argmax(1)` of scores that were indexed before.
    if any(item.role is not Role.LOSS or item.shape.rank != 0 for item in given):
        return
    code = reader.code(reader.source.location(call.node.func))
    reader.record.misuses.append(Misuse(call.location, given[0], JOINED, code))


TYPED = frozenset({"Tensor", "FloatTensor", "LongTensor"})
"""Constructors that take sizes or numbers."""


def takes_sizes(call: Call, given: Value) -> bool:
    """`torch.FloatTensor(rows, 1)`: numbers that are no list are the sizes of the axes."""
    is_number = isinstance(given, Whole) or integer(given) is not None
    return call.path.startswith("torch.") and call.path.rpartition(".")[2] in TYPED and is_number


def from_literal(call: Call) -> Value | None:
    """`torch.tensor([[1.0, 2.0]])`: shape and kind of nested lists of numbers; None for anything else."""
    given = call.positional[0].value if call.positional else Absent()
    note_stacked_rows(call, given)
    if not isinstance(given, Sequence | Whole | Real) or takes_sizes(call, given):
        return None
    sizes: list[int | None] = []
    items: list[Value] = [given]
    while isinstance(given, Sequence) and given.items:
        sizes.append(len(given.items) if given.is_complete else None)
        items = given.items
        given = items[0]
    kind = _kind_of_number(given)
    others = {_kind_of_number(each) for each in items[:MOST_ITEMS]} - {kind, "bool"}
    if kind and others:  # one float makes floats of all, and so may what is not understood
        kind = "float" if "float" in (kind, *others) else NUMERIC if others & {"", NUMERIC} else "int"
    if not kind:
        return _of_arrays(call, sizes, given)
    kind = "" if kind == NUMERIC else kind
    kind = {"torch.Tensor": "float", "torch.FloatTensor": "float", "torch.LongTensor": "int"}.get(call.path, kind)
    return data(call, Shape(tuple(sizes), False), kind)


def _of_arrays(call: Call, sizes: list[int | None], item: Value) -> Tensor | None:
    """`np.array([row, other])` of arrays with known axes."""
    part = item if isinstance(item, Tensor) else of_values(call, item) if isinstance(item, Series) else None
    if part is None or part.shape.is_open or not sizes:
        return None
    return data(call, Shape((*sizes, *part.shape.sizes), False), part.kind)


SCORES_COMPARED = "scores compared"
"""The use of what a network gives where only class numbers can be equal to class numbers."""

LABELS_COMPARED = "classes compared"
"""The use of classes that a model chose where they are compared with its labels, position by position."""

SCORES = frozenset({"linear", "softmax", "log_softmax", "sigmoid", "max", "amax"})
"""Operations that give one number for each class, or the largest of these."""


def note_compared(reader: Reader, left: Value, right: Value, location: Location) -> None:
    """Record `outputs == labels`: scores of a network, which no class number equals but by chance."""
    _note_shapes(reader, left, right, location)
    for scores, classes, side in ((left, right, -1), (right, left, 0)):
        if _are_predicted(scores) and _are_labels(reader, classes, location, side):
            reader.record.misuses.append(Misuse(location, scores, SCORES_COMPARED, reader.code(location)))
            return
        if not isinstance(scores, Tensor) or not isinstance(classes, Tensor) or isinstance(scores.model, Unknown):
            continue
        if (scores.role, classes.role) == (Role.CLASSES, Role.LABELS) and scores.model is classes.model:
            reader.record.misuses.append(Misuse(location, scores, LABELS_COMPARED, reader.code(location)))
            return
        is_score = scores.kind == "float" and scores.made is not None and scores.made.name in SCORES
        if is_score and classes.kind == "int" and classes.made is not None and classes.made.name == DATA:
            reader.record.misuses.append(Misuse(location, scores, SCORES_COMPARED, reader.code(location)))
            return


def _note_shapes(reader: Reader, left: Value, right: Value, location: Location) -> None:
    """Record the shapes of what a model predicts where it is compared with rows of the data."""
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return
    is_of_model = isinstance(left.model, Unknown) != isinstance(right.model, Unknown)
    are_data = any(each.made is not None and each.made.name == DATA for each in (left, right))
    # Classes in a column are compared with all class numbers on purpose: those are no rows.
    if is_of_model and are_data and left.shape.rows_first and right.shape.rows_first:
        reader.record.differences.append(Difference(location, left.shape, right.shape, reader.code(location), "Eq"))


def _are_predicted(scores: Value) -> bool:
    """Whether they are scores of classes as `predict` of Keras gives them, not rounded."""
    return (
        isinstance(scores, Tensor)
        and isinstance(scores.model, Network)
        and scores.role in SCORED
        and scores.cut is not None
        and scores.cut.name == "predict"
    )


LABEL_NAMES = lazy_pattern(r"(?!.*(?:pred|prob|hat|score|out))(?:[yY]|[Ll]abels?|targets?)(?:_?[a-z]+)?|\w+_labels?")
"""Names of labels that come from elsewhere: `y_test`, `labels`, `test_labels`."""


EQUALS = lazy_pattern(r"[=!]=")


def _are_labels(reader: Reader, classes: Value, location: Location, side: int) -> bool:
    """Whether they are labels of the data: as such, or something unknown under the name of labels on its side."""
    if isinstance(classes, KerasLabels):
        return True
    if isinstance(classes, Tensor):
        return classes.made is not None and classes.made.name == DATA and classes.kind != "float"
    code = EQUALS.split(reader.code(location))[side].strip(" ()")
    return isinstance(classes, Unknown | Series) and LABEL_NAMES.fullmatch(code) is not None


SCORED = frozenset({Role.LOGITS, Role.PROBABILITIES})
"""What has one number for each class."""

OF_ONE = "argmax of one"
OVER_TOKENS = "argmax over tokens"
OF_CLASSES = "argmax of classes"
OF_TOKENS = "argmax of tokens"
OF_TAGS = "argmax of tags"
HALF = "logits against 0.5"
"""Uses of the output of a model's head that do not fit it."""


def note_choice(call: Call, scores: Value, axis: Argument | None) -> None:
    """Record a choice among the outputs of a head that has one, or among the tokens of a text."""
    if axis is None or not isinstance(scores, Tensor):
        return
    if scores.role is Role.CLASSES and isinstance(scores.model, Model):
        if literal(axis.value) in {-1, 1}:
            call.reader.record.misuses.append(Misuse(call.location, scores, OF_CLASSES, call.text))
        return
    if scores.role is Role.TOKENS and "return_dict" not in scores.text and literal(axis.value) in {-1, 1}:
        # `if predictions.ndim == 3:` asks whether they are scores after all.
        if not call.reader.conditions:
            call.reader.record.misuses.append(Misuse(call.location, scores, OF_TOKENS, call.text))
        return
    # `if model.output_shape[-1] > 1:` decides for a function that several networks are given to.
    is_certain = isinstance(scores.model, Network) and not call.reader.conditions
    if is_certain and literal(axis.value) in {-1, 1} and scores.shape.sizes == (None, 1):
        call.reader.record.misuses.append(Misuse(call.location, scores, OF_ONE, call.text))
    if scores.role not in SCORED:
        return
    # `argmax(-1)` over one column is always 0. Over the rows (axis 0) it would be a choice among rows.
    along, model, shape = literal(axis.value), scores.model, scores.shape
    if along in {-1, 1} and isinstance(model, Model) and literal(model.num_labels) == 1:
        call.reader.record.misuses.append(Misuse(call.location, scores, OF_ONE, call.text))
    elif along in {-1, 1} and isinstance(model, Model) and has_tags(model):
        call.reader.record.misuses.append(Misuse(call.location, scores, OF_TAGS, call.text))
    if along == 1 and isinstance(model, Model) and not shape.is_open and shape.sizes == PER_TOKEN:
        call.reader.record.misuses.append(Misuse(call.location, scores, OVER_TOKENS, call.text))


def has_tags(model: Model) -> bool:
    """Whether each row of a model's labels certainly has several classes."""
    return text_of(model.problem_type) == "multi_label_classification"


PER_TOKEN = (None, None, CLASSES)
"""The sizes of scores of each token of each row."""


def note_threshold(reader: Reader, left: Value, right: Value, location: Location) -> None:
    """Record logits of a model that are compared with the threshold of probabilities."""
    is_of_model = isinstance(left, Tensor) and left.role is Role.LOGITS and isinstance(left.model, Model)
    if is_of_model and literal(right) == 0.5:
        reader.record.misuses.append(Misuse(location, left, HALF, reader.code(location)))
    elif isinstance(left, Tensor) and left.made is not None and left.made.name != DATA and literal(right) == 0.5:
        reader.record.misuses.append(Misuse(location, left, OUTPUT_AGAINST_HALF, reader.code(location)))


OUTPUT_AGAINST_HALF = "output against 0.5"
"""The use of what a network gives: which loss it is trained with says whether these are logits."""


DEVICE_USES = {
    "Eq": "device equals a text",
    "In": "device equals a text",
    "NotEq": "device differs from a text",
    "NotIn": "device differs from a text",
}


@operated(LibraryObject)
def _note_device(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """Record `device == "cuda"` for a `torch.device`, which equals no text."""
    sides = [side for side in (left, right) if isinstance(side, LibraryObject) and side.path == "torch.device"]
    other = right if sides and sides[0] is left else left
    listed = other.items if isinstance(other, Sequence) and other.is_complete and "In" in operator else [other]
    if len(sides) == 1 and operator in DEVICE_USES and listed and all(text_of(each) is not None for each in listed):
        reader.record.misuses.append(Misuse(location, sides[0], DEVICE_USES[operator], reader.code(location)))
    return None
