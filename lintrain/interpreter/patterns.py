"""The patterns of `match`: what they bind, and whether they match what is known of the subject."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from lintrain.interpreter import branches
from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.reader import Flow, Reader
from lintrain.interpreter.core.registry import statement
from lintrain.interpreter.core.scope import Scope
from lintrain.pipeline.events import Condition
from lintrain.pipeline.values.python import UNKNOWN, Constant, Value
from lintrain.pipeline.values.python import Sequence as SequenceValue


@statement(ast.Match)
def _match(reader: Reader, node: ast.Match, scope: Scope) -> Flow:
    subject = dispatch.evaluate(reader, node.subject, scope)
    ways: list[tuple[Sequence[ast.stmt], Condition]] = []
    location, depth = reader.source.location(node), len(reader.loops)
    is_settled = False
    for case in node.cases:
        taken = takes(reader, case, subject, scope)
        if taken is not False:
            bind(reader, case.pattern, subject, scope)
            ways.append((case.body, Condition(location, depth)))
        if taken:
            is_settled = True
            break
    # The only case that can match is certain to, so its body runs without a condition.
    if is_settled and len(ways) == 1:
        return dispatch.execute_block(reader, ways[0][0], scope)
    if not is_settled:
        # No case need match: the statement is then skipped, and that is one of the branches.
        ways.append(([], Condition(location, depth)))
    return branches.execute_branches(reader, ways, scope)


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
    for node in ast.walk(pattern):
        if isinstance(node, ast.MatchAs | ast.MatchStar) and node.name:
            scope.bind(node.name, UNKNOWN)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            scope.bind(node.rest, UNKNOWN)


def _items(patterns: list[ast.pattern], subject: Value) -> list[Value] | None:
    """The items of the subject, one for each pattern; None where that is not certain."""
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
    """Whether a case is certainly taken, or certainly not; None where neither is certain."""
    fits = matches(reader, case.pattern, subject, scope)
    if fits is False or case.guard is None:
        return fits
    bind(reader, case.pattern, subject, scope)
    holds = operations.truth(dispatch.evaluate(reader, case.guard, scope))
    return holds if fits or holds is False else None


def matches(reader: Reader, pattern: ast.pattern, subject: Value, scope: Scope) -> bool | None:
    """Whether a pattern certainly matches, or certainly does not; None where neither is certain."""
    match pattern:
        case ast.MatchAs(pattern=None):
            return True
        case ast.MatchAs(pattern=ast.pattern() as inner):
            return matches(reader, inner, subject, scope)
        case ast.MatchValue(value=value):
            wanted = dispatch.evaluate(reader, value, scope)
            return operations.truth(_equal(reader, subject, wanted, value))
        case ast.MatchSingleton(value=wanted):
            is_known = isinstance(subject, Constant) and not subject.is_default
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
