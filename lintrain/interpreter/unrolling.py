"""Loops over a few names that choose what is done: `for split in ("train", "test")`, `for phase in ["train", "val"]`.

Read once for all iterations, such a loop would make one object for all splits, and each `if phase == "train"` in it
would be open. So it is read once for each item, and counts as no loop: what it holds is no epoch and no batch.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.scope import Scope
from lintrain.interpreter.core.storing import assign
from lintrain.pipeline.values.python import Constant, Mapping, Range, Sequence, Value
from lintrain.source.nodes import children, walk

MOST_ITEMS = 4
"""Items of a loop that is unrolled."""

DEEPEST = 2
"""Loops inside each other that are unrolled: more would multiply the steps of reading."""

FOR = ast.For | ast.AsyncFor


def items_to_unroll(reader: Reader, node: FOR, over: Value) -> list[Value] | None:
    """The items of a loop that is to be read once for each of them; None for all other loops."""
    if reader.unrolled >= DEEPEST:
        return None
    items = _named_items(over)
    is_short = items is not None and 1 < len(items) <= MOST_ITEMS
    return items if is_short and reader.once(_chooses_by_target, node) else None


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


def _deciding(node: FOR) -> Iterator[ast.AST]:
    """The keys in brackets and the sides of comparisons in the body of a loop."""
    for statement in node.body:
        for each in walk(statement):
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
