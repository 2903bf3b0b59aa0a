"""Independent neighbours in the other order."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from tests.metamorphic.script import Line, Script, bound_names, own_nodes, read_names

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
RUNS = ast.Call | ast.Await | ast.Yield | ast.YieldFrom | ast.NamedExpr
"""What may do something that another statement notices."""


def reorder_statements(script: Script, focus: frozenset[int]) -> Script | None:
    """Every second pair of neighbours that have nothing to do with each other changes places."""
    replaced: dict[tuple[int, int], Sequence[Line]] = {}
    for block in script.blocks():
        index = 0
        while index + 1 < len(block):
            first, second = block[index : index + 2]
            if _are_independent(script, first, second):
                above, below = script.span(first), script.span(second)
                between = script.cut(above[1] + 1, below[0] - 1)
                replaced[above[0], below[1]] = [*script.cut(*below), *between, *script.cut(*above)]
                index += 1
            index += 1
    outer = _outermost(replaced)
    return script.with_lines(outer) if outer else None


def _outermost(replaced: dict[tuple[int, int], Sequence[Line]]) -> dict[tuple[int, int], Sequence[Line]]:
    """The stretches that lie in no other: two definitions change places rather than what stands in them."""
    return {
        stretch: lines
        for stretch, lines in replaced.items()
        if not any(one != stretch and one[0] <= stretch[0] and stretch[1] <= one[1] for one in replaced)
    }


def _are_independent(script: Script, first: ast.stmt, second: ast.stmt) -> bool:
    if not all(_is_plain(one) and script.fills_lines(one) for one in (first, second)):
        return False
    bound, also_bound = bound_names([first]), bound_names([second])
    return not (bound & also_bound or bound & _read_at_once(second) or also_bound & _read_at_once(first))


def _is_plain(statement: ast.stmt) -> bool:
    """Whether a statement only binds names: imports, definitions, and values that no call makes."""
    match statement:
        case ast.ImportFrom(module="__future__"):
            return False
        case ast.Import() | ast.ImportFrom():
            return True
        case ast.Assign(targets=targets) if not all(isinstance(target, ast.Name) for target in targets):
            return False
        case ast.Assign(value=value):
            return not any(isinstance(node, RUNS) for node in ast.walk(value))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return not any(isinstance(node, RUNS) for node in own_nodes([statement]))
        case _:
            return False


def _read_at_once(statement: ast.stmt) -> set[str]:
    """What a statement reads when it is run; the body of a function reads later."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return read_names(_run_with(statement))
    return read_names([statement])


def _run_with(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterable[ast.AST]:
    return [*function.decorator_list, function.args, *filter(None, [function.returns])]
