"""Short names for values: what an origin shows of them."""

from __future__ import annotations

from lintrain.pipeline.values.python import (
    Bound,
    Class,
    Either,
    Instance,
    Library,
    LibraryObject,
    Mapping,
    Partial,
    Sequence,
    Value,
    options_of,
)


def kind_of(value: Value | None) -> str:
    """The name of a value's class."""
    return "nothing" if value is None else type(value).__name__


def row_kind(item: Value) -> str:
    """What kind of row an item of a data set is."""
    match item:
        case Sequence(kind=kind, items=items):
            return f"{kind} of {len(items)}"
        case Mapping():
            return "dict"
        case _:
            return kind_of(item)


def class_name(owner: Instance | Class) -> str:
    """A class of the script by the library classes that it derives from: those of many scripts are then one."""
    cls = owner.cls if isinstance(owner, Instance) else owner
    return f"<{', '.join(cls.library_bases) or 'own class'}>"


def callee_name(callee: Value | None) -> str:
    """The dotted name of what is called, as far as it is known."""
    match callee:
        case Library(path=path):
            return f"{path}()"
        case LibraryObject(path=path):
            return f"{path}()()"
        case Bound(receiver=receiver, name=name):
            return f"{_receiver_name(receiver)}.{name}()"
        case Partial(function=function):
            return callee_name(function)
        case Either(options=options):
            return callee_name(options[-1])
        case Instance():
            return f"{class_name(callee)}()()"
        case _:
            return f"{kind_of(callee)}()"


def _receiver_name(receiver: Value) -> str:
    match receiver:
        case Library(path=path):
            return path
        case LibraryObject(path=path):
            return f"{path}()"
        case Bound():
            return callee_name(receiver).removesuffix("()")
        case Instance():
            return class_name(receiver)
        case _:
            return kind_of(receiver)


def part_of(item: Value, key: object) -> Value | None:
    """One part of a row by the key that a batch is asked for."""
    for option in options_of(item):
        match option:
            case Sequence(items=items) if isinstance(key, int) and key < len(items):
                return items[key]
            case Mapping(entries=entries):
                found = next((part for name, part in entries.items() if name == key), None)
                if found is not None:
                    return found
            case _:
                pass
    return None
