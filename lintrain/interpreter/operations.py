"""What is done to values: attributes, subscripts, iteration, unpacking, operators, truth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from lintrain.interpreter import arithmetic, imports, objects, project_modules, replacing, storing
from lintrain.interpreter.registry import (
    ATTRIBUTES,
    ELEMENTS,
    ENTRIES,
    OPERATORS,
    STORED_ATTRIBUTES,
    STORED_ITEMS,
    SUBSCRIPTS,
    UNPACKED,
    method_of,
    of_type,
)
from lintrain.interpreter.weights import weighed
from lintrain.model.location import Location
from lintrain.pipeline.record import LibraryName
from lintrain.pipeline.values.files import OpenFile
from lintrain.pipeline.values.frames import DataFrame, Indexer, Series, forget_frames
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Either,
    Instance,
    Library,
    LibraryObject,
    Literal,
    Mapping,
    Sequence,
    Super,
    Unknown,
    Value,
    join,
)
from lintrain.pipeline.values.tokens import Text

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Reader


def attribute(reader: Reader, value: Value, name: str, location: Location) -> Value:
    """What `value.name` is: a method comes bound to the value."""
    match value:
        case Either():
            options = [option for option in value.options if not _is_none(option)] or value.options
            return join([attribute(reader, option, name, location) for option in options])
        case Library():
            return _library_attribute(reader, value, name, location)
        case Instance() | Super() | Class():
            return objects.attribute(reader, value, name, location)
        case project_modules.ProjectModule():
            return project_modules.member(reader, value, name)
        case _:
            pass
    handler = of_type(ATTRIBUTES, value)
    found = handler(reader, value, name, location) if handler else None
    if found is not None:
        return found
    if method_of(value, name) is not None or not isinstance(value, Unknown):
        return Bound(value, name)
    return child(reader, value, name)


def _library_attribute(reader: Reader, value: Library, name: str, location: Location) -> Value:
    if "." not in value.path and value.path != "builtins":
        used = LibraryName(value.path, name, location, reader.guards > 0, False)
        reader.record.names.append(used)
    return Library(imports.canonical(f"{value.path}.{name}"))


def child(reader: Reader, value: Value, name: str) -> Unknown:
    """The unknown thing that an unknown value has under a name: the same one each time."""
    if value is UNKNOWN:
        return UNKNOWN
    key = (id(value), name)
    if key not in reader.children:
        outer = value.name if isinstance(value, Unknown) else "self"
        reader.children[key] = Unknown(name=f"{outer}.{name}")
        reader.kept.append(value)
    return reader.children[key]


def subscript(reader: Reader, value: Value, key: Value, location: Location) -> Value:
    """What `value[key]` is."""
    if isinstance(value, Either):
        return join([subscript(reader, option, key, location) for option in value.options])
    if isinstance(key, Either):
        return join([subscript(reader, value, option, location) for option in key.options])
    handler = of_type(SUBSCRIPTS, value)
    if handler:
        return handler(reader, value, weighed(reader, key), location)
    if isinstance(value, Unknown) and isinstance(key, Constant):
        return child(reader, value, f"[{key.value!r}]")
    return UNKNOWN


def element(reader: Reader, value: Value) -> Value:
    """What a loop over a value gets each time."""
    if isinstance(value, Either):
        return join([element(reader, option) for option in value.options])
    handler = of_type(ELEMENTS, value)
    if handler:
        return handler(reader, value)
    match value:
        case Sequence() if value.items:
            each = join(reader.counted(value.items)) if value.is_complete or len(value.items) == 1 else UNKNOWN
            if isinstance(each, Unknown):
                forget_frames(value)
            return each
        case Mapping() if value.entries and value.is_complete:
            return join(Constant(key) for key in reader.counted(value.entries))
        case Unknown() if value is not UNKNOWN:
            return child(reader, value, "[]")
        case _:
            return UNKNOWN


def known_items(value: Value, most: int) -> list[Value] | None:
    """All the items that a loop over a value goes through, or None where they are not known or too many."""
    match value:
        case Sequence() if value.is_complete and len(value.items) <= most:
            return value.items
        case Mapping() if value.is_complete and len(value.entries) <= most:
            return [Constant(key) for key in value.entries]
        case _:
            return _known_keys(value, most)


def _known_keys(value: Value, most: int) -> list[Value] | None:
    held = of_type(ENTRIES, value)
    entries, is_complete = held(value) if held else ({}, False)
    return [Constant(key) for key in entries] if is_complete and len(entries) <= most else None


def unpack(reader: Reader, value: Value, count: int, starred: int | None = None) -> list[Value]:
    """What each of `count` targets is bound to; the target numbered `starred` takes what is left over."""
    if isinstance(value, Either):
        parts = [unpack(reader, option, count, starred) for option in value.options]
        return [join(options) for options in zip(*parts, strict=True)]
    if isinstance(value, Sequence) and value.is_complete:
        return _spread(value.items if starred is None else reader.counted(value.items), count, starred)
    handler = of_type(UNPACKED, value)
    known = handler(reader, value, count) if handler and starred is None else None
    if known is not None:
        return known
    if isinstance(value, Unknown):
        return [child(reader, value, f"[{index}]") for index in range(count)]
    return [UNKNOWN] * count


def _spread(items: list[Value], count: int, starred: int | None) -> list[Value]:
    if starred is None:
        return list(items) if len(items) == count else [UNKNOWN] * count
    after = count - starred - 1
    if len(items) < count - 1:
        return [UNKNOWN] * count
    return [*items[:starred], Sequence(items[starred : len(items) - after]), *items[len(items) - after :]]


def binary(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value:
    """What an arithmetic operator gives."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return arithmetic.binary(left, operator, right)
    if isinstance(left, Sequence) and isinstance(right, Sequence) and operator == "Add":
        items = [*reader.counted(left.items), *reader.counted(right.items)]
        return Sequence(items, left.kind, left.is_complete and right.is_complete)
    if isinstance(left, Sequence) and operator == "Mult" and isinstance(right, Constant):
        reader.counted(left.items)
        return arithmetic.repeat(left, right.value)
    if isinstance(left, Sequence) and operator == "Mult":
        return Sequence([*reader.counted(left.items)], left.kind, False)
    return _operate(reader, left, operator, right, location)


