"""One value for any item of a list: what an unknown index gives, or each iteration of a loop."""

from __future__ import annotations

from collections.abc import Sequence

from lintrain.pipeline.values.data import ColumnValues, Dataset, Encoding
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.python import (
    MOST_OPTIONS,
    Constant,
    Either,
    Instance,
    Library,
    Literal,
    Mapping,
    OneOf,
    Unknown,
    Value,
    join,
)
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.startup.lazy_pattern import lazy_pattern

DEEPEST = 3
"""Levels of rows in each other that are put together: a dictionary of lists of numbers."""


def any_of(items: Sequence[Value], levels: int = DEEPEST) -> Value:
    """Any of these items: a few are kept apart, many that are built alike become one that is built as they are."""
    return join(items) if len(items) <= MOST_OPTIONS else put_together(items, levels)


def apart(value: Value) -> Value:
    """One of several things that a loop made, and that were read as one: its rows are not those of another one."""
    match value:
        case Loader() | TorchDataset() | Dataset() | Unknown():
            return Unknown()
        case Instance(cls=cls) if cls.lookup("__getitem__") or "torch.utils.data.IterableDataset" in cls.library_bases:
            return Unknown()
        case Either():
            return join(map(apart, value.options))
        case _:
            return value


def put_together(items: Sequence[Value], levels: int = DEEPEST) -> Value:
    """One value that is built as all of these items are, if they are built alike."""
    if not items or not levels:
        return join(items)
    # Rows of a data set in the script are many dictionaries with the same keys. Joined as they are, more
    # than four would be Unknown, and with them what every row certainly has.
    match items[0]:
        case Mapping(entries=entries):
            return _any_mapping(items, list(entries), levels)
        case SequenceValue(items=parts, kind="tuple"):
            return _any_tuple(items, len(parts), levels)
        case Constant():
            return _any_literal(items)
        case Library():
            return _any_class(items)
        case ColumnValues() | Encoding():
            # One line of the script made them, in each pass of a comprehension.
            return items[0] if len({_call_of(item) for item in items}) == 1 else join(items)
        case _:
            return join(items)


def _any_mapping(items: Sequence[Value], keys: list[Literal], levels: int) -> Value:
    rows = [item for item in items if isinstance(item, Mapping) and item.is_complete and [*item.entries] == keys]
    if len(rows) < len(items):
        return join(items)
    return Mapping({key: any_of([row.entries[key] for row in rows], levels - 1) for key in keys})


def _any_tuple(items: Sequence[Value], length: int, levels: int) -> Value:
    rows = [item.items for item in items if isinstance(item, SequenceValue) and item.kind == "tuple"]
    if len(rows) < len(items) or any(len(row) != length for row in rows):
        return join(items)
    return SequenceValue([any_of([row[index] for row in rows], levels - 1) for index in range(length)], "tuple")


def _any_literal(items: Sequence[Value]) -> Value:
    plain = [item.value for item in items if isinstance(item, Constant) and not item.default]
    if len(plain) < len(items) or len({type(each) for each in plain}) > 1:
        return join(items)
    distinct = tuple(dict.fromkeys(plain))
    return join(items) if len(distinct) <= MOST_OPTIONS else OneOf(literals=distinct)


OF_ARCHITECTURE = lazy_pattern(r"transformers\.\w*?(?:(?P<head>For[A-Z]\w+)|(?P<other>Config|Tokenizer))(?:Fast)?")
"""Classes of transformers that there is one of for each architecture."""


def _any_class(items: Sequence[Value]) -> Value:
    """Any of many classes: those of one head as the class that chooses among them, `AutoModelForMaskedLM`."""
    chosen: dict[str, Value] = {}
    for item in items:
        found = OF_ARCHITECTURE.fullmatch(item.path) if isinstance(item, Library) else None
        name = f"Model{found['head']}" if found and found["head"] else found["other"] if found else ""
        chosen[name or str(id(item))] = Library(f"transformers.Auto{name}") if name else item
    return join(chosen.values())


def _call_of(item: Value) -> tuple[object, ...]:
    """What is alike in everything that one call of a tokenizer gives: its location, and what its columns are like."""
    match item:
        case ColumnValues(column=column):
            return (column, item.stretch, column.made_by.origin if column.made_by else None)
        case Encoding() if not item.items:
            return (item.origin, *item.columns.values())
        case _:
            return (id(item),)
