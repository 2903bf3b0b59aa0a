"""Rows in the hands of code, read, set, taken out and passed on like dictionaries: those of libraries, and those of
the script's own `Dataset` classes and lists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lintrain.interpreter import objects
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.certainty import is_certain
from lintrain.interpreter.core.items import put_together
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    ENTRIES,
    Transfer,
    attribute_of,
    base_call,
    element_of,
    entries_of,
    method,
    of_type,
    stored_item_of,
    subscript_of,
)
from lintrain.interpreter.tracing import DATA
from lintrain.libraries.datasets.columns import column_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.data import Column, ColumnValues, Dataset, Encoding, OwnRows, Rows, Step
from lintrain.pipeline.values.model import Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Either,
    Function,
    Instance,
    Literal,
    Mapping,
    Sequence,
    Unknown,
    Value,
    join,
    text_of,
)
from lintrain.pipeline.values.tensors import KeyCount, Operation, RowNumber


@entries_of(Rows)
def row_entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    """What rows hold by column, with what code put into them."""
    if not isinstance(value, Rows):
        return {}, False
    held: dict[Literal, Value] = {name: ColumnValues(column, value) for name, column in value.columns.items()}
    is_complete = isinstance(value.dataset, Dataset) and value.dataset.is_complete and not value.is_open
    # What code has set comes last: it replaces the column of the data set.
    return held | value.items, is_complete


@entries_of(Encoding)
def encoding_entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    """What an encoding holds by key."""
    if not isinstance(value, Encoding):
        return {}, False
    held: dict[Literal, Value] = {name: ColumnValues(column, value) for name, column in value.columns.items()}
    return held | value.items, value.is_complete


def entries(value: Value) -> tuple[dict[Literal, Value], bool]:
    """What rows or an encoding hold, and whether that is all."""
    return row_entries(value) if isinstance(value, Rows) else encoding_entries(value)


MISSING = "missing column"
"""The use of a data set by a column that it does not have."""


def note_missing(reader: Reader, dataset: Value, name: str, location: Location) -> None:
    """Record that code needs a column that a data set certainly does not have."""
    if not isinstance(dataset, Dataset) or not dataset.is_complete or dataset.has_transform or dataset.may_differ:
        return
    # One condition may have chosen both the data set and the function, or both it and the branch that reads it.
    if reader.alternatives > (0 if reader.conditions else 1):
        return
    if dataset.columns and name not in dataset.columns and name not in dataset.hidden:
        reader.record.misuses.append(Misuse(location, dataset, MISSING, name))


def note_table(reader: Reader, dataset: Dataset, location: Location, operation: str) -> None:
    """Record that a streaming data set is used as only one in memory can be: it has no length and no positions."""
    if dataset.is_streaming and not dataset.may_differ and reader.alternatives <= 1 and is_certain(reader):
        reader.record.misuses.append(Misuse(location, dataset, "stream as table", operation))


@subscript_of(Rows)
def read_row(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`rows["text"]`."""
    name = text_of(key)
    if not isinstance(value, Rows) or name is None:
        return UNKNOWN
    value.reads.add(name)
    # A need is a column without which every row raises KeyError. One that is read under `if` or in `try`
    # may be missing.
    if len(reader.conditions) <= value.depth and not reader.guards and name not in value.items:
        value.needs.setdefault(name, location)
    held, is_complete = row_entries(value)
    if name in held:
        return held[name]
    if is_complete and value.needs.get(name) == location and name not in value.removed:
        note_missing(reader, value.dataset, name, location)
    return UNKNOWN if is_complete or name in value.removed else ColumnValues(Column(name), value)


