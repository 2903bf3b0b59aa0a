"""The types of columns: `dataset.features`, ClassLabel and its class names."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import attribute_of, entries_of, function, method, stored_item_of, subscript_of
from lintrain.libraries.datasets.columns import kind_of_type, types_of
from lintrain.model.location import Location
from lintrain.pipeline.values.data import Column, Feature, Features, Kind
from lintrain.pipeline.values.python import UNKNOWN, Constant, Literal, Mapping, Sequence, Value, number_of, text_of


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
    return Features(dict(call.reader.counted(features.columns)), features.is_complete)


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
