"""Looking into data sets: by split, by column, by row; their names, lengths and column values."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace

from lintrain.interpreter.core import operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    attribute_of,
    element_of,
    method,
    method_of,
    operated,
    stored_item_of,
    subscript_of,
)
from lintrain.interpreter.tracing import DATA
from lintrain.libraries.datasets.columns import masks_some
from lintrain.libraries.datasets.deriving import names_in
from lintrain.libraries.datasets.rows import note_table
from lintrain.libraries.torch.default_collation import NUMBERS, ROWS, batch_of_numbers
from lintrain.model.location import Location
from lintrain.pipeline.events import Condition
from lintrain.pipeline.shifts import FILLED_UP
from lintrain.pipeline.values.data import (
    Column,
    ColumnNames,
    ColumnValues,
    Dataset,
    DatasetDict,
    Encoding,
    Features,
    Kind,
    Padding,
    Rows,
)
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Sequence,
    Slice,
    Unknown,
    Value,
    is_missing,
    literal,
    text_of,
)
from lintrain.pipeline.values.tensors import Operation, SpecialToken, Templated, Text, Whole


@subscript_of(Dataset)
def _look_up(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`dataset["text"]`, `dataset[0]`, `dataset[:100]`."""
    if not isinstance(value, Dataset):
        return UNKNOWN
    match key:
        case Constant(value=str(name)) if name in SPLITS and _may_be_splits(value):
            return _as_split(reader, value, name)
        case Constant(value=str(name)):
            return _column_values(value, name)
        case Constant(value=int()) if value.is_streaming:
            note_table(reader, value, location, "[…]")
            return UNKNOWN
        case Constant(value=int()) | Whole() | Unknown(name="index" | "idx" | "item" | "i" | "index_"):
            return Rows(value, False, depth=len(reader.conditions))
        # A slice of a data set is a dictionary of columns, not a data set: `len(dataset[:100])` counts
        # columns.
        case Slice() | Sequence():
            return Rows(value, True, depth=len(reader.conditions))
        case _:
            return UNKNOWN


SPLITS = frozenset({"train", "test", "validation", "valid", "val", "dev", "eval"})
"""What splits are called."""


def _may_be_splits(dataset: Dataset) -> bool:
    """Whether it is not known if this is one data set or several splits: a folder on disk."""
    return not dataset.is_complete and dataset.split is None and "load_from_disk" in dataset.operations


def _as_split(reader: Reader, dataset: Dataset, name: str) -> Value:
    """A split of what may be several: the same one each time, made of the same split of what the whole was made of."""
    made: Value | None = None
    for each in reversed(dataset.lineage):
        if (id(each), name) not in reader.splits:
            reader.splits[id(each), name] = replace(each, parent=made, split=name)
            reader.kept.append(each)
        made = reader.splits[id(each), name]
    return made or dataset


def _column_values(dataset: Dataset, name: str) -> Value:
    known = dataset.columns or {}
    if name in known:
        return ColumnValues(known[name], dataset)
    # A column that is certainly missing raises KeyError, and rules report that elsewhere. If others may
    # exist, this one is taken to, under the name that the script uses.
    return UNKNOWN if dataset.is_complete else ColumnValues(Column(name), dataset)


@element_of(Dataset)
def _row(reader: Reader, value: Value) -> Value:
    return Rows(value, False, depth=len(reader.conditions))


@attribute_of(Dataset)
def _dataset_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if not isinstance(value, Dataset):
        return None
    match name:
        case "column_names":
            return names_of(reader, value)
        case "features":
            return Features(dict(value.columns or {}), value.is_complete, value)
        case "num_rows":
            return UNKNOWN if value.rows is None else Constant(value.rows)
        case _:
            return None


def names_of(reader: Reader, dataset: Dataset) -> Value:
    """`dataset.column_names`."""
    if not dataset.is_complete or dataset.columns is None:
        # Unknown names are still those of this data set: `map(f, remove_columns=dataset.column_names)`
        # removes all that came in, whatever they are called.
        return ColumnNames(dataset, depth=len(reader.conditions))
    return Sequence([Constant(name) for name in [*dataset.columns, *dataset.hidden]])


