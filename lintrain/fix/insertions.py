"""Inserts statements before or after others, at the start of a body, or around others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import libcst as cst

from lintrain.fix.statements import (
    Line,
    after_on_line,
    as_block,
    at_top,
    before,
    ends_its_block,
    has_items_of,
    is_line,
    parts_of_a_line,
    read_statements,
    read_with,
    same_code,
    with_wrapped_body,
    wrapped_in,
)
from lintrain.fix.tree import Change, FixError, Step, Tree
from lintrain.model.fixes import InsertAfter, InsertAtTop, InsertBefore, WrapBody, WrapInWith

SUITE = "suite"
"""The key of a body on the line of its `for`: it is moved to its own lines only once."""


def insert_before_step(tree: Tree, edit: InsertBefore) -> Step | None:
    """A statement before another, or None if it is already there."""
    added = read_statements(edit.statement, tree.module)
    statement = tree.statement_holding(edit.location)
    start = tree.start_of(statement)
    if _is_there(tree, statement, added):
        return None
    if is_line(statement):
        return Step(edit, statement, lambda node: before(added, _line(node)), 3, (start, start))
    suite = tree.parents[statement]
    if isinstance(suite, cst.SimpleStatementSuite):
        change = _in_suite(suite, statement, lambda line: [*added, line])
        return Step(edit, suite, change, 1, (start, start), frozenset({(suite, SUITE)}))
    smalls = parts_of_a_line(added)
    return Step(edit, statement, lambda node: [*smalls, node], 3, (start, start))


def insert_after_step(tree: Tree, edit: InsertAfter) -> Step | None:
    """A statement after another, or None if it is already there; raises FixError if it would never run."""
    added = read_statements(edit.statement, tree.module)
    statement = _alone(tree.statement_holding(edit.location))
    if ends_its_block(statement):
        raise FixError(f"{edit.location}: nothing after this statement would run")
    end = tree.spans[statement][1]
    if _is_below(tree, statement, added):
        return None
    suite = tree.parents[statement]
    if is_line(statement):
        return Step(edit, statement, lambda node: [node, *added], 4, (end, end))
    if isinstance(suite, cst.SimpleStatementSuite):
        change = _in_suite(suite, statement, lambda line: [line, *added])
        return Step(edit, suite, change, 1, (end, end), frozenset({(suite, SUITE)}))
    smalls = parts_of_a_line(added)
    return Step(edit, statement, lambda node: after_on_line(smalls, node), 4, (end, end))


def _alone(statement: cst.CSTNode) -> cst.CSTNode:
    """The first of several statements on a line; a location finds the whole line."""
    match statement:
        case cst.SimpleStatementLine(body=[first, _, *_]):
            return first
        case _:
            return statement


def insert_at_top_step(tree: Tree, edit: InsertAtTop) -> Step | None:
    """A statement at the start of a body, or None if it is already there."""
    compound = tree.compound_at(edit.location)
    added = read_statements(edit.statement, tree.module)
    start = tree.start_of(compound)
    if at_top(added, compound) is compound:
        return None
    return Step(edit, compound, lambda node: [at_top(added, _compound(node))], 1, (start, start))


def wrap_step(tree: Tree, edit: WrapInWith) -> Step | None:
    """A statement inside a `with`, or None if it is already in one of the same items."""
    statement = _whole_line(tree, tree.statement_holding(edit.location))
    empty = read_with(edit.item, tree.module)
    start = tree.start_of(statement)
    if any(has_items_of(outer, empty) for outer in (statement, *tree.ancestors(statement))):
        return None
    suite = tree.parents[statement]
    if isinstance(suite, cst.SimpleStatementSuite):
        change = _in_suite(suite, statement, lambda line: [wrapped_in(empty, line)])
        return Step(edit, suite, change, 1, (start, start), frozenset({(suite, SUITE)}))
    keys = frozenset({(statement, "with")})
    return Step(edit, statement, lambda node: [wrapped_in(empty, _line(node))], 2, (start, start), keys)


def wrap_body_step(tree: Tree, edit: WrapBody) -> Step | None:
    """A whole body inside a `with`, or None if it is already in one of the same items."""
    compound = tree.compound_at(edit.location)
    empty = read_with(edit.item, tree.module)
    start = tree.start_of(compound)
    if has_items_of(next(iter(compound.body.body), None), empty):
        return None
    keys = frozenset({(compound, "body")})
    return Step(edit, compound, lambda node: [with_wrapped_body(empty, _compound(node))], 1, (start, start), keys)


def _whole_line(tree: Tree, statement: cst.CSTNode) -> cst.CSTNode:
    line = tree.parents[statement]
    return line if isinstance(line, cst.SimpleStatementLine) else statement


def _in_suite(
    suite: cst.SimpleStatementSuite, statement: cst.CSTNode, change_line: Callable[[Line], list[Line]]
) -> Change:
    """Moves a body on one line to its own lines, with one of its statements changed."""
    index = next(index for index, small in enumerate(suite.body) if small is statement)

    def change(node: cst.CSTNode) -> list[cst.CSTNode]:
        assert isinstance(node, cst.SimpleStatementSuite)
        block = as_block(node)
        lines = [*block.body[:index], *change_line(_line(block.body[index])), *block.body[index + 1 :]]
        return [block.with_changes(body=lines)]

    return change


def _is_there(tree: Tree, statement: cst.CSTNode, added: list[Line]) -> bool:
    """Whether the statements are at the location or right before it."""
    siblings = _siblings(tree.parents[statement])
    index = next(index for index, sibling in enumerate(siblings) if sibling is statement)
    if len(added) == 1 and same_code(statement, added[0]):
        return True
    return _are_same(siblings[max(0, index - len(added)) : index], added)


def _is_below(tree: Tree, statement: cst.CSTNode, added: list[Line]) -> bool:
    """Whether the statements are right after another."""
    siblings = _siblings(tree.parents[statement])
    index = next(index for index, sibling in enumerate(siblings) if sibling is statement) + 1
    return _are_same(siblings[index : index + len(added)], added)


def _are_same(there: Sequence[cst.CSTNode], added: Sequence[Line]) -> bool:
    return len(there) == len(added) and all(same_code(one, other) for one, other in zip(there, added, strict=True))


def _siblings(parent: cst.CSTNode) -> list[cst.CSTNode]:
    assert isinstance(parent, cst.Module | cst.IndentedBlock | cst.SimpleStatementSuite | cst.SimpleStatementLine)
    return list(parent.body)


def _line(node: cst.CSTNode) -> Line:
    assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    return node


def _compound(node: cst.CSTNode) -> cst.BaseCompoundStatement:
    assert isinstance(node, cst.BaseCompoundStatement)
    return node
