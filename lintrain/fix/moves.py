"""Statements that go to another place of their block."""

from __future__ import annotations

import libcst as cst

from lintrain.fix.errors import FixError
from lintrain.fix.statements import Line, before, ends_its_block, gap_and_comments, is_line, starts_cell
from lintrain.fix.step import Step
from lintrain.fix.tree import Tree
from lintrain.model.fixes import MoveAfter, MoveBefore


def move_steps(tree: Tree, edit: MoveBefore | MoveAfter) -> list[Step]:
    """A statement's removal and its return elsewhere, or none where it stands there already.

    Raises FixError where one of the two statements shares its line with others, or they lie in different blocks.
    """
    moved, target = (_whole_line(tree, tree.statement_holding(location)) for location in (edit.location, edit.target))
    if not is_line(moved) or not is_line(target) or tree.parents[moved] is not tree.parents[target]:
        raise FixError(f"{edit.location}: only a statement with lines of its own can be moved, within its block")
    block = tree.parents[moved]
    assert isinstance(block, cst.Module | cst.IndentedBlock)
    body = list(block.body)
    distance = body.index(moved) - body.index(target)
    if distance in ((0, -1) if isinstance(edit, MoveBefore) else (0, 1)):
        return []
    if any(map(starts_cell, gap_and_comments(moved)[0])):
        raise FixError(f"{edit.location}: the first statement of a cell cannot leave it")
    if isinstance(edit, MoveAfter) and ends_its_block(target):
        raise FixError(f"{edit.target}: nothing after this statement would run")
    bare = _without_gap(moved)
    span = tree.start_of(moved), tree.spans[moved][1]
    if isinstance(edit, MoveBefore):
        start = tree.start_of(target)
        added = Step(edit, target, lambda node: before([bare], _line(node)), 3, (start, start))
    else:
        end = tree.spans[target][1]
        added = Step(edit, target, lambda node: [node, bare], 4, (end, end))
    return [Step(edit, moved, lambda _: [], 0, span), added]


def _whole_line(tree: Tree, statement: cst.CSTNode) -> cst.CSTNode:
    """The line of a statement that stands alone on it."""
    line = tree.parents[statement]
    return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else statement


def _without_gap(statement: Line) -> Line:
    """The statement with the comments above it, and without the blank lines above these."""
    return statement.with_changes(leading_lines=gap_and_comments(statement)[1])


def _line(node: cst.CSTNode) -> Line:
    assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    return node