@subscript_of(ColumnNames)
def _names_of_split(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`splits.column_names["train"]`; of one data set, the first name is not known."""
    if isinstance(value, ColumnNames) and isinstance(value.dataset, DatasetDict):
        split = value.dataset.split(text_of(key) or "")
        return UNKNOWN if split is None else names_of(reader, split)
    return UNKNOWN


@method(ColumnNames, "copy")
def _copied_names(call: Call) -> Value:
    return replace(call.receiver) if isinstance(call.receiver, ColumnNames) else UNKNOWN


@method(ColumnNames, "remove", "discard", "append", "extend", "insert", "pop", "clear", "add", "update")
def _change_names(call: Call) -> Value:
    """`names.remove("label")`, also under `if "label" in names`; after any other change they are not known."""
    names, name = call.receiver, text_of(call.value("value", 0))
    if not isinstance(names, ColumnNames):
        return UNKNOWN
    inside = call.reader.conditions[names.depth :]
    is_taken_out = name is not None and call.path.rpartition(".")[2] in {"remove", "discard"}
    if is_taken_out and name is not None and all(_tests_for(each, name) for each in inside):
        names.without |= {name}
    else:
        names.dataset = UNKNOWN
    return Constant(None)


def _tests_for(condition: Condition, name: str) -> bool:
    """Whether a condition is `name in …`, so that the name is in no list after it either way."""
    match condition.test:
        case ast.Compare(left=ast.Constant(value=tested), ops=[ast.In()]):
            return tested == name and not condition.is_else
        case _:
            return False


@operated(ColumnNames)
def _fewer_names(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """`set(names) - {"label"}`."""
    names = names_in(right)
    if operator != "Sub" or not isinstance(left, ColumnNames) or names is None:
        return None
    return replace(left, without=left.without.union(names))


@method(Dataset, "__len__")
def _count(call: Call) -> Value:
    dataset = call.receiver
    if isinstance(dataset, Dataset):
        note_table(call.reader, dataset, call.location, "len")
    return Constant(dataset.rows) if isinstance(dataset, Dataset) and dataset.rows is not None else UNKNOWN


@method(Dataset, "unique")
def _distinct(call: Call) -> Value:
    name = text_of(call.value("column", 0))
    found = _column_values(call.receiver, name) if isinstance(call.receiver, Dataset) and name else UNKNOWN
    return Sequence([found], "list", False)


@subscript_of(ColumnValues)
def _some_values(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """Some of a column's values; a part of token rows may be cut or not."""
    if not isinstance(value, ColumnValues):
        return value
    if isinstance(key, Slice) and all(map(is_missing, (key.lower, key.upper, key.step))):
        return value.copied(location)
    if not _has_slice(key):
        is_one = value.axes == 1 and (isinstance(key, Whole) or isinstance(literal(key), int))
        if value.column.is_stacked or value.axes is not None:
            column = replace(value.column, is_stacked=False)
            return replace(value, column=column, axes=0 if is_one else None)
        return value
    # The code in the brackets is kept, since rules compare it: labels `x[1:]` of inputs `x[:-1]` are the
    # tokens that follow.
    stretch = reader.source.code(location).rpartition("[")[2].removesuffix("]")
    if isinstance(key, Slice) and value.column.kind is Kind.TOKENS:
        # `ids[:512]` may cut the padding off, or the text: neither remains certain.
        column = replace(value.column, padding=Padding.UNKNOWN, truncated=None)
        return ColumnValues(column, value.dataset, stretch)
    axes = None if isinstance(key, Sequence) else value.axes  # `[np.newaxis, :56]` adds one
    return replace(value, stretch=stretch, axes=axes, column=replace(value.column, written=None))


def _has_slice(key: Value) -> bool:
    keys = key.items if isinstance(key, Sequence) else [key]
    return any(isinstance(each, Slice) for each in keys)


@element_of(ColumnValues)
def _one_value(reader: Reader, value: Value) -> Value:
    if not isinstance(value, ColumnValues):
        return UNKNOWN
    return ColumnValues(value.column, value.dataset, whole=value, axes=value.axes - 1 if value.axes else None)


RESHAPING = frozenset({"squeeze", "flatten", "view", "reshape", "numpy", "tolist", "to_list"})
"""Methods after which the leading dimension is unknown."""


OF_TENSORS = frozenset({"cpu", "cuda", "detach", "long", "to"})
"""Methods that arrays do not have, and so those of a tensor."""


@method(ColumnValues, "bool", "double", "float", "half", "int", "type", "unsqueeze")
def _of_tensor(call: Call) -> Value:
    return _as_tensor(call) or UNKNOWN


def _as_tensor(call: Call) -> Value | None:
    """What a method gives that only tensors have; None if the values are not a batch of numbers."""
    values, name = call.receiver, call.path.rpartition(".")[2]
    made = batch_of_numbers(values, call.location, call.text) if isinstance(values, ColumnValues) else None
    transfer = method_of(made, name) if made is not None else None
    if made is None or transfer is None:
        return None
    call.receiver = made
    return transfer(call)


@method(ColumnValues, "copy", "clone", "tolist", "to_list", "numpy", "squeeze", "flatten", "view", "reshape", "long")
@method(ColumnValues, "to", "detach", "cpu", "cuda", "contiguous", "astype")
def _copied(call: Call) -> Value:
    values = call.receiver
    if not isinstance(values, ColumnValues):
        return UNKNOWN
    if call.path.rpartition(".")[2] in OF_TENSORS and (numbers := _as_tensor(call)) is not None:
        return numbers
    number = _moved_numbers(call, values)
    if number is not None:
        return number
    # The first name stays through several copies: labels copied from `input_ids` are tokens, also over a
    # helper variable.
    column = replace(values.column, copied_from=values.column.copied_from or values.column.name)
    name, axes = call.path.rpartition(".")[2], values.axes
    if name in RESHAPING:
        column = replace(column, is_stacked=False)
        axes = axes if name in {"numpy", "tolist", "to_list"} else None
    return ColumnValues(column, values.dataset, values.stretch, axes=axes, origin=call.location)


def _moved_numbers(call: Call, values: ColumnValues) -> Tensor | None:
    """Plain numbers of a batch that code moves, which only tensors can be: one for each row."""
    is_batch = isinstance(values.dataset, Rows) and values.dataset.is_batch and not values.stretch
    kind = NUMBERS.get(values.column.kind)
    if not is_batch or kind is None or call.path.rpartition(".")[2] not in {"to", "cuda"}:
        return None
    return Tensor(made=Operation(DATA, call.location, call.text), shape=ROWS, kind=kind, origin=call.location)


@method(ColumnValues, "strip", "lower", "upper", "replace", "lstrip", "rstrip", "title", "capitalize", "format")
def _changed_text(call: Call) -> Value:
    values = call.receiver
    if isinstance(values, ColumnValues) and values.column.kind in {Kind.TEXT, Kind.UNKNOWN}:
        written = None if call.positional else values.column.written  # what is replaced may be its beginning or end
        return ColumnValues(replace(values.column, kind=Kind.TEXT, written=written), values.dataset)
    return UNKNOWN


@stored_item_of(ColumnValues)
def _set_some(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`encoding["input_ids"][i] = ...`: code that sets rows one by one may pad, cut or mask them."""
    if isinstance(owner, ColumnValues):
        _edit(owner, masks_some(value))


@method(ColumnValues, "append", "extend", "insert", "masked_fill_", "pop", "remove")
def _edit_by_method(call: Call) -> Value:
    if isinstance(call.receiver, ColumnValues):
        for argument in call.positional:
            if isinstance(argument.value, SpecialToken):
                operations.text_of_parts(call.reader, (call.receiver, argument.value), call.location)
        _edit(call.receiver, any(masks_some(argument.value) for argument in call.positional))
    return Constant(None)


@method(ColumnValues, "ne", "eq", "not_equal")
def _test(call: Call) -> Value:
    """`ids.ne(tokenizer.pad_token_id)`: which of the tokens are padding, or are not."""
    values = call.receiver
    if not isinstance(values, ColumnValues) or values.column.kind is not Kind.TOKENS:
        return UNKNOWN
    return ColumnValues(Column("", Kind.MASK, padding=values.column.padding), values.dataset, origin=call.location)


@method(ColumnValues, "masked_fill", "where")
def _masked(call: Call) -> Value:
    values = call.receiver
    if not isinstance(values, ColumnValues):
        return UNKNOWN
    return some_masked(values, [argument.value for argument in call.positional], call.location)


def some_masked(values: ColumnValues, others: Iterable[Value], location: Location) -> ColumnValues:
    """New values with others in some places: `torch.where(labels == pad, -100, labels)`."""
    made = ColumnValues(values.column, UNKNOWN, values.stretch, axes=values.axes, origin=location)
    _edit(made, any(map(masks_some, others)))
    made.dataset = values.dataset if made.column.masked_from else UNKNOWN
    return made


def _edit(values: ColumnValues, masks: bool) -> None:
    """Note that values were changed where they are, and with them those of the encoding that they are part of."""
    before, owner = values.column, values.dataset
    # `encoding["labels"][i] = -100` changes what the encoding holds, so the new column is put into it too.
    # A copy that was taken out before keeps what it had.
    is_part = isinstance(owner, Encoding) and owner.columns.get(before.name) is before
    values.column = replace(
        before,
        name=before.name if is_part else "",
        padding=Padding.UNKNOWN,
        truncated=None,
        copied_from="",
        is_masked=masks or before.is_masked,
        masked_from=(before.masked_from or before.copied_from or before.name) if masks and not is_part else "",
    )
    if isinstance(owner, Encoding) and is_part:
        owner.columns[before.name] = values.column
    if values.whole is not None:
        _edit(values.whole, masks)


@operated(ColumnValues)
def _with_text(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """Text put together with text is text; token rows put together are of unknown length."""
    values, other = (left, right) if isinstance(left, ColumnValues) else (right, left)
    if not isinstance(values, ColumnValues):
        return None
    if values.axes is not None and isinstance(values.dataset, Unknown) and type(literal(other)) in {int, float}:
        return ColumnValues(Column(""), UNKNOWN, axes=values.axes, origin=location)  # as many numbers, and others
    if operator != "Add":
        return None
    if values.column.kind is Kind.TEXT or (values.column.kind is Kind.UNKNOWN and _is_text(other)):
        written = operations.text_of_parts(reader, (left, right), location)
        column = replace(values.column, kind=Kind.TEXT, written=written)
        return ColumnValues(column, values.dataset, origin=values.origin)
    if isinstance(other, Sequence) and any(isinstance(item, SpecialToken) for item in other.items):
        operations.text_of_parts(reader, (values, *other.items), location)
    # Rows that are put together are longer than what the tokenizer padded or cut them to.
    column = replace(values.column, padding=Padding.UNKNOWN, truncated=None)
    if masks_some(other):
        column = replace(column, is_masked=True, copied_from="")
    is_filled_up = values is left and values.stretch == "1:" and isinstance(other, Sequence) and other.is_complete
    stretch = FILLED_UP if is_filled_up and isinstance(other, Sequence) and len(other.items) == 1 else ""
    return ColumnValues(column, values.dataset, stretch)


def _is_text(value: Value) -> bool:
    """Whether what is concatenated with a column shows that it contains text."""
    is_token = isinstance(value, SpecialToken) and not value.name.endswith("_id")
    return is_token or isinstance(value, Text | Templated) or text_of(value) is not None
