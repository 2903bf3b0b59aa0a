"""Assignment: names, attributes and items, stored for certain or only maybe."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from collections.abc import Sequence as SequenceType
from dataclasses import replace

from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.arithmetic import is_none
from lintrain.interpreter.core.items import apart
from lintrain.interpreter.core.module_parts import note_kept, note_part
from lintrain.interpreter.core.reader import Reader, weighed
from lintrain.interpreter.core.registry import STORED_ATTRIBUTES, STORED_ITEMS, of_type
from lintrain.interpreter.core.scope import Scope
from lintrain.model.location import Location
from lintrain.pipeline.record import Binding
from lintrain.pipeline.values.columns import DataFrame, Indexer, Series
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Class,
    Constant,
    Either,
    Literal,
    Mapping,
    Sequence,
    Unknown,
    Value,
    join,
)
from lintrain.pipeline.values.tensors import Derived
from lintrain.source.nodes import children


def store_attribute(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    """`owner.name = value`."""
    for option in owner.options if isinstance(owner, Either) else (owner,):
        handler = of_type(STORED_ATTRIBUTES, option)
        note_part(reader, option, value, location)
        note_kept(reader, option, name, value, location)
        # What is known of a frame is true at one point of the script. In an attribute other methods may
        # change it first.
        if isinstance(value, DataFrame) and (reader.uncalled or reader.conditions):
            value.forget()  # methods that change it may run in any order
        reader.forget_tested(option, name)
        if handler:
            handler(reader, option, name, weighed(reader, value), location)
        elif isinstance(option, Class):
            option.attributes[name] = weakly(reader, option.attributes.get(name), value, f"self.{name}")


def weakly(reader: Reader, before: Value | None, value: Value, name: str = "") -> Value:
    """What an attribute holds after a store that may have been skipped: such as one in an unused method.

    With a `name`, a value that is one of too many is an unknown thing of that name.
    """
    # A weak update keeps what was there: after `if a: self.x = 2` the attribute is 1 or 2. A strong one
    # replaces it. None is not kept: `self.model = None` in the constructor only declares the attribute.
    is_certain = not reader.conditions and not reader.uncalled
    if before is None or is_certain or before is value or is_none(before):
        return value
    either = join([before, value])
    return identified(either, name) if name else either


def store_item(reader: Reader, owner: Value, key: Value, value: Value, location: Location) -> None:
    """`owner[key] = value`."""
    note_part(reader, owner, value, location)
    if isinstance(owner, Either):
        # The owner is one of several, so each may be the one that is changed: frames forget what was known
        # of the key.
        for option in owner.options:
            if isinstance(option, DataFrame | Series | Indexer):
                store_item(reader, option, key, UNKNOWN, location)
        return
    if isinstance(key, Constant):
        reader.forget_tested(owner, f"[{key.value!r}]")
    handler = of_type(STORED_ITEMS, owner)
    if handler:
        handler(reader, owner, key, weighed(reader, value), location)
        return
    match owner, key:
        case Mapping(), _:
            _store_entry(reader, owner, key, value)
        case Sequence(), _:
            # `items[i] = x`: which item goes is not known, so the list keeps all of them and may hold
            # others.
            owner.is_closed, owner.is_complete = owner.knows_items, False
            owner.items.append(value)
        case _:
            pass


def _store_entry(reader: Reader, owner: Mapping, key: Value, value: Value) -> None:
    """`owner[key] = value`."""
    if not isinstance(key, Constant):
        _store_somewhere(reader, owner, key, value)
        return
    before = owner.entries.get(key.value)
    owner.entries[key.value] = weakly(reader, before, value) if reader.conditions else value
    note_side(reader, owner, key.value, is_new=before is None)


def note_side(reader: Reader, owner: Mapping, key: Literal, *, is_new: bool) -> None:
    """Note the sides of `if` statements that an entry was added on: those that all its additions have in common."""
    sides = frozenset((each.location, each.is_else) for each in reader.conditions if each.test is not None)
    known = sides if is_new else owner.sides.pop(key, frozenset()) & sides
    if known:
        owner.sides[key] = known


def _store_somewhere(reader: Reader, owner: Mapping, key: Value, value: Value) -> None:
    """`owner[key] = value` where the key is one of several, or not known: any entry may be another one now."""
    options = key.options if isinstance(key, Either) else (key,)
    keys = [option.value for option in options if isinstance(option, Constant)]
    if len(keys) < len(options):
        if owner.is_complete or owner.others is not None:
            owner.others = value if owner.others is None else join([owner.others, value])
        owner.is_complete, owner.factory = False, None
        keys = list(owner.entries)
        reader.spend(len(keys))
    loop = reader.loops[-1] if reader.loops else None
    # `for name in ("train", "test"): data[name] = f(data[name])` sets every key: each option of the loop's
    # element is reached for certain, although each single pass stores under only one of them.
    is_each = loop is not None and loop.each is key and len(keys) == len(options)
    # A condition inside that loop may skip some of the keys; one around the loop skips all or none of them.
    is_certain = is_each and not any(condition.depth >= len(reader.loops) for condition in reader.conditions)
    for name in keys:
        before, held = owner.entries.get(name), value if len(keys) < 2 else apart(value)
        owner.entries[name] = held if is_certain or before is None else join([before, held])


def assign(reader: Reader, target: ast.expr, value: Value, scope: Scope) -> None:
    """Bind a target to a value."""
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
            store_attribute(reader, held, name, identified(value, f"self.{name}"), reader.source.location(target))
        case ast.Subscript(value=owner, slice=key):
            location = reader.source.location(target)
            held = dispatch.evaluate(reader, owner, scope)
            store_item(reader, held, dispatch.evaluate(reader, key, scope), value, location)
        case _:
            pass


def identified(value: Value, name: str) -> Value:
    """A value that can be followed: what is not understood becomes an unknown thing of its own when it gets a name."""
    if isinstance(value, Derived) and not value.name:
        return replace(value, name=name)
    if isinstance(value, Unknown) and not value.name and value is not UNKNOWN:
        value.name = name
    return Unknown(name=name) if value is UNKNOWN else value


def _unpack(reader: Reader, targets: SequenceType[ast.expr], value: Value, scope: Scope) -> None:
    starred = next((index for index, target in enumerate(targets) if isinstance(target, ast.Starred)), None)
    parts = operations.unpack(reader, value, len(targets), starred)
    for target, part in zip(targets, parts, strict=True):
        assign(reader, target, part, scope)


def assigned_names(body: SequenceType[ast.stmt]) -> Iterator[str]:
    """The names that statements assign, those of functions and classes defined inside left out."""
    pending: list[ast.AST] = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending.extend(children(node))
