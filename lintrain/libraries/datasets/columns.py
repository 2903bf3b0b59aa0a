"""Columns: what they contain, determined from the values that code puts into them, and their types."""

from __future__ import annotations

from collections.abc import Sequence as SequenceType
from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, entries_of, function, method, stored_item_of, subscript_of
from lintrain.model.location import Location
from lintrain.pipeline.values.columns import Series
from lintrain.pipeline.values.data import Column, ColumnValues, Feature, Features, Kind, Padding
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Either,
    Library,
    Literal,
    Mapping,
    OneOf,
    Sequence,
    Value,
    join,
    number_of,
    text_of,
)
from lintrain.pipeline.values.tensors import Shape, Templated, Text

IGNORED = -100
"""The label that torch's and transformers' losses leave out."""

TOKEN_COLUMNS = frozenset({"input_ids", "decoder_input_ids"})
MASK_COLUMNS = frozenset({"attention_mask", "token_type_ids", "decoder_attention_mask", "special_tokens_mask"})

TYPE_KINDS = {
    "string": Kind.TEXT,
    "large_string": Kind.TEXT,
    "bool": Kind.INTEGER,
    "float16": Kind.FLOAT,
    "float32": Kind.FLOAT,
    "float64": Kind.FLOAT,
}
"""Kinds by the name of an Arrow type; integer types are recognized by their prefix."""

OF_NUMBERS = {"int": Kind.INTEGER, "float": Kind.FLOAT}
"""What a tensor of such numbers holds."""

MOST_PARTS = 8
"""Items of a list that are looked at to determine its kind."""


def kind_of_type(name: str) -> Kind:
    """What a column of an Arrow type holds: `string`, `int64`, `float32`."""
    if name.startswith(("int", "uint")):
        return Kind.INTEGER
    return TYPE_KINDS.get(name, Kind.UNKNOWN)


def column_of(name: str, value: Value, *, is_batch: bool) -> Column:
    """The column that this value becomes; of a batch, each item of it is a row."""
    row = _any_of(value.items) if is_batch and isinstance(value, Sequence) and value.items else value
    if is_batch and isinstance(value, Sequence) and not value.items:
        row = value
    if is_batch and isinstance(value, Tensor) and value.shape.sizes and not value.shape.is_open:
        row = replace(value, shape=Shape(value.shape.sizes[1:], False))
    found = _described(row)
    if is_batch and isinstance(value, Sequence) and value.knows_items:
        found = replace(found, shown_classes=_classes_shown(value.items))
    if found.kind is Kind.UNKNOWN:
        # Only if the value shows nothing: code that fills `input_ids` with text is a mistake, and its
        # name must not hide that.
        found = replace(found, kind=kind_by_name(name))
    return found.named(name)


def _any_of(items: list[Value]) -> Value:
    """One value for all of the items: the first of plain texts or plain numbers, however many there are."""
    # A literal column of 10,000 texts is described by the first of them. Joining all would make an Unknown
    # of more than four.
    plain = {type(item.value) for item in items if isinstance(item, Constant) and not item.default}
    is_plain = len(plain) == 1 and all(isinstance(item, Constant) and not item.default for item in items)
    return items[0] if is_plain and not any(masks_some(item) for item in items) else join(items)


def kind_by_name(name: str) -> Kind:
    """What a column certainly holds by its name alone: only the inputs of a transformers model have one."""
    if name in TOKEN_COLUMNS:
        return Kind.TOKENS
    return Kind.MASK if name in MASK_COLUMNS else Kind.UNKNOWN


def _described(value: Value) -> Column:
    match value:
        case ColumnValues(column=column):
            return replace(column, copied_from=column.copied_from or column.name)
        case Feature(column=column) | Series(column=column):
            return column
        case Text() | Templated():
            return Column("", Kind.TEXT, written=value)
        case OneOf(literals=literals):
            return Column("", _kind_of_literal(literals[0]), shown_classes=_classes_of(literals))
        case Constant(value=plain):
            return Column("", _kind_of_literal(plain))
        case Tensor(kind=kind, shape=shape) if kind in OF_NUMBERS:
            item = OF_NUMBERS[kind]
            if shape.is_open:
                return Column("", item=item)
            # A list of a single number is what a loss reads as the number itself: `torch.tensor([label])`.
            return Column("", Kind.LIST, item=item) if shape.sizes not in {(), (1,)} else Column("", item)
        case Sequence(items=items) if items:
            return _listed(_merged(items))
        case Either(options=options):
            return _merged(options)
        case _:
            return Column("")


def _kind_of_literal(plain: object) -> Kind:
    match plain:
        case str():
            return Kind.TEXT
        case bool() | int():
            return Kind.INTEGER
        case float():
            return Kind.FLOAT
        case _:
            return Kind.UNKNOWN


def _listed(item: Column) -> Column:
    """A list of such items: token ids stay token ids, everything else is a list."""
    # A list of token rows is a batch, and its column holds token rows. A list of numbers in each row is
    # something new.
    if item.kind in {Kind.TOKENS, Kind.MASK, Kind.UNKNOWN}:
        return replace(item, padding=Padding.UNKNOWN, truncated=None)
    return Column("", Kind.LIST, is_masked=item.is_masked, item=item.kind)


