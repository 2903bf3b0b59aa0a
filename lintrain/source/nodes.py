"""Nodes of a syntax tree, found faster than by `ast.walk`, and the call at a location that a run of the script gave."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from lintrain.model.location import Location
from lintrain.source.parsing import expression_of

if TYPE_CHECKING:
    from lintrain.model.finding import Finding

PLAIN = frozenset(
    {
        *("arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "module"),
        *("rest", "simple", "str", "tag", "type_comment"),
    }
)
"""Fields that hold a word or a number, or (`ctx`) a mark that belongs to the node."""

NAMES = frozenset({"Global", "Nonlocal"})
"""Nodes whose `names` are words; those of an import are nodes."""

VALUES = frozenset({"Constant", "MatchSingleton"})
"""Nodes whose `value` is a constant itself."""

GAPS = frozenset({"keys", "kw_defaults"})
"""Fields that hold None where `**` has no key, or a parameter no default."""

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields that hold statements, or the parts of a statement that do."""

WITH_BLOCKS = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.For, ast.AsyncFor, ast.While, ast.If, ast.With),
    *(ast.AsyncWith, ast.Try, ast.TryStar, ast.ExceptHandler, ast.Match, ast.match_case),
)
"""The kinds of nodes that have such a field, without the module."""


class _Fields(dict[type, tuple[str, ...]]):
    """The fields of each kind of node that hold nodes: asked about at every node, so that a look-up must do."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        name = kind.__name__
        plain = {*PLAIN, *(("name",) if name != "TypeAlias" else ())}
        plain |= ({"names"} if name in NAMES else set()) | ({"value"} if name in VALUES else set())
        self[kind] = tuple(field for field in kind._fields if field not in plain)
        return self[kind]


FIELDS = _Fields()


KEPT = frozenset(WITH_BLOCKS)
"""The kinds of nodes that remember what is below them: many rules ask it of the same functions, classes and loops."""

BELOW, OWN, CODE, AT, ASKED, NAMED, ORDERED = "_below", "_own", "_code", "_at", "_asked", "_named", "_ordered"
"""Where a node remembers its nodes, those of its scope, its code, its location, answers about it, its names, and its
statements.

Nothing that runs after the parser changes a tree. Over trl, 0.6 s of 6.2 s of CPU. A server keeps the statements that
an edit leaves (`LatestTree`), and so all of this: 12 ms of 80 for each keystroke. No answer holds its node: a tree has
no circle."""


def walk(tree: ast.AST) -> list[ast.AST]:
    """A tree's nodes, outer ones first, in the order of `ast.walk`; without the contexts `Load`, `Store` and `Del`."""
    if tree.__class__ in KEPT:
        return [tree, *_below(tree)[0]]
    return _walked_file(tree) if isinstance(tree, ast.Module) else _walked(tree, [])


def _walked_file(tree: ast.Module) -> list[ast.AST]:
    """The nodes of a file, level by level, from those that each statement keeps: an edit leaves most statements."""
    found: list[ast.AST] = [tree, *tree.body]
    pending, depth = [_below(each) for each in tree.body], 0
    while pending := [each for each in pending if len(each[1]) > depth + 1]:
        for nodes, ends in pending:
            found.extend(nodes[ends[depth] : ends[depth + 1]])
        depth += 1
    return found


def _below(tree: ast.AST) -> tuple[list[ast.AST], list[int]]:
    """The nodes below one, without the node itself, so that a tree has no circle; and where each level of them ends."""
    kept = tree.__dict__
    if BELOW not in kept:
        ends: list[int] = []
        kept[BELOW] = _walked(tree, ends)[1:], [each - 1 for each in ends]
    return cast("tuple[list[ast.AST], list[int]]", kept[BELOW])


def _walked(tree: ast.AST, ends: list[int]) -> list[ast.AST]:
    """The nodes of a tree, and at which of them each level ends."""
    found, start = [tree], 0
    while start < (end := len(found)):
        ends.append(end)
        for node in found[start:end]:
            # As `children(node)`, whose call would cost half of it: every node of every file comes here.
            for field in FIELDS[type(node)]:
                value: Any = getattr(node, field, None)  # Any: a node, a list of them, or None
                if value.__class__ is list:
                    found.extend([each for each in value if each is not None] if field in GAPS else value)
                elif value is not None:
                    found.append(value)
        start = end
    return found


def named(tree: ast.AST) -> Mapping[str, list[ast.Name | ast.Attribute]]:
    """The names and attributes below a statement, function or class by what they are called, in the order of `walk`."""
    kept = tree.__dict__
    if NAMED not in kept:
        found: dict[str, list[ast.Name | ast.Attribute]] = {}
        for node in _below(tree)[0]:
            if isinstance(node, ast.Name):
                found.setdefault(node.id, []).append(node)
            elif isinstance(node, ast.Attribute):
                found.setdefault(node.attr, []).append(node)
        kept[NAMED] = found
    return cast("Mapping[str, list[ast.Name | ast.Attribute]]", kept[NAMED])


def is_within(lines: Sequence[int], node: ast.stmt, after: int = 0) -> bool:
    """Whether a statement has one of these lines, which are in order, so many lines after its first at least."""
    at = bisect_left(lines, node.lineno + after)
    return at < len(lines) and lines[at] <= (node.end_lineno or node.lineno)


