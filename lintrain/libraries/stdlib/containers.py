"""Lists, dictionaries and the script's own containers: their items, slices, unions and copies.

Iterators of the language: what `map`, `filter` and itertools give one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence as SequenceType
from dataclasses import replace

from lintrain.interpreter import functions
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.call import Call, escape
from lintrain.interpreter.core.items import any_of, apart
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    ENTRIES,
    attribute_of,
    function,
    method,
    of_type,
    operated,
    subscript_of,
)
from lintrain.model.location import Location
from lintrain.pipeline.values.data import ColumnNames, ColumnValues, DatasetDict, Features
from lintrain.pipeline.values.model import Parameters, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Constant,
    Fields,
    Instance,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Slice,
    Unknown,
    Unstored,
    Value,
    is_missing,
    join,
    mapping_of,
)


@subscript_of(Mapping)
def _entry(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, Mapping):
        return UNKNOWN
    if isinstance(key, Constant) and key.value in value.entries:
        reader.record.note_choice(key)
        return value.entries[key.value]
    if isinstance(key, Constant) and value.factory is not None:
        # An entry of its own for each key: what one holds is in no other.
        made = dispatch.call(reader, value.factory, [], location=location)
        value.entries[key.value] = made
        return made
    if isinstance(key, Constant) and value.others is not None and not isinstance(value.others, Unknown):
        return apart(value.others)
    # An entry that may exist is one unknown thing, the same each time. One that cannot exist raises
    # KeyError.
    if isinstance(key, Constant) and not value.is_complete:
        return dispatch.child(reader, value, f"[{key.value!r}]")
    return any_entry(reader, value)


def any_entry(reader: Reader, value: Mapping) -> Value:
    """What is under a key that is not known."""
    value.factory = None
    if not value.is_complete and value.others is None:
        return UNKNOWN
    held = [*reader.counted(value.entries).values(), *([value.others] if value.others is not None else [])]
    # `if index in cache: return cache[index]` before anything is in the cache: the other branch decides.
    return any_of(held) if held else Unstored()


@subscript_of(Sequence)
def _item(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    if not isinstance(value, Sequence):
        return UNKNOWN
    match key:
        case Constant(value=int(index)) if value.is_complete and -len(value.items) <= index < len(value.items):
            return value.items[index]
        case Constant(value=int(index)) if 0 <= index < value.placed:
            return value.items[index]
        case Slice():
            return _slice(reader, value, key)
        case _ if value.is_complete and not value.items:
            return Unstored()
        case Constant(value=int()):
            return apart(dispatch.element(reader, value))
        case Unknown() | ColumnValues():
            # `self.items[index]`, `names[row["label"]]`: any of the items. Other keys select several, or are a mistake.
            return dispatch.element(reader, value)
        case _:
            return UNKNOWN


@attribute_of(Fields)
def _field(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    is_known = isinstance(value, Fields) and name in value.names
    return value.items[value.names.index(name)] if is_known and isinstance(value, Fields) else None


def _slice(reader: Reader, value: Sequence, key: Slice) -> Value:
    items = reader.counted(value.items)
    bounds = [_bound(part) for part in (key.lower, key.upper, key.step)]
    if not value.is_complete and value.placed and (part := _placed_slice(value, bounds)) is not None:
        return part
    if not value.is_complete or any(isinstance(bound, Value) for bound in bounds) or bounds[2] == 0:
        if any(item is UNKNOWN for item in items) and not value.is_complete and bounds[0] is None is bounds[2]:
            return Sequence(operations.literal_items(value), value.kind, False)  # `labels[:limit]` cuts its end only
        # Some of the items, how many is not known: one that is any of them stands for all.
        return Sequence([any_of(items)] if items else [], value.kind, False, value.knows_items)
    lower, upper, step = (bound if isinstance(bound, int) else None for bound in bounds)
    return Sequence(items[lower:upper:step], value.kind)


def _placed_slice(value: Sequence, bounds: SequenceType[int | Value | None]) -> Sequence | None:
    """`outputs[:2]`, `outputs[1:]` of a tuple of which the first items are known."""
    match bounds:
        case [None | int() as lower, int(upper), None] if 0 <= (lower or 0) <= upper <= value.placed:
            return Sequence(value.items[lower or 0 : upper], value.kind)
        case [int(lower), None, None] if lower >= 0:
            return Sequence(value.items[lower:], value.kind, False, False, max(0, value.placed - lower))
        case _:
            return None


def _bound(part: Value) -> int | Value | None:
    """One bound of a slice: None if it is left out, the value itself if it is not known."""
    if isinstance(part, Absent):
        return None
    if isinstance(part, Constant) and not part.default and (part.value is None or isinstance(part.value, int)):
        return part.value
    return part


@operated(Mapping)
def _union(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """`defaults | given`."""
    if operator != "BitOr":
        return None
    entries: dict[Literal, Value] = {}
    is_complete = [operations.update(reader, entries, side) for side in (left, right)]
    return Mapping(entries, all(is_complete), origin=location)


@function("collections.OrderedDict")
def ordered(call: Call) -> Value:
    """A dictionary of the arguments."""
    entries: dict[Literal, Value] = {}
    known = [operations.update(call.reader, entries, argument.value) for argument in call.positional]
    entries.update({name: argument.value for name, argument in call.keywords.items() if name != "**"})
    return Mapping(entries, all(known) and not call.is_open and "**" not in call.keywords, origin=call.location)


@function("collections.defaultdict")
def _with_defaults(call: Call) -> Value:
    factory = call.value("default_factory", 0)
    if is_missing(factory):
        return Mapping({}, False, others=Unknown(), origin=call.location)
    made = dispatch.call(call.reader, factory, [], location=call.location)
    # With entries from elsewhere a key may have one of them.
    is_empty = len(call.positional) + len(call.keywords) == 1 and not call.is_open
    return Mapping({}, False, others=made, factory=factory if is_empty else None, origin=call.location)


@method(Mapping, "keys")
@method(DatasetDict, "keys")
@method(Features, "keys")
def _keys(call: Call) -> Value:
    if isinstance(call.receiver, Features) and isinstance(call.receiver.names, ColumnNames):
        return call.receiver.names
    held, is_complete = _held(call)
    return Sequence([Constant(key) for key in held], "list", is_complete)


@method(Mapping, "values")
@method(DatasetDict, "values")
@method(Features, "values")
def _values(call: Call) -> Value:
    held, is_complete = _held(call)
    others = _others_of(call.receiver)
    return Sequence([*held.values(), *others], "list", is_complete, bool(others))


def _others_of(value: Value) -> list[Value]:
    """What is under keys that are not known, where that is known."""
    return [value.others] if isinstance(value, Mapping) and value.others is not None else []


@method(Mapping, "items")
@method(DatasetDict, "items")
@method(Features, "items")
def _items(call: Call) -> Value:
    held, is_complete = _held(call)
    others = [Sequence([Unknown(), value], "tuple") for value in _others_of(call.receiver)]
    pairs = [Sequence([Constant(key), value], "tuple") for key, value in held.items()]
    return Sequence([*pairs, *others], "list", is_complete, bool(others))


def _held(call: Call) -> tuple[dict[Literal, Value], bool]:
    value = call.receiver
    entries = of_type(ENTRIES, value)
    held, is_complete = entries(value) if entries else ({}, False)
    if isinstance(value, Mapping):
        held, is_complete = value.entries, value.is_complete
    call.reader.spend(len(held))
    return held, is_complete


DEEPEST = 4
"""Levels of lists and dictionaries that a deep copy is followed into."""


@function("dataclasses.asdict")
def _as_dictionary(call: Call) -> Value:
    value = call.value("obj", 0)
    if not isinstance(value, Instance) or not functions.is_dataclass(value.cls):
        return UNKNOWN
    held = {name: value.attributes.get(name, UNKNOWN) for name in functions.fields_of(value.cls)}
    return mapping_of(held, is_complete=True)


def copied(reader: Reader, value: Value, levels: int = DEEPEST) -> Value | None:
    """A deep copy of literals, lists and dictionaries; None if something else is in it, or it is too deep."""
    match value:
        # An unknown thing is kept as it is: following it by identity is worth more than the difference to
        # its copy.
        case Constant() | Unknown():
            return value
        case Tensor():
            return replace(value)
        case ColumnValues(column=column):
            # Tokens that are copied stay those of their column: `labels = deepcopy(input_ids)`.
            return replace(value, column=replace(column, copied_from=column.copied_from or column.name))
        case Sequence() if levels:
            reader.spend()
            items = [copied(reader, item, levels - 1) for item in value.items]
            known = [item for item in items if item is not None]
            # A copy of a part would seem complete, so one item that cannot be copied makes the whole
            # unknown.
            if len(known) < len(items):
                return None
            return Sequence(known, value.kind, value.is_complete, value.is_closed, value.placed)
        case Mapping() if levels:
            reader.spend()
            entries: dict[Literal, Value] = {}
            for key, held in value.entries.items():
                made = copied(reader, held, levels - 1)
                if made is None:
                    return None
                entries[key] = made
            return Mapping(entries, value.is_complete, origin=value.origin)
        case _:
            return None


@function("copy.copy")
def _copy(call: Call) -> Value:
    """A container of its own that holds the same things."""
    match call.value("x", 0):
        case Sequence() as value:
            return Sequence([*call.reader.counted(value.items)], value.kind, value.is_complete, origin=call.location)
        case Mapping() as value:
            return Mapping(dict(call.reader.counted(value.entries)), value.is_complete, origin=call.location)
        case Instance() as value:
            return Instance(value.cls, dict(call.reader.counted(value.attributes)), origin=call.location)
        case value:
            return value


MOST_ITEMS = 32
"""Known items up to this number are gone through one by one."""


@function("builtins.map")
def _map(call: Call) -> Value:
    if len(call.positional) < 2 or call.is_open:
        return UNKNOWN
    mapped, *over = (argument.value for argument in call.positional)
    known = [operations.known_items(each, MOST_ITEMS) for each in over]
    items = [each for each in known if each is not None]
    is_complete = len(items) == len(known)
    # Item by item while all are known. Otherwise once, with the element that stands for all: the function's
    # effects are recorded in either case.
    rows = zip(*items, strict=False) if is_complete else [[dispatch.element(call.reader, each) for each in over]]
    return _iterator(
        [dispatch.call(call.reader, mapped, list(row), location=call.location) for row in rows], is_complete
    )


POOLS = ("multiprocessing.", "concurrent.futures.", "torch.multiprocessing.", "joblib.")


@method(LibraryObject, "map", "imap", "imap_unordered")
def _map_in_processes(call: Call) -> Value:
    """`pool.map(function, items)`: what the function gives of an item, in a list of them."""
    receiver, mapped = call.receiver, call.value("func", 0)
    if not isinstance(receiver, LibraryObject) or not receiver.path.startswith(POOLS) or len(call.positional) < 2:
        escape(call)
        return UNKNOWN
    item = dispatch.element(call.reader, call.positional[1].value)
    made = dispatch.call(call.reader, mapped, [item], location=call.location)
    return Sequence([made], "list", False, True, origin=call.location)


@function("builtins.filter")
def _filter(call: Call) -> Value:
    over, test = call.value("iterable", 1), call.value("function", 0)
    items = operations.known_items(over, MOST_ITEMS)
    if items is None:
        return _iterator([dispatch.element(call.reader, over)], False)
    is_plain = isinstance(test, Constant) and test.value is None
    tests = items if is_plain else [dispatch.call(call.reader, test, [item], location=call.location) for item in items]
    truths = [operations.truth(each) for each in tests]
    # Items that are certainly dropped are gone. Those that may be kept stay, and make the result
    # incomplete.
    kept = [item for item, is_true in zip(items, truths, strict=True) if is_true is not False]
    return _iterator(kept, None not in truths)


@function("itertools.chain")
def _chain(call: Call) -> Value:
    return _joined(call, [argument.value for argument in call.positional], not call.is_open)


@function("itertools.chain.from_iterable")
def _flattened(call: Call) -> Value:
    over = call.value("iterable", 0)
    items = operations.known_items(over, MOST_ITEMS)
    return _joined(call, [dispatch.element(call.reader, over)] if items is None else items, items is not None)


def _joined(call: Call, parts: list[Value], is_complete: bool) -> Value:
    if is_complete and (parameters := _all_parameters(parts)) is not None:
        return parameters
    found: list[Value] = []
    for part in parts:
        items = operations.known_items(part, MOST_ITEMS)
        is_complete = is_complete and items is not None
        found.extend([dispatch.element(call.reader, part)] if items is None else items)
    # A loop over the parts gets any of the items: their order is lost as soon as one part has an unknown
    # length.
    return _iterator(found if is_complete else [join(found)] if found else [UNKNOWN], is_complete)


def _all_parameters(parts: list[Value]) -> Parameters | None:
    """Those of all modules whose parameters are chained; None for other parts, and for parts of modules."""
    found = [part for part in parts if isinstance(part, Parameters) and not part.part]
    if not found or len(found) < len(parts) or len({part.is_named for part in found}) > 1:
        return None
    of = tuple(module for part in found for module in part.of)
    return Parameters(of, found[0].is_named, any(part.is_part for part in found))


@function("itertools.cycle", "itertools.repeat", "itertools.islice")
def _some(call: Call) -> Value:
    """Any number of what is given."""
    over = call.value("iterable", 0)
    is_repeat = call.path == "itertools.repeat"
    return _iterator([over if is_repeat else dispatch.element(call.reader, over)], False)


def _iterator(items: list[Value], is_complete: bool) -> Sequence:
    return Sequence(items, "generator", is_complete)
