"""Expressions, calls and assignments of a script: what is called, with what, and bound to which name.

Rules ask here instead of matching syntax nodes, which stay inside `Expression`.

The calls of unknown code that get a model, an optimizer or a part of one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import StrEnum

from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import shared_parts
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import Class, Function, Unknown, Value
from lintrain.source import parsing, places
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


class Kind(StrEnum):
    """What an expression is."""

    NAME = "name"
    ATTRIBUTE = "attribute"
    SUBSCRIPT = "subscript"
    CALL = "call"
    CONSTANT = "constant"
    OPERATION = "operation"
    NEGATION = "negation"
    COMPARISON = "comparison"
    DICTIONARY = "dictionary"
    LIST_COMPREHENSION = "list comprehension"
    LIST = "list"
    TUPLE = "tuple"
    SPREAD = "spread"
    OTHER = "other"


_KINDS: dict[type[ast.expr], Kind] = {
    ast.Name: Kind.NAME,
    ast.Attribute: Kind.ATTRIBUTE,
    ast.Subscript: Kind.SUBSCRIPT,
    ast.Call: Kind.CALL,
    ast.Constant: Kind.CONSTANT,
    ast.BinOp: Kind.OPERATION,
    ast.Compare: Kind.COMPARISON,
    ast.Dict: Kind.DICTIONARY,
    ast.ListComp: Kind.LIST_COMPREHENSION,
    ast.List: Kind.LIST,
    ast.Tuple: Kind.TUPLE,
    ast.Starred: Kind.SPREAD,
}

REFERENCES = frozenset({Kind.NAME, Kind.ATTRIBUTE, Kind.SUBSCRIPT, Kind.CALL})
"""Expressions that a method can be called on, and an operator applied to, without brackets."""

_OPERATORS: dict[type[ast.operator], str] = {ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
"""The arithmetic operators that a rule has asked for."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    """An expression in the code of a file."""

    _source: Source
    _node: ast.expr

    @property
    def kind(self) -> Kind:
        """What it is; a negation is `-x`, a spread `*x`."""
        if isinstance(self._node, ast.UnaryOp) and isinstance(self._node.op, ast.USub):
            return Kind.NEGATION
        return _KINDS.get(type(self._node), Kind.OTHER)

    @property
    def location(self) -> Location:
        """Where it is."""
        return self._source.location(self._node)

    @property
    def code(self) -> str:
        """Its code in one form, however it is laid out and quoted."""
        return unparse(self._node)

    @property
    def written_code(self) -> str:
        """Its code as it is in the file."""
        return self._source.code(self.location)

    @property
    def structure(self) -> str:
        """A text that is the same for expressions that differ only in layout; unlike `code` it exists for all."""
        return ast.dump(self._node)

    @property
    def name(self) -> str:
        """The name, or the last part of an attribute; empty for anything else."""
        match self._node:
            case ast.Name(id=name) | ast.Attribute(attr=name):
                return name
            case _:
                return ""

    @property
    def value(self) -> object:
        """The value of a constant; None for anything else."""
        return self._node.value if isinstance(self._node, ast.Constant) else None

    @property
    def owner(self) -> Expression | None:
        """`model.head` of the attribute `model.head.weight`; None if it is no attribute."""
        return self._part(self._node.value) if isinstance(self._node, ast.Attribute) else None

    @property
    def callee(self) -> Expression | None:
        """What a call calls; None if it is no call."""
        return self._part(self._node.func) if isinstance(self._node, ast.Call) else None

    @property
    def called_name(self) -> str:
        """`float` of the call `float(x)`, `item` of `loss.item()`; empty for anything else."""
        return self.callee.name if self.callee else ""

    @property
    def called_on(self) -> Expression | None:
        """`loss` of the call `loss.item()`, `np` of `np.argmax(x)`; None if it calls no attribute."""
        return self.callee.owner if self.callee else None

    @property
    def arguments(self) -> tuple[Expression, ...]:
        """The positional arguments of a call."""
        return tuple(map(self._part, self._node.args)) if isinstance(self._node, ast.Call) else ()

    @property
    def keywords(self) -> dict[str | None, Expression]:
        """The keyword arguments of a call by name; None stands for `**options`."""
        given = self._node.keywords if isinstance(self._node, ast.Call) else ()
        return {each.arg: self._part(each.value) for each in reversed(given)}

    @property
    def element(self) -> Expression | None:
        """`row["text"]` of the list comprehension `[row["text"] for row in rows]`; None if it is none."""
        return self._part(self._node.elt) if isinstance(self._node, ast.ListComp) else None

    @property
    def gone_through(self) -> Expression | None:
        """`rows` of the list comprehension `[row["text"] for row in rows]`; None if it leaves out or joins some."""
        match self._node:
            case ast.ListComp(generators=[ast.comprehension(iter=rows, ifs=[])]):
                return self._part(rows)
            case _:
                return None

    @property
    def entries(self) -> tuple[tuple[Expression | None, Expression], ...]:
        """The keys and values of a dictionary literal; `**other` has no key."""
        if not isinstance(self._node, ast.Dict):
            return ()
        pairs = zip(self._node.keys, self._node.values, strict=True)
        return tuple((self._part(key) if key else None, self._part(value)) for key, value in pairs)

    @property
    def items(self) -> tuple[Expression, ...]:
        """The items of a list or tuple that is written out; empty for anything else."""
        return tuple(map(self._part, self._node.elts)) if isinstance(self._node, ast.List | ast.Tuple) else ()

    @property
    def operator(self) -> str:
        """`-`, `*` or `/` of an operation with it; else empty."""
        return _OPERATORS.get(type(self._node.op), "") if isinstance(self._node, ast.BinOp) else ""

    @property
    def operands(self) -> tuple[Expression, ...]:
        """Left and right of an operation, or what a unary operator applies to."""
        match self._node:
            case ast.BinOp(left=left, right=right):
                return self._part(left), self._part(right)
            case ast.UnaryOp(operand=operand):
                return (self._part(operand),)
            case _:
                return ()

    @property
    def is_unary(self) -> bool:
        """Whether it is a unary operator with its operand: `-x`, `~x`, `not x`."""
        return isinstance(self._node, ast.UnaryOp)

    def parts_outside_indexes(self) -> Iterator[Expression]:
        """The expression and all inside it, except for the indexes of subscripts."""
        nodes = list(walk(self._node))
        indexes = [node.slice for node in nodes if isinstance(node, ast.Subscript)]
        inside = {id(node) for index in indexes for node in walk(index)}
        return (self._part(node) for node in nodes if isinstance(node, ast.expr) and id(node) not in inside)

    def _part(self, node: ast.expr) -> Expression:
        return Expression(self._source, node)


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """`first = second = value`: where it is, its targets and its value."""

    location: Location
    targets: tuple[Expression, ...]
    value: Expression

    @property
    def name(self) -> str | None:
        """The name that gets the value, if it is the only target."""
        (first, *others) = self.targets
        return first.name if first.kind is Kind.NAME and not others else None

    @property
    def code(self) -> str:
        """The statement in one form."""
        return " = ".join(each.code for each in (*self.targets, self.value))


def parsed(code: str) -> Expression:
    """The expression that a text is; raises SyntaxError if it is none. Its locations are those in the text."""
    return Expression(Source("", code), parsing.expression_of(code))


def code_of(defined: Function | Class) -> str:
    """The code of a function or class in one form, with its head."""
    return unparse(defined.node)


def call_at(pipeline: Pipeline, location: Location) -> Expression | None:
    """The call that is exactly at a location."""
    source = pipeline.source_of(location)
    call = places.call_at(source, location)
    return Expression(source, call) if call is not None else None


def only_argument(pipeline: Pipeline, location: Location) -> str:
    """The name that is the only argument of a call (`x` in `model(x)`), empty for other calls."""
    call = parsed(f"({pipeline.code(location)})")
    is_one = len(call.arguments) == 1 and not call.keywords and call.arguments[0].kind is Kind.NAME
    return call.arguments[0].name if is_one else ""


def only_argument_in(code: str, name: str) -> str | None:
    """The code of the only argument of a call, if it is passed by position or by this name; None for other code."""
    call = parsed(code)
    if call.keywords.keys() - {name}:
        return None
    given = [*call.arguments, *call.keywords.values()]
    return given[0].written_code if len(given) == 1 else None


def keywords_in(code: str) -> frozenset[str]:
    """The names of the keyword arguments of all calls in an expression, which may have several lines."""
    names = (node.arg for node in walk(parsing.expression_of(f"({code})")) if isinstance(node, ast.keyword))
    return frozenset(name for name in names if name is not None)


def keeps_name(node: ast.expr, name: str) -> bool:
    """Whether an expression is a value, a collection with it, or an object that is created with it."""
    match node:
        case ast.Tuple(elts=parts) | ast.List(elts=parts) | ast.Set(elts=parts) | ast.Dict(values=parts):
            return any(keeps_name(each, name) for each in parts)
        case ast.Call(func=ast.Name(id=callee) | ast.Attribute(attr=callee), args=given, keywords=named):
            return callee[:1].isupper() and any(
                keeps_name(each, name) for each in (*given, *(one.value for one in named))
            )
        case _:
            return isinstance(node, ast.Name) and node.id == name


def calls_in_file(source: Source) -> Iterator[Expression]:
    """All calls of a file."""
    return (Expression(source, node) for node in source.nodes_of(ast.Call))


def calls_of_method(source: Source, name: str) -> Iterator[Expression]:
    """The calls `anything.name(…)` of a file."""
    for node in source.nodes_of(ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == name:
            yield Expression(source, node)


def expressions_in(pipeline: Pipeline, function: Function) -> Iterator[Expression]:
    """All expressions in the body of a function, those inside others included."""
    source, body = function.source or pipeline.source, function.node.body
    for statement in body if isinstance(body, list) else [body]:
        yield from (Expression(source, node) for node in walk(statement) if isinstance(node, ast.expr))


def returned_by(pipeline: Pipeline, function: Function) -> list[Expression]:
    """What a function returns, without the returns of functions inside it."""
    source, node = function.source or pipeline.source, function.node
    returned = [node.body] if isinstance(node, ast.Lambda) else blocks.returned_in(node.body)
    return [Expression(source, each) for each in returned]


def assignments_in(pipeline: Pipeline, defined: Function | Class) -> Iterator[Assignment]:
    """The assignments in a function or class, those of functions inside it included."""
    of_function = defined.source if isinstance(defined, Function) else None
    source = of_function or (pipeline.source_of(defined.origin) if defined.origin else pipeline.source)
    return (_assignment(source, node) for node in walk(defined.node) if isinstance(node, ast.Assign))


def assignments_in_file(source: Source) -> Iterator[Assignment]:
    """All assignments of a file with `=`, without annotated and augmented ones."""
    return (_assignment(source, node) for node in source.nodes_of(ast.Assign))


def assignment_at(pipeline: Pipeline, location: Location) -> Assignment | None:
    """The assignment around a location, if the innermost statement is one."""
    statement = blocks.statement_at(pipeline, location)
    return _assignment(pipeline.source_of(location), statement) if isinstance(statement, ast.Assign) else None


def _assignment(source: Source, node: ast.Assign) -> Assignment:
    targets = tuple(Expression(source, target) for target in node.targets)
    return Assignment(source.location(node), targets, Expression(source, node.value))


@dataclass(frozen=True, slots=True, eq=False)
class ClassCode:
    """A class of a file: the code of its bases, and the calls in it."""

    bases: tuple[str, ...]
    calls: tuple[Expression, ...]
    calls_by_method: dict[str, tuple[Expression, ...]]


def classes_in_file(source: Source) -> Iterator[ClassCode]:
    """All classes of a file, outer ones first."""
    for node in source.nodes_of(ast.ClassDef):
        methods = [each for each in node.body if isinstance(each, ast.FunctionDef)]
        calls: dict[str, tuple[Expression, ...]] = {}
        for method in methods:
            calls[method.name] = (*calls.get(method.name, ()), *_calls_inside(source, method))
        yield ClassCode(tuple(map(unparse, node.bases)), _calls_inside(source, node), calls)


def _calls_inside(source: Source, node: ast.AST) -> tuple[Expression, ...]:
    return tuple(Expression(source, each) for each in walk(node) if isinstance(each, ast.Call))


def escapes_of(pipeline: Pipeline, followed: Value) -> list[Event]:
    """The calls of unknown code that get a known model or optimizer, or a part of it."""
    return pipeline.cached(_find_escapes, followed)


def _find_escapes(pipeline: Pipeline, followed: Value) -> list[Event]:
    modules = followed.trains if isinstance(followed, Optimizer) else (followed,)
    by_part = pipeline.cached(_escapes_by_part, None)
    wanted = {id(followed)}.union(*(touched_by(pipeline, each) for each in modules))
    found = {event.order: event for part in wanted for event in by_part.get(part, ())}
    return [found[order] for order in sorted(found)]


def _escapes_by_part(pipeline: Pipeline, _: None) -> dict[int, list[Event]]:
    """The calls of unknown code by the identity of each known value, and each of its parts, that they get."""
    found: dict[int, list[Event]] = {}
    for event in pipeline.acts(Act.ESCAPE):
        for part in touched_by(pipeline, event.subject) if not isinstance(event.subject, Unknown) else ():
            found.setdefault(part, []).append(event)
    return found


def touched_by(pipeline: Pipeline, value: Value) -> frozenset[int]:
    """The identities of a value and its shareable parts: two values touch if they have one in common."""
    return pipeline.cached(_find_touched, value)


def parts_shared(pipeline: Pipeline, values: Iterable[Value]) -> frozenset[int]:
    """The identities of these values and of their parts that other values may share."""
    return frozenset[int]().union(*(pipeline.cached(_find_parts, value) for value in values))


def do_overlap(pipeline: Pipeline, one: Value, other: Value) -> bool:
    """Whether two values share a part: `overlap` for many values, with the parts of each collected once."""
    return not pipeline.cached(_find_parts, one).isdisjoint(pipeline.cached(_find_parts, other))


def _find_parts(_: Pipeline, value: Value) -> frozenset[int]:
    return shared_parts(value)


def _find_touched(_: Pipeline, value: Value) -> frozenset[int]:
    return shared_parts(value) | {id(value)}
