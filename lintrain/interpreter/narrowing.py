"""What a test leaves of a value on each side: in `if args.model == "bert":` the option is "bert"."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from dataclasses import field

from lintrain.interpreter.core import dispatch, operations
from lintrain.interpreter.core.reader import Narrowed, Reader
from lintrain.interpreter.core.scope import Changes, Scope
from lintrain.pipeline.values.python import UNKNOWN, Constant, Either, OneOf, Unknown, Value, join
from lintrain.source.nodes import unparse, walk
from lintrain.startup.lazy_dataclass import dataclass

Subject = ast.Name | ast.Attribute | ast.Subscript

PLAIN_TESTS = (
    *(ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Tuple, ast.List, ast.Set, ast.Call),
    *(ast.Compare, ast.BoolOp, ast.UnaryOp, ast.boolop, ast.unaryop, ast.cmpop, ast.expr_context),
)
"""What a test is made of that does nothing but ask; of calls only `isinstance`."""

FALSE = tuple(ast.Constant(value) for value in (None, "", 0))
"""What a value is not where it counts as true; for a switch both values are in the text anyway."""


@dataclass(frozen=True, slots=True)
class Fact:
    """What holds of a name, attribute or entry on one side: it `is_one` of these literals, or it is none of them."""

    subject: Subject
    literals: tuple[ast.Constant, ...]
    is_one: bool


Facts = tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Side:
    """What one side of a test starts with: names, and values by their identity."""

    names: Changes = field(default_factory=dict[str, "Value | None"])
    values: Narrowed = field(default_factory=dict[int, "tuple[Value, Value]"])


NOTHING = Side()


def sides(reader: Reader, test: ast.expr, scope: Scope) -> tuple[Side, Side]:
    """What a test leaves where it holds, and where it does not."""
    then, other = reader.once(_facts, test)
    left = _left(reader, then, scope), _left(reader, other, scope)
    chosen = _chosen(reader, test, scope, reader.once(_subjects, test))
    first, second = (Side(each.names, {**values, **each.values}) for each, values in zip(chosen, left, strict=True))
    return first, second


def evaluate_sides(reader: Reader, node: ast.IfExp, scope: Scope) -> list[Value]:
    """What each side of `a if test else b` gives."""
    values: list[Value] = []
    for part, side in zip((node.body, node.orelse), sides(reader, node.test, scope), strict=True):
        start = len(scope.journal)
        scope.apply(side.names)
        with reader.tested(side.values):
            values.append(dispatch.evaluate(reader, part, scope))
        if side.names:
            reader.undo(scope, start)
    return values


def side_of_case(reader: Reader, node: ast.Match, case: ast.match_case, scope: Scope) -> Side:
    """What the pattern of a `case` leaves of the subject, where it is made of literals."""
    literals = reader.once(_literals_of_pattern, case.pattern)
    if not literals or not _is_subject(node.subject) or not isinstance(node.subject, Subject):
        return NOTHING
    return Side(values=_left(reader, (Fact(node.subject, literals, is_one=True),), scope))


def _left(reader: Reader, facts: Facts, scope: Scope) -> Narrowed:
    held: Narrowed = {}
    for fact in facts:
        value = dispatch.evaluate(reader, fact.subject, scope)
        left = _value_left(reader, value, fact)
        if left is not None and value is not UNKNOWN:
            held[id(value)] = value, left
    return held


def _value_left(reader: Reader, value: Value, fact: Fact) -> Value | None:
    """What a fact leaves of a value; None if the value stays what it is."""
    match value:
        case Constant(default=None):
            return None
        case Constant():
            # A default that passes the test is still the likeliest of several values.
            may_be = any(_is_equal(value, literal) for literal in fact.literals) == fact.is_one
            if not may_be:
                return _one_of(reader, fact.literals) if fact.is_one else dispatch.child(reader, value, "given")
            return _one_of(reader, fact.literals) if fact.is_one and len(fact.literals) == 1 else None
        case Unknown() if type(value) in {Unknown, OneOf} and fact.is_one:
            # Numbers stay unknown things: a count of steps that is compared with 10 is no constant.
            are_texts = all(isinstance(literal.value, str) for literal in fact.literals)
            return _one_of(reader, fact.literals) if are_texts else None
        case _:
            return None


def _one_of(reader: Reader, literals: Sequence[ast.Constant]) -> Value:
    held = ((literal.value, literal) for literal in literals)
    return join(Constant(value, origin=reader.source.location(each)) for value, each in held if value is not ...)


def _is_equal(value: Constant, literal: ast.Constant) -> bool:
    return value.value == literal.value and isinstance(value.value, bool) == isinstance(literal.value, bool)


def _chosen(reader: Reader, test: ast.expr, scope: Scope, subjects: Sequence[Subject]) -> tuple[Side, Side]:
    """What a test leaves of the only value in it that may be one of several."""
    several = [(subject, value) for subject in subjects if isinstance(value := _held(reader, subject, scope), Either)]
    if len(several) != 1:
        return NOTHING, NOTHING
    ((subject, value),) = several
    truths = [(option, _truth_with(reader, test, scope, (subject, value), option)) for option in value.options]
    then = [option for option, truth in truths if truth is not False]
    other = [option for option, truth in truths if truth is not True]
    if len(then) == len(other) == len(truths) or not then or not other:
        return NOTHING, NOTHING
    return _side(subject, value, join(then)), _side(subject, value, join(other))


def _held(reader: Reader, subject: Subject, scope: Scope) -> Value | None:
    """What a subject holds; None for a name of an outer scope, and for a part of what may be one of several things."""
    if isinstance(subject, ast.Name):
        return scope.names.get(subject.id)
    if isinstance(dispatch.evaluate(reader, subject.value, scope), Either):
        return None
    return dispatch.evaluate(reader, subject, scope)


def _side(subject: Subject, value: Value, left: Value) -> Side:
    return Side({subject.id: left}) if isinstance(subject, ast.Name) else Side(values={id(value): (value, left)})


def _truth_with(
    reader: Reader, test: ast.expr, scope: Scope, held: tuple[Subject, Value], option: Value
) -> bool | None:
    """Whether a test holds where a value that may be one of several is one of them."""
    start, one = len(scope.journal), _side(*held, option)
    scope.apply(one.names)
    with reader.tested(one.values):
        truth = operations.truth(dispatch.evaluate(reader, test, scope))
    reader.undo(scope, start)
    return truth


def _subjects(test: ast.expr) -> tuple[Subject, ...]:
    """The names, attributes and entries in a test that may be evaluated again without any effect; else empty."""
    nodes = list(walk(test))
    if any(not isinstance(node, PLAIN_TESTS) for node in nodes):
        return ()
    if any(isinstance(node, ast.Call) and not _asks_for_kind(node) for node in nodes):
        return ()
    found = {unparse(node): node for node in nodes if isinstance(node, Subject) and _is_subject(node)}
    return tuple(found.values())


def _asks_for_kind(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Name) and call.func.id == "isinstance"


def _is_subject(node: ast.expr) -> bool:
    """Whether a node reads a name, or attributes and entries with literal keys below one."""
    match node:
        case ast.Name():
            return True
        case ast.Attribute(value=owner) | ast.Subscript(value=owner, slice=ast.Constant()):
            return _is_subject(owner)
        case _:
            return False


def _facts(test: ast.expr) -> tuple[Facts, Facts]:
    """What is certain of subjects where a test holds, and where it does not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            then, other = _facts(inner)
            return other, then
        case ast.BoolOp(op=ast.And(), values=parts):
            return _all(_facts(part)[0] for part in parts), ()
        case ast.BoolOp(values=parts):
            each = [_facts(part) for part in parts]
            return _any(then for then, _ in each), _all(other for _, other in each)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            return _compared(left, operator, right)
        case ast.Name() | ast.Attribute() | ast.Subscript() if _is_subject(test):
            return (Fact(test, FALSE, is_one=False),), ()
        case _:
            return (), ()