def _merged(values: SequenceType[Value]) -> Column:
    """One column for values of any of these; a -100 among them masks it."""
    plain = [option for value in values for option in (value.options if isinstance(value, Either) else (value,))]
    # `[-100 if t == pad else t for t in ids]` holds token ids, some of them masked: -100 says nothing about
    # the kind.
    kept = [value for value in plain if not (isinstance(value, Constant) and value.value == IGNORED)]
    is_masked = len(kept) < len(plain)
    if not kept:
        return Column("", Kind.INTEGER, is_masked=True)
    first, *others = [_described(value) for value in kept[:MOST_PARTS]]
    # Different kinds in one list: no rule can say anything about such a column, but its mask is still
    # certain.
    if any(other.kind is not first.kind for other in others):
        return Column("", is_masked=is_masked)
    first = replace(first, shown_classes=_classes_shown(kept))
    return replace(first, is_masked=True) if is_masked else first


def _classes_shown(labels: SequenceType[Value]) -> int | None:
    """The number of classes that labels show, if all of them are certainly literals."""
    plain = [label.value for label in labels if isinstance(label, Constant) and not label.default]
    return _classes_of(plain) if len(plain) == len(labels) else None


def _classes_of(literals: SequenceType[Literal]) -> int | None:
    """The number of classes if literals are whole numbers from 0 on, without gaps, and at least two of them."""
    numbers = {each for each in literals if isinstance(each, int) and not isinstance(each, bool)}
    is_counted = len(literals) > 1 and all(each in numbers for each in literals) and numbers == set(range(len(numbers)))
    return len(numbers) if is_counted and len(numbers) > 1 else None


def masks_some(value: Value) -> bool:
    """Whether a value is, or holds, the label that losses leave out."""
    match value:
        case Constant(value=plain):
            return plain == IGNORED
        case Sequence(items=items):
            return any(masks_some(item) for item in items)
        case _:
            return False


def types_of(value: Value) -> Column:
    """The column that a feature's type describes, given as an object or as an Arrow type's name."""
    match value:
        case Feature(column=column):
            return column
        case Constant(value=str(name)):
            return Column("", kind_of_type(name))
        case Library(path=path) if path.endswith(".Image"):
            return Column("", Kind.IMAGE)
        case _:
            return Column("")


@entries_of(Features)
def feature_entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    """The columns' types by name."""
    if not isinstance(value, Features):
        return {}, False
    return {name: Feature(column) for name, column in value.columns.items()}, value.is_complete


@subscript_of(Features)
def _feature(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    return feature_entries(value)[0].get(text_of(key), UNKNOWN)


@stored_item_of(Features)
def _set_feature(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    name = text_of(key)
    if isinstance(owner, Features) and name is not None:
        owner.columns[name] = types_of(value).named(name)


@method(Features, "copy")
def _copy(call: Call) -> Value:
    features = call.receiver
    if not isinstance(features, Features):
        return UNKNOWN
    return Features(dict(call.reader.counted(features.columns)), features.is_complete, features.dataset)


@attribute_of(Feature)
def _feature_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Feature):
        return None
    column = value.column
    match name:
        case "names" if column.class_names:
            return Sequence([Constant(each) for each in column.class_names])
        case "num_classes":
            count = len(column.class_names) or column.num_classes
            return Constant(count) if count else UNKNOWN
        # The feature of a list is described by the same column: `features["ner_tags"].feature.names` are
        # its class names.
        case "feature":
            return value
        case "names" | "dtype" | "shape" | "length" | "_type":
            return UNKNOWN
        case _:
            return None


@method(Feature, "str2int")
def _number_of_name(call: Call) -> Value:
    name = text_of(call.value("values", 0))
    names = call.receiver.column.class_names if isinstance(call.receiver, Feature) else ()
    return Constant(names.index(name)) if name in names else UNKNOWN


@method(Feature, "int2str")
def _name_of_number(call: Call) -> Value:
    number = number_of(call.value("values", 0))
    names = call.receiver.column.class_names if isinstance(call.receiver, Feature) else ()
    return Constant(names[int(number)]) if number is not None and 0 <= number < len(names) else UNKNOWN


@function("datasets.ClassLabel")
def _class_label(call: Call) -> Value:
    """`ClassLabel(num_classes=3)`, `ClassLabel(names=[...])`."""
    listed = call.value("names", 1)
    items = listed.items if isinstance(listed, Sequence) and listed.is_complete else []
    names = [text for item in items if (text := text_of(item)) is not None]
    count = number_of(call.value("num_classes", 0))
    known = tuple(names) if len(names) == len(items) else ()
    return Feature(Column("", Kind.CLASS, known, len(known) or (int(count) if count else None)), origin=call.location)


@function("datasets.Value")
def _value(call: Call) -> Value:
    return Feature(Column("", kind_of_type(text_of(call.value("dtype", 0)) or "")), origin=call.location)


@function("datasets.Image", "datasets.Audio")
def _media(call: Call) -> Value:
    return Feature(Column("", Kind.IMAGE if call.path.endswith("Image") else Kind.AUDIO), origin=call.location)


@function("datasets.Sequence", "datasets.List", "datasets.LargeList")
def _list(call: Call) -> Value:
    """A list of classes keeps their names: a label for each token."""
    inner = types_of(call.value("feature", 0))
    return Feature(replace(inner, kind=Kind.LIST, item=inner.kind), origin=call.location)


@function("datasets.Features")
def _features(call: Call) -> Value:
    given = call.value("features", 0)
    if not isinstance(given, Mapping):
        return UNKNOWN
    call.reader.spend(len(given.entries))
    types = {str(name): types_of(value).named(str(name)) for name, value in given.entries.items()}
    return Features(types, given.is_complete, origin=call.location)
