"""Loops over a few names or functions, read once for each of them.

Some choose what is done (`for split in ("train", "test")`, `for phase in ["train", "val"]`): read once for all
iterations, such a loop would make one object for all splits, and each `if phase == "train"` in it would be open. Others
put settings into an object: `for name, value in settings.items(): setattr(self, name, value)`. Own compositions pass a
row through transforms one after the other: `for transform in self.transforms: image = transform(image)`.
Unrolled, a loop counts as no loop: what it holds is no epoch and no batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.core.storing import assign
from lintrain.interpreter.layer_shapes import OPEN
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import UNKNOWN, Constant, Mapping, Range, Sequence, Value, text_of
from lintrain.source.nodes import children, walk

MOST_UNROLLED = 4
"""Items of a loop that is unrolled."""

MOST_SWITCHED = 16
"""Networks of a list whose modes a loop sets one by one."""

MOST_PASSED = 12
"""Transforms that a row is passed through one by one."""

MOST_SET = 64
"""Settings that a loop puts one by one into an object or a parser."""

DEEPEST = 2
"""Loops inside each other that are unrolled: more would multiply the steps of reading."""

FOR = ast.For | ast.AsyncFor


def items_to_unroll(reader: Reader, node: FOR, over: Value, scope: Scope) -> list[Value] | None:
    """The items of a loop that is to be read once for each of them; None for all other loops."""
    if reader.unrolled >= DEEPEST:
        return None
    if isinstance(over, Module) and 1 < len(over.parts) <= MOST_SWITCHED and reader.once(_only_switches, node):
        return [*over.parts, *([UNKNOWN] if OPEN in over.arguments else [])]
    if _are_few(over) and reader.once(_passes_on, node):
        return list(over.items)
    items = _named_items(over)
    if items is None or not 1 < len(items) <= MOST_SET:
        return None
    if (sought := reader.once(_name_sought, node)) is not None:
        return _items_called(reader, items, sought, scope)
    is_chosen = len(items) <= MOST_UNROLLED and reader.once(_chooses_by_target, node)
    return items if is_chosen or reader.once(_only_sets, node) else None


def _are_few(over: Value) -> TypeGuard[Sequence]:
    """Whether a value is a list or tuple of a few known items."""
    if not isinstance(over, Sequence) or isinstance(over, Range):
        return False
    return over.is_complete and 1 < len(over.items) <= MOST_PASSED


def _named_items(over: Value) -> list[Value] | None:
    """All items of a list, tuple or dictionary if each is a text, or begins with one."""
    match over:
        case Mapping(entries=entries, is_complete=True):
            items: list[Value] = [Constant(key) for key in entries]
        case Sequence(items=items, is_complete=True) if not isinstance(over, Range):
            pass
        case _:
            return None
    return items if all(_is_named(item) for item in items) else None


def _is_named(item: Value) -> bool:
    first = item.items[0] if isinstance(item, Sequence) and item.kind == "tuple" and item.items else item
    return isinstance(first, Constant) and isinstance(first.value, str | bool)


def _chooses_by_target(node: FOR) -> bool:
    """Whether the body takes an item or a branch by what the loop binds, and goes through all items."""
    names = {each.id for each in walk(node.target) if isinstance(each, ast.Name)}
    # Where a `break` ends the loop early, which iterations there are is not known.
    return not any(_breaks(statement) for statement in node.body) and any(
        isinstance(each, ast.Name) and each.id in names for each in _deciding(node)
    )


def _passes_on(node: FOR) -> bool:
    """Whether each item is called with what the one before returned: `image, mask = transform(image, mask)`."""
    match node.body, node.target:
        case (
            [ast.Assign(targets=[stored], value=ast.Call(func=ast.Name(id=called), args=given))],
            ast.Name(id=bound),
        ) if called == bound:
            names = {each.id for each in given if isinstance(each, ast.Name)}
            targets = stored.elts if isinstance(stored, ast.Tuple) else [stored]
            return all(isinstance(each, ast.Name) and each.id in names for each in targets)
        case _:
            return False


def _only_switches(node: FOR) -> bool:
    """Whether the body does no more than set the mode of each network: `net.train()`."""
    return all(_is_switch(each, node.target) for each in node.body)


def _is_switch(statement: ast.stmt, target: ast.expr) -> bool:
    match statement, target:
        case (
            ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="train" | "eval"))),
            ast.Name(id=bound),
        ):
            return name == bound
        case _:
            return False


def _only_sets(node: FOR) -> bool:
    """Whether the body does no more than set attributes by their names, or declare options: `setattr(self, k, v)`."""
    return any(map(_sets_by_name, walk(node))) and all(map(_is_plain_store, node.body))


def _name_sought(node: FOR) -> ast.expr | None:
    """What the names that a loop goes through are compared with, where it does no more than take the one found.

    `for name, value in vars(module).items(): if name.lower() == wanted: found = value`.
    """
    match node.body, node.target:
        case (
            [ast.If(test=test, body=[ast.Assign()] | [ast.Assign(), ast.Break()], orelse=[])],
            ast.Tuple(elts=[ast.Name(id=bound), _]),
        ):
            first = test.values[0] if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else test
        case _:
            return None
    match first:
        case ast.Compare(
            left=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="lower")),
            ops=[ast.Eq()],
            comparators=[sought],
        ) if name == bound:
            return sought
        case _:
            return None


def _items_called(reader: Reader, items: list[Value], sought: ast.expr, scope: Scope) -> list[Value] | None:
    """The items of a name, in capital letters or small ones; None if the name is not known."""
    # By default an option may be what is sought: `--model cycle_gan`. Then the item is the one by default, too.
    name = text_of(dispatch.evaluate(reader, sought, scope))
    pairs = [(item, item.items[0]) for item in items if isinstance(item, Sequence)]
    return None if name is None else [item for item, key in pairs if (text_of(key) or "").lower() == name]


def _sets_by_name(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="setattr") | ast.Attribute(attr="add_argument")):
            return True
        case ast.Subscript(value=ast.Name(id="self"), ctx=ast.Store()):
            return True
        case _:
            return False


def _is_plain_store(node: ast.stmt) -> bool:
    """Whether a statement stores something, shows it, or does so under a condition."""
    match node:
        case ast.If():
            return all(map(_is_plain_store, (*node.body, *node.orelse)))
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))):
            return name in {"setattr", "print", "info", "debug", "add_argument"}
        case _:
            return isinstance(node, ast.Assign | ast.AnnAssign | ast.Pass)


def _deciding(node: FOR) -> Iterator[ast.AST]:
    """The keys in brackets and the sides of comparisons in the body of a loop."""
    for part in node.body:
        for each in walk(part):
            if isinstance(each, ast.Subscript):
                yield from walk(each.slice)
            elif isinstance(each, ast.Compare):
                yield from (each.left, *each.comparators)


def _breaks(node: ast.AST) -> bool:
    """Whether code may leave the loop around it."""
    if isinstance(node, ast.Break):
        return True
    if isinstance(node, ast.For | ast.AsyncFor | ast.While):
        return any(_breaks(each) for each in node.orelse)
    return any(_breaks(each) for each in children(node))


def unroll(reader: Reader, node: FOR, items: list[Value], scope: Scope) -> Flow:
    """Run a loop once for each item; what one iteration binds, the next one sees."""
    reader.unrolled += 1
    frame = reader.frame
    outer = (frame.exits, frame.loop_start)
    flow = Flow.ON
    for item in items:
        # Kept for the loop outside: `continue` belongs to this loop, and goes on with its next item.
        frame.exits, frame.loop_start = [], len(scope.journal)
        assign(reader, node.target, item, scope)
        flow = _run_once(reader, node, scope)
        if flow is Flow.LEAVE_FUNCTION:
            break
    frame.exits, frame.loop_start = outer
    reader.unrolled -= 1
    return flow if flow is Flow.LEAVE_FUNCTION else dispatch.execute_block(reader, node.orelse, scope)


def _run_once(reader: Reader, node: FOR, scope: Scope) -> Flow:
    start = reader.frame.loop_start
    flow = dispatch.execute_block(reader, node.body, scope)
    exits = reader.frame.exits
    changes = reader.undo(scope, start)
    ends = [*exits, changes] if flow is Flow.ON else exits
    scope.apply(scope.joined(ends) if ends else changes)
    return Flow.ON if ends else flow
