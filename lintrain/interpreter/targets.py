"""Assignment targets: names, unpacking, attributes and items."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from lintrain.interpreter.core import dispatch, operations, storing
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.record import Binding
from lintrain.pipeline.values.python import UNKNOWN, Constant, Unknown, Value
from lintrain.pipeline.values.tensors import Derived
from lintrain.source.nodes import children


def assign(reader: Reader, target: ast.expr, value: Value, scope: Scope) -> None:
    """Let a target stand for a value."""
    match target:
        case ast.Name(id=name):
            scope.bind(name, identified(value, name))
            if not isinstance(value, Unknown | Constant):
                reader.record.bindings.append(Binding(name, value, reader.source.location(target)))
        case ast.Tuple(elts=targets) | ast.List(elts=targets):
            _unpack(reader, targets, value, scope)
        case ast.Starred(value=inner):
            assign(reader, inner, value, scope)
        case ast.Attribute(value=owner, attr=name):
            held = dispatch.evaluate(reader, owner, scope)
            storing.store_attribute(
                reader, held, name, identified(value, f"self.{name}"), reader.source.location(target)
            )
        case ast.Subscript(value=owner, slice=key):
            location = reader.source.location(target)
            held = dispatch.evaluate(reader, owner, scope)
            storing.store_item(reader, held, dispatch.evaluate(reader, key, scope), value, location)
        case _:
            pass


def identified(value: Value, name: str) -> Value:
    """A value that can be followed: what is not understood becomes an unknown thing of its own when it gets a name."""
    if isinstance(value, Derived) and not value.name:
        return replace(value, name=name)
    if isinstance(value, Unknown) and not value.name and value is not UNKNOWN:
        value.name = name
    return Unknown(name=name) if value is UNKNOWN else value


def _unpack(reader: Reader, targets: Sequence[ast.expr], value: Value, scope: Scope) -> None:
    starred = next((index for index, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    parts = operations.unpack(reader, value, len(targets), starred)
    for target, part in zip(targets, parts, strict=True):
        assign(reader, target, part, scope)


def assigned_names(body: Sequence[ast.stmt]) -> Iterator[str]:
    """The names that statements assign, those of functions and classes defined inside left out."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(children(node))
