"""What never runs or does nothing, and cells of a notebook."""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import pairwise

from tests.metamorphic.script import Line, Script

UNUSED = (
    "def unused_part(first, second=2):",
    '    """What nobody calls."""',
    "    for one in first:",
    "        second = one + second",
    "    return second",
)
NEVER = ("if False:", "    never_bound = 1", "    print(never_bound)")
NOTHING = ("# a word on what follows", "pass", "")


def add_dead_code(script: Script, focus: frozenset[int]) -> Script:
    """A function that nobody calls, branches that are never taken, and statements that do nothing, throughout."""
    added: dict[int, list[Line]] = {}
    for block in script.blocks():
        for number, statement in enumerate(_after_the_opening(script, block)):
            lines = (NOTHING, NEVER, UNUSED)[number % 3] if block is script.tree.body else (NOTHING, NEVER)[number % 2]
            margin = " " * statement.col_offset
            added[script.span(statement)[0]] = [Line(f"{margin}{line}" if line else "") for line in lines]
    return script.with_lines({(first, first - 1): lines for first, lines in added.items()})


def _after_the_opening(script: Script, block: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a block above which another may stand: no docstring, `elif`, or line shared with its `if`."""
    chosen: list[ast.stmt] = []
    for number, statement in enumerate(block):
        is_docstring = number == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        starts_its_line = not script.lines[statement.lineno - 1].text[: statement.col_offset].strip()
        is_elif = script.lines[statement.lineno - 1].text[statement.col_offset :].startswith("elif")
        if starts_its_line and not (is_docstring or is_future or is_elif):
            chosen.append(statement)
    return chosen


def make_a_notebook(script: Script, focus: frozenset[int]) -> Script | None:
    """The script as a notebook, a cell for each statement of the top level."""
    return replace(script, has_cells=True) if script.is_entry else None


def cells_of(script: Script) -> list[tuple[Line, ...]]:
    """The lines of each cell; an expression shares the next one's, for what a cell ends with is displayed, not lost."""
    starts = {script.span(after)[0] for before, after in pairwise(script.tree.body) if not isinstance(before, ast.Expr)}
    bounds = [1, *sorted(starts - {1}), len(script.lines) + 1]
    return [tuple(script.cut(first, end - 1)) for first, end in pairwise(bounds)]
