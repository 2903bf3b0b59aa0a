"""Questions about classes of the script: where their attributes, fields and constructors come from."""

from __future__ import annotations

import ast

from lintrain.interpreter.core.registry import INSTANCE_METHODS, METHODS, Transfer
from lintrain.pipeline.modules import lineage_of
from lintrain.pipeline.values.python import Class, Function, Instance, Library, LibraryObject, Unknown, Value

ENVIRONMENT_CLASSES = {"pydantic.BaseSettings", "pydantic_settings.BaseSettings"}
"""Classes whose fields the environment may give: their defaults are no certainties."""

FIELD_CLASSES = {
    *("dataclasses.dataclass", "typing.NamedTuple", "attr.s", "attr.attrs", "attr.define", "attr.dataclass"),
    *("attrs.define", "attrs.frozen", "pydantic.BaseModel", "pydantic.dataclasses.dataclass", *ENVIRONMENT_CLASSES),
}
"""Decorators and bases that make a class's constructor from its annotations."""


def kinds_of(member: Function) -> set[str]:
    """The names of the library's decorators of a method: `property`, `classmethod`."""
    return {decorator.name for decorator in member.decorators if isinstance(decorator, Library)}


def lacks(value: Instance, name: str) -> bool:
    """Whether an object certainly has no attribute of this name."""
    if name in value.attributes or value.cls.lookup(name) is not None or value.cls.lookup("__getattr__") is not None:
        return False
    return not value.cls.has_unknown_base and not value.cls.library_bases


def transfer_of(value: Instance, name: str) -> Transfer | None:
    """What a method does that an object has from a library class, or from a base that was not understood."""
    for path in lineage_of(value.cls.library_bases):
        if (path, name) in INSTANCE_METHODS:
            return INSTANCE_METHODS[path, name]
    # A base that was not understood may be a module: `model.train()` on such an object is taken for the
    # mode switch that it is on any unknown model.
    return METHODS.get((Unknown, name)) if value.cls.has_unknown_base else None


def has_own_constructor(cls: Class) -> bool:
    """Whether something in the script decides what a call of the class takes: fields and decorators do, too."""
    # Any annotation counts, without asking for the decorator: taking a plain class for a dataclass only
    # keeps rules silent.
    fields = any(isinstance(statement, ast.AnnAssign) for owner in cls.lineage() for statement in owner.node.body)
    return fields or any(cls.lookup(name) is not None for name in ("__init__", "__new__"))


def sole_base(cls: Class) -> str | None:
    """The one library class that a class of the script derives from; None where another may come before it."""
    owners = list(cls.lineage())
    is_plain = not any(owner.decorators or owner.node.keywords for owner in owners) and not cls.has_unknown_base
    bases = set(cls.library_bases)
    return bases.pop() if is_plain and len(bases) == 1 else None


def is_dataclass(cls: Class) -> bool:
    """Whether a class gets its constructor from its annotations."""
    decorated = any(_path(decorator) in FIELD_CLASSES for owner in cls.lineage() for decorator in owner.decorators)
    return decorated or bool(set(cls.library_bases) & FIELD_CLASSES)


def _path(decorator: Value) -> str:
    return decorator.path if isinstance(decorator, Library | LibraryObject) else ""


def fields_of(cls: Class) -> list[str]:
    """The names of a dataclass's fields, those of its bases first."""
    names: dict[str, None] = {}
    # From the furthest base to the class itself: a dataclass orders its fields so. A dictionary keeps the
    # first place of a field that a subclass annotates again.
    for owner in reversed(list(cls.lineage())):
        for statement in owner.node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                names[statement.target.id] = None
    return list(names)
