"""Branches: `if`, `try` and `match`, each side read from the same start, and joined."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.interpreter import branches, narrowing
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import statement
from lintrain.interpreter.core.scope import Changes, Scope
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.python import UNKNOWN, Constant, Value
from lintrain.pipeline.values.python import Sequence as SequenceValue
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

EXPECTED_ERRORS = frozenset(
    {"ImportError", "ModuleNotFoundError", "AttributeError", "TypeError", "Exception", "BaseException"}
)
"""Errors whose handler makes the missing of a name or an argument an expected thing."""

ABOUT_VERSIONS = lazy_pattern(
    r"version|available|hasattr|issubclass|signature|inspect|parameters|type_checking|is_(?:transformers|trl|peft)_"
    r"|(?:transformers|datasets|trl|peft|keras|torch|accelerate)_?(?:lt|le|gt|ge|v?\d)"
)
"""What tests of versions or of a passed class contain, and flags with their answers: `transformers_lt_4_56`."""


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
    period = _period(reader, node, scope)
    then = Condition(location, len(reader.loops), node.test, False, *period)
    other = Condition(location, len(reader.loops), node.test, True, *period)
    reader.branches[node] = then, other
    narrowed = narrowing.sides(reader, node.test, scope)
    reader.left[node] = narrowed[0].values, narrowed[1].values
    return execute_branches(
        reader, [(node.body, then), (node.orelse, other)], scope, is_guarded=guarded, narrowed=narrowed
    )


def _period(reader: Reader, node: ast.If, scope: Scope) -> tuple[Value, str]:
    """The `k` of a test like `(i + 1) % k == 0`, or `count == k` where a count starts again, and its code."""
    divisor = reader.once(_divisor, node.test)
    counted = reader.once(_counted_to, node) if divisor is None else None
    if counted is not None and counted[0] in reader.source.cached(_counts):
        divisor = counted[1]
    return (dispatch.evaluate(reader, divisor, scope), unparse(divisor)) if divisor else (UNKNOWN, "")


def _divisor(test: ast.expr) -> ast.expr | None:
    for node in walk(test):
        match node:
            case ast.BinOp(op=ast.Mod(), right=ast.Name() | ast.Attribute() | ast.Constant() as divisor):
                return divisor
            case ast.BinOp(op=ast.Mod(), right=ast.Subscript(value=ast.Name(), slice=ast.Constant()) as divisor):
                return divisor
            case _:
                pass
    return None


def _counts(source: Source) -> frozenset[str]:
    """The names that a file counts up by one: `steps += 1`."""
    added = (each for each in source.nodes_of(ast.AugAssign) if isinstance(each.op, ast.Add))
    return frozenset(
        unparse(each.target) for each in added if isinstance(each.value, ast.Constant) and each.value.value == 1
    )


def _counted_to(node: ast.If) -> tuple[str, ast.expr] | None:
    """A count that starts again at 0 where it equals another number, and that number; None for another test."""
    first = node.test.values[0] if isinstance(node.test, ast.BoolOp) else node.test
    match first:
        case ast.Compare(left=ast.Name() | ast.Attribute() as count, ops=[ast.Eq() | ast.GtE()], comparators=[most]):
            written = unparse(count)
            assigned = (each for each in node.body if isinstance(each, ast.Assign) and len(each.targets) == 1)
            starts = any(unparse(each.targets[0]) == written and _is_zero(each.value) for each in assigned)
            is_plain = isinstance(most, ast.Name | ast.Attribute | ast.Constant)
            return (written, most) if starts and is_plain else None
        case _:
            return None


def _is_zero(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value == 0


def _asks_for_versions(test: str) -> bool:
    """Whether a test looks like one about versions or availability: its branch is meant for some versions only."""
    return ABOUT_VERSIONS.search(test.lower()) is not None


def execute_branches(
    reader: Reader,
    branches: Sequence[tuple[Sequence[ast.stmt], Condition]],
    scope: Scope,
    *,
    is_guarded: bool = False,
    narrowed: Sequence[narrowing.Side] = (),
) -> Flow:
    """Run each branch from the same start, with what its test leaves of values; go on with the joined names."""
    start = len(scope.journal)
    ends: list[Changes] = []
    flows: list[Flow] = []
    changes: Changes = {}
    for index, (body, condition) in enumerate(branches):
        reader.guards += is_guarded
        reader.conditions.append(condition)
        side = narrowed[index] if narrowed else narrowing.NOTHING
        scope.apply(side.names)
        # Every branch starts from the same names, those at `start`: what one side binds is undone before
        # the other is read.
        with reader.tested(side.values):
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
    names = {node.id for node in walk(handler.type) if isinstance(node, ast.Name)}
    return bool(names & EXPECTED_ERRORS)


@statement(ast.Match)
def _match(reader: Reader, node: ast.Match, scope: Scope) -> Flow:
    subject = dispatch.evaluate(reader, node.subject, scope)
    ways: list[tuple[Sequence[ast.stmt], Condition]] = []
    narrowed: list[narrowing.Side] = []
    location, depth = reader.source.location(node), len(reader.loops)
    is_settled = False
    for case in node.cases:
        taken = takes(reader, case, subject, scope)
        if taken is not False:
            bind(reader, case.pattern, subject, scope)
            ways.append((case.body, Condition(location, depth)))
            narrowed.append(narrowing.side_of_case(reader, node, case, scope))
        if taken:
            is_settled = True
            break
    # The only case that can match is certain to, so its body runs without a condition.
    if is_settled and len(ways) == 1:
        return dispatch.execute_block(reader, ways[0][0], scope)
    if not is_settled:
        # No case need match: the statement is then skipped, and that is one of the branches.
        ways.append(([], Condition(location, depth)))
        narrowed.append(narrowing.NOTHING)
    return branches.execute_branches(reader, ways, scope, narrowed=narrowed)


def bind(reader: Reader, pattern: ast.pattern, subject: Value, scope: Scope) -> None:
    """Bind the names of a pattern: to the subject or its items where the pattern shows which, else to Unknown."""
    match pattern:
        case ast.MatchAs():
            if pattern.pattern is not None:
                bind(reader, pattern.pattern, subject, scope)
            if pattern.name:
                scope.bind(pattern.name, subject)
        case ast.MatchSequence(patterns=parts) if _items(parts, subject) is not None:
            for part, item in zip(parts, _items(parts, subject) or [], strict=True):
                bind(reader, part, item, scope)
        case _:
            _bind_unknown(pattern, scope)


def _bind_unknown(pattern: ast.pattern, scope: Scope) -> None:
    for node in walk(pattern):
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            scope.bind(node.name, UNKNOWN)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            scope.bind(node.rest, UNKNOWN)


def _items(patterns: list[ast.pattern], subject: Value) -> list[Value] | None:
    """The items of the subject, one for each pattern; None if that is not certain."""
    is_known = isinstance(subject, SequenceValue) and subject.is_complete and len(subject.items) == len(patterns)
    has_star = any(isinstance(each, ast.MatchStar) for each in patterns)
    return subject.items if isinstance(subject, SequenceValue) and is_known and not has_star else None


def _has_other_length(patterns: list[ast.pattern], subject: Value) -> bool:
    has_star = any(isinstance(each, ast.MatchStar) for each in patterns)
    return (
        isinstance(subject, SequenceValue)
        and subject.is_complete
        and not has_star
        and len(subject.items) != len(patterns)
    )


def takes(reader: Reader, case: ast.match_case, subject: Value, scope: Scope) -> bool | None:
    """Whether a case is certainly taken, or certainly not; None if neither is certain."""
    fits = matches(reader, case.pattern, subject, scope)
    if fits is False or case.guard is None:
        return fits
    bind(reader, case.pattern, subject, scope)
    holds = operations.truth(dispatch.evaluate(reader, case.guard, scope))
    return holds if fits or holds is False else None


def matches(reader: Reader, pattern: ast.pattern, subject: Value, scope: Scope) -> bool | None:
    """Whether a pattern certainly matches, or certainly does not; None if neither is certain."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return matches(reader, inner, subject, scope)
        case ast.MatchValue(value=value):
            wanted = dispatch.evaluate(reader, value, scope)
            return operations.truth(_equal(reader, subject, wanted, value))
        case ast.MatchSingleton(value=wanted):
            is_known = isinstance(subject, Constant) and not subject.default
            return subject.value is wanted if is_known and isinstance(subject, Constant) else None
        case ast.MatchOr(patterns=parts):
            found = [matches(reader, part, subject, scope) for part in parts]
            return True if True in found else None if None in found else False
        case ast.MatchSequence(patterns=parts):
            items = _items(parts, subject)
            if items is None:
                return False if _has_other_length(parts, subject) else None
            found = [matches(reader, part, item, scope) for part, item in zip(parts, items, strict=True)]
            return False if False in found else None if None in found else True
        case _:
            return None


def _equal(reader: Reader, subject: Value, wanted: Value, node: ast.expr) -> Value:
    return operations.compare(reader, subject, "Eq", wanted, reader.source.location(node))
