"""Names and attributes as a file, a class or a function writes them, whatever value they have."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import trainer_methods
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Class, Function
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NameUse:
    """One use of a name; `is_read` is False where it is assigned or deleted."""

    location: Location
    is_read: bool


def uses_of(source: Source, name: str) -> Sequence[NameUse]:
    """The uses of a plain name in all scopes of a file, where it may mean several things."""
    return source.cached(_uses).get(name, ())


def _uses(source: Source) -> dict[str, list[NameUse]]:
    found = dict[str, list[NameUse]]()
    for node in source.nodes_of(ast.Name):
        found.setdefault(node.id, []).append(NameUse(source.location(node), isinstance(node.ctx, ast.Load)))
    return found


def variables(source: Source) -> frozenset[str]:
    """The names of a file, without attributes, keywords and definitions."""
    return frozenset(node.id for node in source.nodes_of(ast.Name))


def may_be_taken(source: Source, name: str) -> bool:
    """Whether a variable of a file, or the code of a function, contains a name that a fix would define."""
    if any(name in variable for variable in variables(source)):
        return True
    return any(name in ast.unparse(node) for node in source.nodes_of(ast.FunctionDef))


def names_beside_attribute(source: Source, attribute: str) -> frozenset[str]:
    """The names and attributes in all statements that mention an attribute, except classes as a whole."""
    statements = (node for node in source.nodes if isinstance(node, ast.stmt) and not isinstance(node, ast.ClassDef))
    return frozenset(name for node in statements if _mentions(node, attribute) for name in _names(node))


def names_in_class(cls: Class) -> frozenset[str]:
    """The names and attributes in the code of a class."""
    return frozenset(_names(cls.node))


def is_used_after_init(cls: Class, attribute: str) -> bool:
    """Whether a method of a class other than `__init__` mentions an attribute."""
    methods = (node for node in cls.node.body if isinstance(node, ast.FunctionDef) and node.name != "__init__")
    return any(_mentions(node, attribute) for node in methods)


def _mentions(node: ast.AST, attribute: str) -> bool:
    return any(isinstance(each, ast.Attribute) and each.attr == attribute for each in ast.walk(node))


def _names(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute):
            yield each.attr
        elif isinstance(each, ast.Name):
            yield each.id


def at_top_level(source: Source, cls: Class) -> Location | None:
    """The location of a class that a file defines at its top level; None for other classes."""
    return source.location(cls.node) if cls.node in source.tree.body else None


def attributes_used(function: Function) -> Sequence[str]:
    """The names of the attributes in a function's body, in the order of its nodes."""
    return [node.attr for node in trainer_methods.nodes_of(function) if isinstance(node, ast.Attribute)]


def attributes_assigned(function: Function) -> frozenset[str]:
    """The names of the attributes that a function assigns."""
    used = (node for node in trainer_methods.nodes_of(function) if isinstance(node, ast.Attribute))
    return frozenset(node.attr for node in used if isinstance(node.ctx, ast.Store))


def keys_always_read(pipeline: Pipeline, function: Function, name: str) -> Iterator[tuple[str, Location]]:
    """The keys that `name["key"]` and `name.pop("key")` read in assignments that every call of a function executes."""
    source = pipeline.source_of(function.origin) if function.origin else pipeline.source
    body = function.node.body
    for statement in body if isinstance(body, list) else ():
        for node in ast.walk(statement) if isinstance(statement, ast.Assign) else ():
            key = _key(node, name)
            if key is not None and isinstance(node, ast.expr):
                yield key, source.location(node)


def _key(node: ast.AST, owner: str) -> str | None:
    match node:
        case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=str(key)), ctx=ast.Load()):
            return key if name == owner else None
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="pop"), args=[ast.Constant(value=str(key))], keywords=[]
        ):
            return key if name == owner else None
        case _:
            return None
