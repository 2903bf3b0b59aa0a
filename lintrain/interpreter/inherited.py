"""What an object of a script's class has from a library's class: the options of a parser, the entries of a dictionary.

`class Options(argparse.ArgumentParser)` is a parser with methods of its own, and `class Settings(dict)` a dictionary
whose keys may be attributes. The object's `base` is that parser or dictionary, made as a call of the library makes it.
"""

from __future__ import annotations

from typing import cast

from lintrain.interpreter.core import dispatch, storing
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import ATTRIBUTES, BASES, Transfer, method_of, of_type
from lintrain.model.location import Location
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.values.loading import Settings
from lintrain.pipeline.values.python import Bound, Class, Function, Instance, Literal, Mapping, Value


def base_of(cls: Class) -> Transfer | None:
    """What makes the library's part of an object of a class; None if it derives from no class that has one."""
    return next((BASES[path] for path in lineage_of(cls.library_bases) if path in BASES), None)


def begin(call: Call, made: Instance, *, has_constructor: bool) -> None:
    """Make the library's part of a new object, which its own constructor may fill later."""
    transfer = base_of(made.cls)
    if transfer is None:
        return
    # What a constructor of the script hands to the library is not known before `super().__init__`.
    inner = Call(call.reader, None, call.location, is_open=True) if has_constructor else call
    made.base = _as_attributes(made.cls, transfer(inner))


def construct(call: Call, made: Instance) -> bool:
    """`super().__init__(…)` of such an object; False if it has no part of a library."""
    transfer = base_of(made.cls)
    if transfer is None:
        return False
    made.base = _as_attributes(made.cls, transfer(call))
    return True


def _as_attributes(cls: Class, base: Value) -> Value:
    """A dictionary of a class with a `__getattr__` of its own has its entries as attributes."""
    if isinstance(base, Mapping) and not isinstance(base, Settings) and cls.lookup("__getattr__") is not None:
        return Settings(base.entries, base.is_complete, base.written, base.others, base.factory, origin=base.origin)
    return base


def attribute(reader: Reader, value: Instance, name: str, location: Location) -> Value | None:
    """An attribute or method that an object has from a library's class; None if that is not known."""
    if value.base is None:
        return None
    if method_of(value.base, name) is not None:
        return Bound(value.base, name)
    handler = of_type(ATTRIBUTES, value.base)
    return handler(reader, value.base, name, location) if handler else None


def store_attribute(value: Instance, name: str, stored: Value) -> bool:
    """Whether an attribute that is set is an entry of the object, or all of its attributes."""
    if name == "__dict__":
        # `self.__dict__ = self`: from here on each entry is an attribute, and each attribute an entry.
        held = value.base if stored is value else stored
        if isinstance(held, Mapping):
            held.entries.update(cast("dict[Literal, Value]", value.attributes))
            value.attributes = cast("dict[str, Value]", held.entries)
        return isinstance(held, Mapping)
    found = value.cls.lookup("__setattr__")
    if found is None or not isinstance(value.base, Mapping):
        return False
    value.base.entries[name] = stored
    return True


def store_item(reader: Reader, value: Instance, key: Value, stored: Value, location: Location) -> None:
    """`value[key] = stored`: what the class does for it, else an entry of the library's part."""
    found = value.cls.lookup("__setitem__")
    if value.base is None:
        return
    if found is not None and isinstance(found[1], Function):
        dispatch.call(reader, Bound(value, "__setitem__", found[1], found[0]), [key, stored], location=location)
    else:
        storing.store_item(reader, value.base, key, stored, location)
