"""Branches: `if` and `try`, both sides read from the same start and joined."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import statement
from lintrain.interpreter.core.scope import Changes, Scope
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.python import UNKNOWN, Value
from lintrain.source.nodes import walk
from lintrain.startup.lazy_pattern import lazy_pattern

EXPECTED_ERRORS = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "Exception", "BaseException"}
)
"""Errors whose handler makes the missing of a name or an argument an expected thing."""

ABOUT_VERSIONS = lazy_pattern(
    r"version|available|hasattr|signature|inspect|parameters|type_checking|is_(?:transformers|trl|peft)_"
    r"|(?:transformers|datasets|trl|peft|keras|torch|accelerate)_?(?:lt|le|gt|ge|v?\d)"
)
"""What tests of versions contain, and flags that hold the answer to such a question: `transformers_lt_4_56`."""


@statement(ast.If)
def execute_if(reader: Reader, node: ast.If, scope: Scope) -> Flow:
    """`if`: one side where the test is certain, else both."""
    test = dispatch.evaluate(reader, node.test, scope)
    truth = operations.truth(test)
    # The side that cannot run is not read: `if False:` hides old code, and its events would be false
    # findings.
    if truth is not None:
        reader.settled.add(node)
        return dispatch.execute_block(reader, node.body if truth else node.orelse, scope)
    # A function may be read twice, with other arguments: what was certain in one call is open in the next.
    reader.settled.discard(node)
    location = reader.source.location(node)
    guarded = _asks_for_versions(reader.code(reader.source.location(node.test)))
    period = _period(reader, node.test, scope)
    then = Condition(location, len(reader.loops), node.test, False, *period)
    other = Condition(location, len(reader.loops), node.test, True, *period)
    return execute_branches(reader, [(node.body, then), (node.orelse, other)], scope, is_guarded=guarded)


def _period(reader: Reader, test: ast.expr, scope: Scope) -> tuple[Value, str]:
    """The `k` of a test like `(i + 1) % k == 0`, and its code."""
    divisor = reader.once(_divisor, test)
    return (dispatch.evaluate(reader, divisor, scope), ast.unparse(divisor)) if divisor else (UNKNOWN, "")


def _divisor(test: ast.expr) -> ast.Name | ast.Attribute | ast.Constant | None:
    for node in walk(test):
        match node:
            case ast.BinOp(op=ast.Mod(), right=ast.Name() | ast.Attribute() | ast.Constant() as divisor):
                return divisor
            case _:
                pass
    return None


def _asks_for_versions(test: str) -> bool:
    """Whether a test looks like one about versions or availability: what stands below it is meant for some only."""
    return ABOUT_VERSIONS.search(test.lower()) is not None


def execute_branches(
    reader: Reader,
    branches: Sequence[tuple[Sequence[ast.stmt], Condition]],
    scope: Scope,
    *,
    is_guarded: bool = False,
) -> Flow:
    """Run each branch from the same start; go on with what those leave behind that do go on."""
    start = len(scope.journal)
    ends: list[Changes] = []
    flows: list[Flow] = []
    changes: Changes = {}
    for body, condition in branches:
        reader.guards += is_guarded
        reader.conditions.append(condition)
        # Every branch starts from the same names, those at `start`: what one side binds is undone before
        # the other is read.
        flow = dispatch.execute_block(reader, body, scope)
        reader.conditions.pop()
        reader.guards -= is_guarded
        changes = reader.undo(scope, start)
        flows.append(flow)
        if flow is Flow.ON:
            ends.append(changes)
    # Only branches that go on have an effect on what follows: after `if bad: x = None; return` the name `x`
    # is unchanged. If none goes on, what follows is not read, and any state will do.
    scope.apply(scope.joined(ends) if ends else changes)
    if ends:
        return Flow.ON
    # The weaker way out wins: where one branch returns and the other continues, the loop may have another
    # iteration.
    return Flow.LEAVE_LOOP if Flow.LEAVE_LOOP in flows else Flow.LEAVE_FUNCTION


@statement(ast.Try, ast.TryStar)
def execute_try(reader: Reader, node: ast.Try | ast.TryStar, scope: Scope) -> Flow:
    """`try`: its body, then each handler as a branch that starts somewhere in the body."""
    start = len(scope.journal)
    expected = any(_expects_missing_names(handler) for handler in node.handlers)
    reader.guards += expected
    flow = dispatch.execute_block(reader, [*node.body, *node.orelse], scope)
    reader.guards -= expected
    changes = reader.undo(scope, start)
    ends = [changes] if flow is Flow.ON else []
    # An exception may come at any line of the body. The handler starts from both ends of what is possible:
    # nothing of the body has run, or all of it. Names that the body binds thus keep their old value as one
    # option.
    raised = scope.joined([{}, *ends])
    for handler in node.handlers:
        scope.apply(raised)
        if handler.name:
            scope.put(handler.name, UNKNOWN)
        reader.guards += expected
        with reader.condition(reader.source.location(handler)):
            handled = dispatch.execute_block(reader, handler.body, scope)
        reader.guards -= expected
        changes = reader.undo(scope, start)
        if handled is Flow.ON:
            ends.append(changes)
    if ends:
        scope.apply(scope.joined(ends))
    final = dispatch.execute_block(reader, node.finalbody, scope)
    # A `finally` that returns overrides all else. Otherwise execution goes on if the body or any handler
    # does.
    return final if final is not Flow.ON or ends else flow


def _expects_missing_names(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {node.id for node in ast.walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & EXPECTED_ERRORS)
