"""A function that is called once, written where it is called."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.metamorphic.renaming import renamed
from tests.metamorphic.script import (
    BUILTINS,
    SCOPES,
    TELLING,
    Function,
    Line,
    Script,
    bound_names,
    own_nodes,
    parameters_of,
)

STAYS = ast.Yield | ast.YieldFrom | ast.Await | ast.Global | ast.Nonlocal
GIVEN = "given_back"
KNOWS_ITS_PLACE = {"super", "locals", "globals", "vars", "exec", "eval"}


@dataclass(frozen=True, slots=True)
class Single:
    """A function of the top level, one call of it, the statement around that, and the function around this."""

    function: ast.FunctionDef
    call: ast.Call
    statement: ast.stmt
    around: Function | None
    is_only: bool
    """Whether nothing else uses the function, so that it can go."""


def inline_function(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with one call replaced by what it calls: a function that holds a line of the focus, or else any.

    A function with other calls stays, and is left alone where it holds such a line: its copy would hold that too.
    """
    found = [one for one in _singles(script) if one.is_only or not _holds(script, one, focus)]
    if not script.is_entry:
        return None
    for single in sorted(found, key=lambda one: (not _holds(script, one, focus), not one.is_only)):
        made = _with_own_names(script, single)
        return _written(made, next(one for one in _singles(made) if _is_same(one, single)))
    return None


def _holds(script: Script, single: Single, focus: frozenset[int]) -> bool:
    return any(line.origin in focus for line in script.cut(*script.span(single.function)))


def _is_same(one: Single, other: Single) -> bool:
    return (one.call.lineno, one.function.name) == (other.call.lineno, other.function.name)


def _singles(script: Script) -> Iterator[Single]:
    """Every call of a function of the top level that can be inlined."""
    uses = Counter(node.id for node in ast.walk(script.tree) if isinstance(node, ast.Name))
    functions = {one.name: one for one in script.tree.body if isinstance(one, ast.FunctionDef) and _may_move(one)}
    for statement, around in _statements(script.tree, None):
        call = _first_call(statement)
        if call and isinstance(call.func, ast.Name) and call.func.id in functions:
            function = functions[call.func.id]
            if function is not around and _fits(script, function, call, statement):
                yield Single(function, call, statement, around, uses[function.name] == 1)