def compare(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value:
    """What a comparison gives."""
    if isinstance(left, Constant) and isinstance(right, Constant):
        return arithmetic.compare(left, operator, right)
    if operator in {"Is", "IsNot", "Eq", "NotEq"} and (_is_none(left) or _is_none(right)):
        other = right if _is_none(left) else left
        if not isinstance(other, Unknown | Either | Constant | Absent):
            return Constant(operator in {"IsNot", "NotEq"})
    if operator in {"In", "NotIn"} and isinstance(left, Constant):
        weighed(reader, right)
        known = arithmetic.contains(right, left)
        if known is not None:
            return Constant(known is (operator == "In"))
    return _operate(reader, left, operator, right, location)


def _is_none(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is None and not value.is_default


def _operate(reader: Reader, left: Value, operator: str, right: Value, location: Location) -> Value:
    for operand in (left, right):
        handler = of_type(OPERATORS, operand)
        result = handler(reader, left, operator, right, location) if handler else None
        if result is not None:
            return result
    return UNKNOWN


def truth(value: Value) -> bool | None:
    """Whether a value counts as true in a test; None where that is not certain."""
    match value:
        case Constant():
            return None if value.is_default else bool(value.value)
        case Sequence(kind="generator"):
            return True
        case Sequence():
            return bool(value.items) if value.is_complete else None
        case Mapping():
            return bool(value.entries) if value.is_complete else None
        case Unknown() | Either() | LibraryObject() | Bound() | Absent() | Library():
            return None
        case _:
            return arithmetic.counts_as_true(value)


def text_of_parts(reader: Reader, parts: Iterable[Value], location: Location) -> Text:
    """The text that code puts together out of these parts."""
    made = Text.of(parts, location)
    reader.record.texts.append(made)
    return made


def entered(reader: Reader, manager: Value) -> Value:
    """What `with manager as name` binds."""
    return manager if isinstance(manager, LibraryObject | Instance | OpenFile) else UNKNOWN


def update(reader: Reader, entries: dict[Literal, Value], other: Value) -> bool:
    """Add the entries of another mapping; False where some of them are not known."""
    if isinstance(other, Mapping):
        entries.update(reader.counted(other.entries))
        return other.is_complete
    held = of_type(ENTRIES, other)
    if held is None:
        entries.update(dict.fromkeys(reader.counted(entries), UNKNOWN))
        return False
    added, is_complete = held(other)
    entries.update(reader.counted(added))
    return is_complete


def store_attribute(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`owner.name = value`."""
    for option in owner.options if isinstance(owner, Either) else (owner,):
        handler = of_type(STORED_ATTRIBUTES, option)
        replacing.note_part(reader, option, value, location)
        replacing.note_kept(reader, option, name, value, location)
        if isinstance(value, DataFrame) and (reader.uncalled or reader.conditions):
            value.forget()  # methods that change it may run in any order
        if handler:
            handler(reader, option, name, weighed(reader, value), location)
        elif isinstance(option, Class):
            option.attributes[name] = weakly(reader, option.attributes.get(name), value)


def weakly(reader: Reader, before: Value | None, value: Value) -> Value:
    """What an attribute holds after a store that may have been skipped: also one in a method that nobody calls."""
    is_certain = not reader.conditions and not reader.uncalled
    if before is None or is_certain or before is value or _is_none(before):
        return value
    return join([before, value])


def store_item(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`owner[key] = value`."""
    replacing.note_part(reader, owner, value, location)
    if isinstance(owner, Either):
        for option in owner.options:
            if isinstance(option, DataFrame | Series | Indexer):
                store_item(reader, option, key, UNKNOWN, location)
        return
    handler = of_type(STORED_ITEMS, owner)
    if handler:
        handler(reader, owner, key, weighed(reader, value), location)
        return
    match owner, key:
        case Mapping(), _:
            storing.store_entry(reader, owner, key, value)
        case Sequence(), _:
            owner.is_complete = False
            owner.items.append(value)
        case _:
            pass
