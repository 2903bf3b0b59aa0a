"""Objects of the script's own classes: attributes, methods, construction."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from lintrain.interpreter import invocation, operations
from lintrain.interpreter.call import Call
from lintrain.interpreter.registry import BASE_CALLS, INSTANCE_METHODS, METHODS, Transfer
from lintrain.model.location import Location
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.values.python import (
    ABSENT,
    UNKNOWN,
    Absent,
    Bound,
    Class,
    Constant,
    Function,
    Instance,
    Library,
    LibraryObject,
    Super,
    Unknown,
    Value,
    mapping_of,
)

if TYPE_CHECKING:
    from lintrain.interpreter.reader import Reader


ENVIRONMENT_CLASSES = {"pydantic.BaseSettings", "pydantic_settings.BaseSettings"}
"""Classes whose fields the environment may give: their defaults are no certainties."""

FIELD_CLASSES = {
    *("dataclasses.dataclass", "typing.NamedTuple", "attr.s", "attr.attrs", "attr.define", "attr.dataclass"),
    *("attrs.define", "attrs.frozen", "pydantic.BaseModel", "pydantic.dataclasses.dataclass", *ENVIRONMENT_CLASSES),
}
"""Decorators and bases that make a class's constructor from its annotations."""


def attribute(reader: Reader, value: Instance | Super | Class, name: str, location: Location) -> Value:
    """An attribute of an object or class of the script."""
    match value:
        case Super():
            return _above(reader, value, name)
        case Class():
            return _class_attribute(value, name)
        case Instance():
            return _instance_attribute(reader, value, name, location)


def _class_attribute(value: Class, name: str) -> Value:
    found = value.lookup(name)
    if found is None:
        return UNKNOWN
    owner, member = found
    is_bound = isinstance(member, Function) and "classmethod" in _kinds(member)
    return Bound(value, name, member, owner) if is_bound and isinstance(member, Function) else member


def _kinds(member: Function) -> set[str]:
    return {decorator.name for decorator in member.decorators if isinstance(decorator, Library)}


def lacks(value: Instance, name: str) -> bool:
    """Whether an object certainly has no attribute of this name."""
    if name in value.attributes or value.cls.lookup(name) is not None or value.cls.lookup("__getattr__") is not None:
        return False
    return not value.cls.has_unknown_base and not value.cls.library_bases


def special(reader: Reader, value: Instance, name: str, given: list[Value], location: Location) -> Value | None:
    """What a special method of the script's class gives, such as `__getitem__`; None where it has none."""
    found = value.cls.lookup(name)
    if found is None or not isinstance(found[1], Function):
        return None
    return invocation.apply(reader, Bound(value, name, found[1], found[0]), given, {}, location)


def _instance_attribute(reader: Reader, value: Instance, name: str, location: Location) -> Value:
    if name in value.attributes:
        return value.attributes[name]
    if name == "__class__":
        return value.cls
    if name == "__dict__":
        return mapping_of(value.attributes, is_complete=False)
    found = value.cls.lookup(name)
    if found is None:
        return _library_method(value, name) or operations.child(reader, value, name)
    owner, member = found
    return bind_member(reader, value, name, owner, member, location)


def bind_member(reader: Reader, value: Instance, name: str, owner: Class, member: Value, location: Location) -> Value:
    """A class's member as seen on an object: functions become methods, properties are read."""
    if not isinstance(member, Function):
        return member
    kinds = _kinds(member)
    if kinds & {"property", "cached_property"}:
        return invocation.apply(reader, Bound(value, name, member, owner), [], {}, location)
    if "staticmethod" in kinds:
        return member
    return Bound(value.cls if "classmethod" in kinds else value, name, member, owner)


def _library_method(value: Instance, name: str) -> Value | None:
    """A method that the object has from a library class, where the reader knows what it does."""
    return Bound(value, name) if transfer_of(value, name) else None


def transfer_of(value: Instance, name: str) -> Transfer | None:
    """What a method does that an object has from a library class, or from a base that was not understood."""
    for path in lineage_of(value.cls.library_bases):
        if (path, name) in INSTANCE_METHODS:
            return INSTANCE_METHODS[path, name]
    return METHODS.get((Unknown, name)) if value.cls.has_unknown_base else None