def _compared(left: ast.expr, operator: ast.cmpop, right: ast.expr) -> tuple[Facts, Facts]:
    if isinstance(left, ast.Constant) and not isinstance(operator, ast.In | ast.NotIn):
        left, right = right, left
    literals = _literals(right) if isinstance(operator, ast.In | ast.NotIn) else _literal(right)
    if not literals or not isinstance(left, Subject) or not _is_subject(left):
        return (), ()
    one, none = (Fact(left, literals, is_one=True),), (Fact(left, literals, is_one=False),)
    match operator:
        case ast.Eq() | ast.Is() | ast.In():
            return one, none
        case ast.NotEq() | ast.IsNot() | ast.NotIn():
            return none, one
        case _:
            return (), ()


def _literal(node: ast.expr) -> tuple[ast.Constant, ...]:
    return (node,) if isinstance(node, ast.Constant) else ()


def _literals(node: ast.expr) -> tuple[ast.Constant, ...]:
    """The items of a display of literals; empty for any other container."""
    items = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else []
    found = tuple(item for item in items if isinstance(item, ast.Constant))
    return found if len(found) == len(items) else ()


def _literals_of_pattern(pattern: ast.pattern) -> tuple[ast.Constant, ...]:
    """The literals of which a `case` needs one; empty for any other pattern."""
    match pattern:
        case ast.MatchValue(value=ast.Constant() as literal):
            return (literal,)
        case ast.MatchOr(patterns=parts):
            found = [_literals_of_pattern(part) for part in parts]
            return tuple(literal for each in found for literal in each) if all(found) else ()
        case _:
            return ()


def _all(parts: Iterable[Facts]) -> Facts:
    return tuple(fact for part in parts for fact in part)


def _any(parts: Iterable[Facts]) -> Facts:
    """What holds where one of several tests does: `x == "a" or x == "b"`."""
    facts = [part[0] if len(part) == 1 and part[0].is_one else None for part in parts]
    known = [fact for fact in facts if fact is not None]
    if len(known) < len(facts) or len({unparse(fact.subject) for fact in known}) != 1:
        return ()
    return (Fact(known[0].subject, tuple(literal for fact in known for literal in fact.literals), is_one=True),)