def children(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, in the order of `ast.iter_child_nodes`; without the contexts."""
    found: list[ast.AST] = []
    for field in FIELDS[type(node)]:
        value: Any = getattr(node, field, None)  # Any: a node, a list of them, or None
        if value.__class__ is list:
            found.extend([each for each in value if each is not None] if field in GAPS else value)
        elif value is not None:
            found.append(value)
    return found


NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def own_nodes(scope: ast.AST) -> Sequence[ast.AST]:
    """The nodes of a scope in the order of the code, without functions and classes inside it."""
    kept = scope.__dict__
    if OWN in kept:
        return cast("Sequence[ast.AST]", kept[OWN])
    found: list[ast.AST] = []
    pending = children(scope)[::-1]
    while pending:
        node = pending.pop()
        if not isinstance(node, NESTED):
            found.append(node)
            pending.extend(reversed(children(node)))
    kept[OWN] = found
    return found


ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)
"""What needs no brackets before a dot, a call or an index."""


def unparse(node: ast.AST) -> str:
    """The code of a node as `ast.unparse` writes it, which takes 10 us for a name; written once for each node."""
    if isinstance(node, ast.Name):
        return node.id
    kept = node.__dict__
    if CODE not in kept:
        kept[CODE] = _written(node)
    return cast("str", kept[CODE])


def _written(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=value, attr=attr) if isinstance(value, ATOMS):
            return f"{unparse(value)}.{attr}"
        case ast.Call(func=func, args=args, keywords=keywords) if isinstance(func, ATOMS):
            return f"{unparse(func)}({', '.join([*map(unparse, args), *map(unparse, keywords)])})"
        case ast.keyword(arg=arg, value=value):
            return f"**{unparse(value)}" if arg is None else f"{arg}={unparse(value)}"
        case ast.Subscript(value=value, slice=part) if isinstance(value, ATOMS) and not isinstance(part, ast.Tuple):
            return f"{unparse(value)}[{unparse(part)}]"
        case ast.Constant(value=None | bool() | int() | str() as constant, kind=None):
            return repr(constant)
        case _:
            return ast.unparse(node)


def statements(body: Iterable[ast.AST]) -> Iterator[ast.stmt]:
    """Every statement of a block, however deep, in no certain order; expressions are not gone into."""
    pending = list(body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        for block in BLOCKS:
            inner: object = getattr(node, block, None)  # a lambda's or conditional expression's body is no list
            if isinstance(inner, list):
                pending.extend(cast("list[ast.AST]", inner))


IN_ORDER = ("body", "handlers", "orelse", "finalbody", "cases")
"""The same fields in the order in which code has them."""


def ordered_statements(tree: ast.Module) -> list[tuple[ast.stmt, int]]:
    """The statements of a file in the order of the code, each with the number of the one around it; -1 for none."""
    found: list[tuple[ast.stmt, int]] = []
    for statement in tree.body:
        number = len(found)
        found.append((statement, -1))
        found.extend((each, number + 1 + around) for each, around in ordered_below(statement))
    return found


def ordered_below(statement: ast.stmt) -> list[tuple[ast.stmt, int]]:
    """The same of the statements below one, without it; -1 for those that it is right around."""
    kept = statement.__dict__
    if ORDERED not in kept:
        kept[ORDERED] = _ordered_below(statement) if statement.__class__ in KEPT else []
    return cast("list[tuple[ast.stmt, int]]", kept[ORDERED])


def _ordered_below(statement: ast.stmt) -> list[tuple[ast.stmt, int]]:
    found: list[tuple[ast.stmt, int]] = []
    pending = [(each, -1) for each in reversed(_blocks_of(statement))]
    while pending:
        node, around = pending.pop()
        if isinstance(node, ast.stmt):
            found.append((node, around))
            around = len(found) - 1
        if node.__class__ in KEPT:
            pending.extend([(each, around) for each in reversed(_blocks_of(node))])
    return found


def _blocks_of(node: ast.AST) -> list[ast.AST]:
    """What is in the blocks of a node, in the order of the code."""
    return [each for block in IN_ORDER for each in getattr(node, block, ())]


def callee_in(finding: Finding) -> tuple[Location, str] | None:
    """Location and code of the callee of that call; None if the text is not known, or contains no such call."""
    call = _call_of(finding)
    return _located(finding, call.func) if call else None


def argument_in(finding: Finding, position: int, name: str) -> tuple[Location, str] | None:
    """The same for an argument that is passed by name, otherwise by position."""
    call = _call_of(finding)
    if call is None or any(isinstance(each, ast.Starred) for each in call.args):
        return None
    named = next((each.value for each in call.keywords if each.arg == name), None)
    given = named or (call.args[position] if position < len(call.args) else None)
    return _located(finding, given) if given else None


def _call_of(finding: Finding) -> ast.Call | None:
    try:
        call = expression_of(finding.code) if finding.code else None
    except (SyntaxError, ValueError):
        return None
    return call if isinstance(call, ast.Call) else None


def _located(finding: Finding, node: ast.expr) -> tuple[Location, str]:
    """Location and code of a part of the call."""
    code = finding.code
    lines, at = code.split("\n"), finding.location
    end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
    start, end = _column(lines, at, node.lineno, node.col_offset), _column(lines, at, end_line, end_offset)
    location = Location(at.path, at.line + node.lineno - 1, start, at.line + end_line - 1, end)
    return location, ast.get_source_segment(code, node) or ""


def _column(lines: list[str], at: Location, line: int, offset: int) -> int:
    """The column in the file, in characters from 1, of an offset in bytes on a line of the call."""
    characters = len(lines[line - 1].encode()[:offset].decode(errors="replace"))
    return characters + (at.column if line == 1 else 1)


def whole_number(node: ast.expr) -> int | None:
    """The whole number that code is: `2`, `-1`."""
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
        case _:
            return None