def _above(reader: Reader, value: Super, name: str) -> Value:
    receiver = value.receiver
    cls = receiver.cls if isinstance(receiver, Instance) else value.below
    lineage = list(cls.lineage())
    above = lineage[lineage.index(value.below) + 1 :] if value.below in lineage else []
    for owner in above:
        member = owner.attributes.get(name)
        if isinstance(member, Function):
            return Bound(receiver, name, member, owner)
    if isinstance(receiver, Instance):
        return _library_method(receiver, name) or Bound(value, name)
    return Bound(value, name)


def instantiate(call: Call, cls: Class) -> Value:
    """What calling a class of the script gives."""
    if not _has_own_constructor(cls):
        invocation.record_construction(call, cls)
    for path in lineage_of(cls.library_bases):
        if path in BASE_CALLS:
            return BASE_CALLS[path](call)
    return make_instance(call, cls)


def _has_own_constructor(cls: Class) -> bool:
    """Whether something in the script decides what a call of the class takes: fields and decorators do, too."""
    fields = any(isinstance(statement, ast.AnnAssign) for owner in cls.lineage() for statement in owner.node.body)
    return fields or any(cls.lookup(name) is not None for name in ("__init__", "__new__"))


def sole_base(cls: Class) -> str | None:
    """The one library class that a class of the script derives from; None where another may come before it."""
    owners = list(cls.lineage())
    is_plain = not any(owner.decorators or owner.node.keywords for owner in owners) and not cls.has_unknown_base
    bases = set(cls.library_bases)
    return bases.pop() if is_plain and len(bases) == 1 else None


def make_instance(call: Call, cls: Class) -> Value:
    """An object of a class, its constructor read with the call's arguments."""
    reader = call.reader
    made = Instance(cls, origin=call.location)
    reader.instances.setdefault(cls.node, made)
    if is_dataclass(cls):
        fill_fields(call, cls, made)
    else:
        found = cls.lookup("__init__")
        if found is not None and isinstance(found[1], Function):
            invocation.invoke(call, found[1], made, found[0])
    return made


def is_dataclass(cls: Class) -> bool:
    """Whether a class gets its constructor from its annotations."""
    decorated = any(_path(decorator) in FIELD_CLASSES for owner in cls.lineage() for decorator in owner.decorators)
    return decorated or bool(set(cls.library_bases) & FIELD_CLASSES)


def _path(decorator: Value) -> str:
    return decorator.path if isinstance(decorator, Library | LibraryObject) else ""


def fields_of(cls: Class) -> list[str]:
    """The names of a dataclass's fields, those of its bases first."""
    names: dict[str, None] = {}
    for owner in reversed(list(cls.lineage())):
        for statement in owner.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                names[statement.target.id] = None
    return list(names)


def fill_fields(call: Call, cls: Class, made: Instance) -> None:
    """Set a dataclass's fields from the call, then from their defaults; unknown where the call may hold anything."""
    names = fields_of(cls)
    given = call.values(*names)
    may_differ = bool(ENVIRONMENT_CLASSES & set(cls.library_bases))
    for name in names:
        default = UNKNOWN if call.is_open or name in given else field_default(call, cls, name)
        if may_differ and isinstance(default, Constant):
            default = Constant(default.value, True)
        made.attributes[name] = given.get(name, default)
    found = cls.lookup("__post_init__")
    if found is not None and isinstance(found[1], Function):
        invocation.apply(call.reader, Bound(made, "__post_init__", found[1], found[0]), [], {}, call.location)


def field_default(call: Call, cls: Class, name: str) -> Value:
    """The default of a dataclass's field; Unknown where it has none."""
    found = cls.lookup(name)
    if found is None:
        return UNKNOWN
    default = found[1]
    if not isinstance(default, LibraryObject):
        return default
    if not default.path.endswith("field") and not default.path.endswith("Field"):
        return default
    value = default.arguments.get("default", default.arguments.get("0", ABSENT))
    if not isinstance(value, Absent):
        return value
    factory = default.arguments.get("default_factory", ABSENT)
    return UNKNOWN if isinstance(factory, Absent) else invocation.apply(call.reader, factory, [], {}, call.location)