def _statements(node: ast.AST, around: Function | None) -> Iterator[tuple[ast.stmt, Function | None]]:
    """Every statement, outside of classes and of functions in functions, with the function around it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            if around is None:
                yield from _statements(child, child)
        elif isinstance(child, ast.stmt | ast.ExceptHandler) and not isinstance(child, ast.ClassDef):
            if isinstance(child, ast.stmt):
                yield child, around
            yield from _statements(child, around)


def _first_call(statement: ast.stmt) -> ast.Call | None:
    """The call that a statement makes first, before anything else that it does."""
    if not isinstance(statement, ast.Assign | ast.Expr | ast.Return | ast.For) or statement.col_offset < 0:
        return None
    value: ast.expr | None = statement.iter if isinstance(statement, ast.For) else statement.value
    first: ast.Call | None = None
    while isinstance(value, ast.Call):
        first, value = value, value.args[0] if value.args else None
        if isinstance(first.func, ast.Attribute) and any(isinstance(node, ast.Call) for node in ast.walk(first.func)):
            return None
    return first


def _may_move(function: ast.FunctionDef) -> bool:
    """Whether a function is a run of statements that ends with the only `return`."""
    args = function.args
    if TELLING.search(function.name) or function.decorator_list or args.vararg or args.kwarg or args.posonlyargs:
        return False
    for node in own_nodes(function.body):
        if isinstance(node, STAYS) or (isinstance(node, ast.Return) and node is not function.body[-1]):
            return False
        if isinstance(node, ast.Name) and node.id in KNOWS_ITS_PLACE:
            return False
    own = bound_names(function.body) | set(parameters_of(function))
    return not own & BUILTINS and not any(
        isinstance(node, ast.Import | ast.ImportFrom) for node in own_nodes(function.body)
    )


def _fits(script: Script, function: ast.FunctionDef, call: ast.Call, statement: ast.stmt) -> bool:
    """Whether the call gives every parameter a value, and lies so that what it gives can be computed a line above."""
    if any(isinstance(argument, ast.Starred) for argument in call.args) or _arguments(function, call) is None:
        return False
    is_whole = isinstance(statement, ast.Assign | ast.Expr) and statement.value is call
    if is_whole and isinstance(statement, ast.Expr):
        return script.fills_lines(statement)
    returns = isinstance(function.body[-1], ast.Return) and function.body[-1].value is not None
    starts_line = not script.lines[statement.lineno - 1].text[: statement.col_offset].strip()
    return returns and starts_line and call.lineno == call.end_lineno and script.lines[call.lineno - 1].text.isascii()


def _arguments(function: ast.FunctionDef, call: ast.Call) -> dict[str, ast.expr] | None:
    names = [one.arg for one in [*function.args.args, *function.args.kwonlyargs]]
    given = dict(zip(names, call.args, strict=False))
    given |= {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    defaults = function.args.defaults
    named = [one.arg for one in function.args.args]
    missing = dict(zip(named[len(named) - len(defaults) :], defaults, strict=True))
    missing |= {
        one.arg: value for one, value in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if value
    }
    filled = {**missing, **given}
    return {name: filled[name] for name in names} if set(filled) == set(names) else None


def _with_own_names(script: Script, single: Single) -> Script:
    """The script with those variables of the function renamed that would meet others where it is called."""
    own = bound_names(single.function.body) | set(parameters_of(single.function))
    scope = single.around.body if single.around else script.tree.body
    met = {node.id for node in own_nodes(scope) if isinstance(node, ast.Name)} | bound_names(script.tree.body)
    met |= set(parameters_of(single.around)) if single.around else set[str]()
    given = _arguments(single.function, single.call) or {}
    rebound = bound_names(single.function.body)
    same = {name for name, value in given.items() if isinstance(value, ast.Name) and value.id == name} - rebound
    inner = [node for node in ast.walk(single.function) if isinstance(node, SCOPES) and node is not single.function]
    definitions = {getattr(node, "name", "") for node in inner}
    return renamed(script, {name: f"inlined_{name}" for name in own & met - same - definitions}, single.function)


def _written(script: Script, single: Single) -> Script:
    function, statement, call = single.function, single.statement, single.call
    margin = " " * statement.col_offset
    bindings = [
        Line(f"{margin}{name} = {ast.unparse(value)}", script.lines[value.lineno - 1].origin)
        for name, value in (_arguments(function, call) or {}).items()
        if not (isinstance(value, ast.Name) and value.id == name)
    ]
    body = script.indented(function.body[0].lineno, function.end_lineno or 0, len(margin))
    is_lonely = isinstance(statement, ast.Expr) and statement.value is call
    returned = function.body[-1]
    if isinstance(returned, ast.Return):
        at = returned.lineno - function.body[0].lineno
        target = "" if is_lonely else f"{GIVEN} = "
        body[at] = Line(
            f"{margin}{target}{body[at].text.strip().removeprefix('return').strip() or 'pass'}", body[at].origin
        )
    first, last = script.span(function)
    gone: dict[tuple[int, int], Sequence[Line]] = {(first, last): []} if single.is_only else {}
    if is_lonely:
        return script.with_lines({**gone, (statement.lineno, statement.end_lineno or 0): [*bindings, *body]})
    line = script.lines[call.lineno - 1]
    using = Line(line.text[: call.col_offset] + GIVEN + line.text[call.end_col_offset :], line.origin)
    above = statement.lineno, statement.lineno - 1
    if call.lineno == statement.lineno:
        return script.with_lines({**gone, (call.lineno, call.lineno): [*bindings, *body, using]})
    return script.with_lines({**gone, above: [*bindings, *body], (call.lineno, call.lineno): [using]})
