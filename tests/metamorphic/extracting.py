"""A run of statements as a function that is called at once."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.metamorphic.script import (
    SCOPES,
    TELLING,
    Function,
    Line,
    Script,
    bound_names,
    names_in,
    own_nodes,
    parameters_of,
    read_names,
)

NAME = "extracted_part"
LONGEST = 4
"""So many statements are taken out at most."""

STAYS = (
    ast.Return
    | ast.Yield
    | ast.YieldFrom
    | ast.Await
    | ast.Global
    | ast.Nonlocal
    | ast.Delete
    | ast.AsyncFor
    | ast.AsyncWith
)
KNOWS_ITS_PLACE = {"super", "locals", "globals", "vars", "exec", "eval", "dir", "__class__"}


@dataclass(frozen=True, slots=True)
class Run:
    """Neighbouring statements, and the function around them; None for the top level."""

    statements: Sequence[ast.stmt]
    around: Function | None


def extract_function(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with one run of statements taken out: the longest that holds a line of the focus, or else any."""
    runs = sorted(_runs(script), key=lambda run: (not _holds(script, run, focus), -len(run.statements)))
    for run in runs:
        made = _extracted(script, run)
        if made:
            return made
    return None


def _holds(script: Script, run: Run, focus: frozenset[int]) -> bool:
    first, last = run.statements[0].lineno, run.statements[-1].end_lineno or 0
    return any(line.origin in focus for line in script.cut(first, last))


def _runs(script: Script) -> Iterator[Run]:
    """Every run of at most so many statements, in the order of the text."""
    for block, around in _blocks(script.tree, None):
        for start in range(len(block)):
            for end in range(start + 1, min(start + LONGEST, len(block)) + 1):
                yield Run(block[start:end], around)


def _blocks(node: ast.AST, around: Function | None) -> Iterator[tuple[list[ast.stmt], Function | None]]:
    """Every block that may be taken apart, and the function around it: none of a class, of a function in a function,
    or of one whose name tells what it does.
    """
    for name in ("body", "orelse", "finalbody"):
        block = getattr(node, name, None)
        if isinstance(block, list) and not isinstance(node, ast.ClassDef):
            yield block, around
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            if around is None and not TELLING.search(child.name):
                yield from _blocks(child, child)
        elif isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _blocks(child, around)


def _extracted(script: Script, run: Run) -> Script | None:
    """The script with this run taken out; None where it has to stay."""
    if not all(_may_move(script, each) for each in run.statements) or _leaves_a_loop(run.statements):
        return None
    scope = run.around.body if run.around else script.tree.body
    earlier = _bound_before(script, run, scope)
    bound, used = bound_names(run.statements), read_names(run.statements)
    if run.around and (used & bound_names(scope)) - earlier - bound:
        return None
    given = sorted((bound | used) & earlier)
    back = sorted(bound & _read_elsewhere(script, run))
    if any(name not in earlier and not _binds_surely(run.statements, name) for name in back):
        return None
    if run.around is None and bound & _read_by_definitions(script, run):
        return None
    return _written(script, run, given, back)


def _may_move(script: Script, statement: ast.stmt) -> bool:
    is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if is_docstring or isinstance(statement, SCOPES | ast.Import | ast.ImportFrom) or not script.fills_lines(statement):
        return False
    return not any(
        isinstance(node, STAYS) or (isinstance(node, ast.Name) and node.id in KNOWS_ITS_PLACE)
        for node in own_nodes([statement])
    )


def _leaves_a_loop(statements: Sequence[ast.AST]) -> bool:
    """Whether a `break` or `continue` in them is about a loop around them."""
    for node in statements:
        if isinstance(node, ast.Break | ast.Continue):
            return True
        if isinstance(node, ast.For | ast.While):
            if _leaves_a_loop(node.orelse):
                return True
        elif not isinstance(node, SCOPES) and _leaves_a_loop(list(ast.iter_child_nodes(node))):
            return True
    return False


def _bound_before(script: Script, run: Run, scope: Sequence[ast.stmt]) -> set[str]:
    """The variables that the run can be given: those that the scope binds above it."""
    first = run.statements[0].lineno
    if run.around:
        return bound_names(scope, above=first) | set(parameters_of(run.around))
    stored = (node for node in own_nodes(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    return {node.id for node in stored if node.lineno < first}


def _read_elsewhere(script: Script, run: Run) -> set[str]:
    """The names that anything but the run uses."""
    inside = {inner for each in run.statements for inner in ast.walk(each)}
    return {node.id for node in ast.walk(script.tree) if isinstance(node, ast.Name) and node not in inside}


def _read_by_definitions(script: Script, run: Run) -> set[str]:
    """The names that functions and classes outside of the run read: they would no longer see what it binds in time."""
    inside = {inner for each in run.statements for inner in ast.walk(each)}
    return names_in(node for node in ast.walk(script.tree) if isinstance(node, SCOPES) and node not in inside)


def _binds_surely(statements: Sequence[ast.stmt], name: str) -> bool:
    """Whether the name is bound whenever the statements have run, loops taken to go round once."""
    for statement in statements:
        match statement:
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr():
                if name in bound_names([statement]):
                    return True
            case ast.For(target=target, body=body):
                if name in bound_names([target]) or _binds_surely(body, name):
                    return True
            case ast.With(items=items, body=body):
                if name in bound_names(items) or _binds_surely(body, name):
                    return True
            case _:
                pass
    return False


def _written(script: Script, run: Run, given: Sequence[str], back: Sequence[str]) -> Script:
    first, last = script.span(run.statements[0])[0], run.statements[-1].end_lineno or 0
    top = next(one for one in script.tree.body if script.span(one)[0] <= first <= (one.end_lineno or 0))
    returned = [Line(f"    return {', '.join(back)}")] if back else []
    function = [
        Line(f"def {NAME}({', '.join(given)}):"),
        *script.indented(first, last, 4),
        *returned,
        Line(""),
        Line(""),
    ]
    margin = " " * run.statements[0].col_offset
    call = Line(f"{margin}{', '.join(back)}{' = ' if back else ''}{NAME}({', '.join(given)})")
    above = script.span(top)[0]
    if above == first:
        return script.with_lines({(first, last): [*function, call]})
    return script.with_lines({(above, above - 1): function, (first, last): [call]})