@subscript_of(Encoding)
def read_encoding(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """`encoding["input_ids"]`."""
    return _entry(value, text_of(key), location) or UNKNOWN


OF_PROCESSORS = frozenset({"pixel_values", "pixel_mask", "input_features", "input_values", "flattened_patches"})
OF_TOKENIZERS = frozenset({"input_ids", "attention_mask", "token_type_ids", "bbox", "labels", "decoder_input_ids"})
"""What processors of images and sound give, besides what tokenizers do."""


def _entry(value: Value, name: str | None, location: Location) -> Value | None:
    """What an encoding holds under a name; None if that is not known."""
    known = encoding_entries(value)[0].get(name)
    if known is not None or not isinstance(value, Encoding) or name not in OF_PROCESSORS | OF_TOKENIZERS:
        return known
    # Without `return_tensors` these are lists of arrays.
    part = _other_part(value, location)
    return replace(part, kind="int" if name in OF_TOKENIZERS else "float", origin=location) if part else None


@attribute_of(Encoding)
def _encoding_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if name == "data":
        return value
    return _entry(value, name, location)


@stored_item_of(Rows)
@stored_item_of(Encoding)
def store(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`rows["labels"] = value`; a store that may be skipped leaves what it holds open."""
    if not isinstance(owner, Rows | Encoding):
        return
    name = text_of(key)
    if name is None:
        _open(owner)
        return
    before = entries(owner)[0].get(name)
    # Depth is the number of conditions around the making of the rows. A store under the same `if` as that
    # is certain.
    is_certain = len(reader.conditions) <= owner.depth
    owner.items[name] = value if is_certain else join([UNKNOWN if before is None else before, value])
    if isinstance(owner, Rows):
        owner.removed.discard(name)


def _open(owner: Rows | Encoding) -> None:
    if isinstance(owner, Rows):
        owner.is_open = True
    else:
        owner.is_complete = False


@element_of(Rows)
@element_of(Encoding)
def _keys_of(reader: Reader, value: Value) -> Value:
    held, is_complete = entries(value)
    return join([Constant(name) for name in held]) if held and is_complete else UNKNOWN


def _methods(*names: str) -> Callable[[Transfer], Transfer]:
    """Register a method of rows and of encodings."""

    def register(transfer: Transfer) -> Transfer:
        return method(Encoding, *names)(method(Rows, *names)(transfer))

    return register


@_methods("items")
def _items(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    pairs: list[Value] = [Sequence([Constant(name), item], "tuple") for name, item in held.items()]
    other = _other_part(call.receiver, call.location)
    others: list[Value] = [Sequence([Unknown(), other], "tuple")] if other is not None else []
    return Sequence([*pairs, *others], "list", is_complete, bool(others))


def _other_part(value: Value, location: Location) -> Tensor | None:
    """What an encoding holds under keys that are not known: tensors, where those are asked for."""
    if not isinstance(value, Encoding) or value.is_complete or not value.returns_tensors:
        return None
    made = Operation(DATA, value.origin or location, value.text)
    return Tensor(text=value.text, made=made, origin=value.origin or location)


@_methods("keys")
def _keys(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    return Sequence([Constant(name) for name in held], "list", is_complete)


@_methods("values")
def _values(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    return Sequence(list(held.values()), "list", is_complete)


@_methods("copy")
def _copy(call: Call) -> Value:
    held, is_complete = entries(call.receiver)
    return Mapping(held, is_complete, origin=call.location)


def _looked_up(call: Call) -> Value:
    """What is there, for code that can do without it."""
    rows, before = call.receiver, dict(call.receiver.needs) if isinstance(call.receiver, Rows) else {}
    # `get` has an answer without the column, so what it reads is not needed: the needs are put back.
    noted = len(call.reader.record.misuses)
    found = dispatch.subscript(call.reader, rows, call.value("key", 0), call.location)
    if isinstance(rows, Rows):
        rows.needs = before
        del call.reader.record.misuses[noted:]
    return found


@_methods("get", "setdefault")
def _get(call: Call) -> Value:
    found = _looked_up(call)
    default = call.value("default", 1)
    return join([found, Constant(None) if isinstance(default, Absent) else default])


@_methods("pop")
def _pop(call: Call) -> Value:
    name = text_of(call.value("key", 0))
    has_default = len(call.positional) + len(call.keywords) > 1
    found = (
        _looked_up(call)
        if has_default
        else dispatch.subscript(call.reader, call.receiver, call.value("key", 0), call.location)
    )
    _take_out(call.reader, call.receiver, name)
    return found


@_methods("update")
def _update(call: Call) -> Value:
    added: dict[Literal, Value] = {name: each.value for name, each in call.keywords.items() if name != "**"}
    is_known = "**" not in call.keywords
    for argument in call.positional:
        is_known = operations.update(call.reader, added, argument.value) and is_known
    for name, value in added.items():
        store(call.reader, call.receiver, Constant(name), value, call.location)
    if not is_known and isinstance(call.receiver, Rows | Encoding):
        _open(call.receiver)
    return Constant(None)


def _take_out(reader: Reader, owner: Value, name: str | None) -> None:
    if not isinstance(owner, Rows | Encoding) or name is None:
        return
    # After a `pop` that may be skipped the entry is there or not: the whole is open, and nothing is proved
    # missing.
    if len(reader.conditions) > owner.depth:
        _open(owner)
        return
    owner.items.pop(name, None)
    if isinstance(owner, Rows):
        owner.removed.add(name)
    else:
        owner.columns.pop(name, None)


@method(Encoding, "to", "convert_to_tensors")
def _same_encoding(call: Call) -> Value:
    return call.receiver


@base_call("torch.utils.data.Dataset")
def _make(call: Call) -> Value:
    """An object of the script's own Dataset class; its `__getitem__` is read once."""
    cls = call.receiver
    if not isinstance(cls, Class):
        return UNKNOWN
    made = objects.make_instance(call, cls)
    found = cls.lookup("__getitem__")
    if isinstance(made, Instance) and found is not None and isinstance(found[1], Function):
        # Read here and not at each use: a loop over the loader only gets what this one reading found.
        method = Bound(made, "__getitem__", found[1], found[0])
        number = RowNumber(name="index", depth=len(call.reader.conditions))
        item = dispatch.call(call.reader, method, [number], location=call.location)
        note_rows(call.reader, made, item, Step("__getitem__", found[1].origin or call.location, cls.node.name))
        _note_length(call, made)
    return made


COUNTED = "length of a data set"
"""The use of an encoding by `__len__` of a data set, which should count its rows."""


def _note_length(call: Call, made: Instance) -> None:
    """Record an encoding whose keys `__len__` counts; other attributes have lengths that say nothing."""
    found = made.cls.lookup("__len__")
    held = any(isinstance(value, Encoding) for value in made.attributes.values())
    if not held or found is None or not isinstance(found[1], Function):
        return
    length = dispatch.call(call.reader, Bound(made, "__len__", found[1], found[0]), [], location=call.location)
    if not isinstance(length, KeyCount) or length.origin is None:
        return
    # Code under a condition may have asked what it counts.
    if length.depth <= len(call.reader.conditions):
        code = call.reader.code(length.origin)
        call.reader.record.misuses.append(Misuse(length.origin, length.of, COUNTED, code))


@method(Encoding, "__len__")
def _key_count(call: Call) -> Value:
    return KeyCount(of=call.receiver, depth=len(call.reader.conditions), origin=call.location)


def note_list(reader: Reader, given: Value, location: Location, text: str) -> None:
    """Record the rows of a list that is given to a loader or a trainer."""
    if isinstance(given, Sequence) and all(rows.owner is not given for rows in reader.record.own_rows[-MOST_LISTS:]):
        item = dispatch.element(reader, given)
        if not isinstance(item, Unknown):
            note_rows(reader, given, item, Step("list", given.origin or location, text))


MOST_LISTS = 16
"""Data sets made last among which a list is searched, before it is recorded again."""


def note_rows(reader: Reader, owner: Value, item: Value, step: Step) -> None:
    """Record the rows of something that is not a data set of a library, each of them like this item."""
    if isinstance(item, Rows) and isinstance(item.dataset, Dataset) and item.is_whole:
        reader.record.own_rows.append(OwnRows(owner, item.dataset))
        return
    columns, is_complete = columns_of(reader, item)
    rows = Dataset(columns, is_complete, (step,), library="", origin=step.location)
    reader.record.own_rows.append(OwnRows(owner, rows))


def columns_of(reader: Reader, item: Value) -> tuple[dict[str, Column], bool]:
    """What an item holds by name, where it is a dictionary, and whether that is all."""
    entries: dict[Literal, Value] = {}
    if isinstance(item, Either):
        # A list of two or three rows holds one of them; what all of them have, every row has.
        item = put_together(item.options)
    if not isinstance(item, Mapping) and of_type(ENTRIES, item) is None:
        return {}, False
    is_complete = operations.update(reader, entries, item)
    named = {name: value for name, value in entries.items() if isinstance(name, str)}
    return {name: column_of(name, value, is_batch=False) for name, value in named.items()}, is_complete
