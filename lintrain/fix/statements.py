"""Edits of whole statements: insert one before or after another, at the start of a body, or wrap one in `with`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeGuard, TypeVar

import libcst as cst

from lintrain.fix.tree import FixError, Step, Tree
from lintrain.model.fixes import MoveAfter, MoveBefore

Line = cst.SimpleStatementLine | cst.BaseCompoundStatement
Sized = TypeVar("Sized", bound=cst.BaseCompoundStatement)

CELL = "# %%"
"""How a comment above a cell begins, in a notebook or in a script that editors show as cells."""


def read_statements(code: str, module: cst.Module) -> list[Line]:
    """The statements of a few lines of code, with the indentation and line ends of a module."""
    try:
        parsed = cst.parse_module(code, module.config_for_parsing)
    except cst.ParserSyntaxError as error:
        raise FixError(f"`{code}` is not a statement") from error
    if not parsed.body:
        raise FixError(f"`{code}` is not a statement")
    first, *others = parsed.body
    return [first.with_changes(leading_lines=[*parsed.header, *leading_lines(first)]), *others]


def leading_lines(statement: cst.CSTNode) -> Sequence[cst.EmptyLine]:
    """The blank lines and comments above a statement."""
    if isinstance(statement, cst.SimpleStatementLine | cst.FunctionDef | cst.ClassDef):
        return statement.leading_lines
    if isinstance(statement, cst.If | cst.For | cst.While | cst.Try | cst.TryStar | cst.With | cst.Match):
        return statement.leading_lines
    return ()


def same_code(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two statements are the same code, apart from comments and blank lines."""
    return _bare(one).deep_equals(_bare(other))


def _bare(statement: cst.CSTNode) -> cst.CSTNode:
    match statement:
        case cst.SimpleStatementLine(body=[only]):
            return only.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        case cst.BaseSmallStatement():
            return statement.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        case cst.SimpleStatementLine():
            return statement.with_changes(leading_lines=(), trailing_whitespace=cst.TrailingWhitespace())
        case _:
            return statement.with_changes(leading_lines=())


def starts_cell(line: cst.EmptyLine) -> bool:
    """Whether a line above a statement is a cell marker, which stays above everything else in the cell."""
    return line.comment is not None and line.comment.value.startswith(CELL)


def gap_and_comments(statement: cst.CSTNode) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """The lines above a statement that end the code before it, including a cell marker, and its own comments."""
    lines = list(leading_lines(statement))
    marks = [index for index, line in enumerate(lines) if starts_cell(line)]
    first = marks[-1] + 1 if marks else 0
    own = next((index for index in range(first, len(lines)) if lines[index].comment), len(lines))
    return lines[:own], lines[own:]


def before(added: Sequence[Line], statement: Line) -> list[Line]:
    """The added statements, then the statement: it keeps its comments; the blank lines above them come first."""
    gap, comments = gap_and_comments(statement)
    first, *others = added
    moved = first.with_changes(leading_lines=[*gap, *leading_lines(first)])
    return [moved, *others, statement.with_changes(leading_lines=comments)]


def ends_its_block(statement: cst.CSTNode) -> bool:
    """Whether no code after the statement in its block ever runs."""
    match statement:
        case cst.SimpleStatementLine(body=[only]):
            return ends_its_block(only)
        case _:
            return isinstance(statement, cst.Return | cst.Raise | cst.Break | cst.Continue)


def parts_of_a_line(added: Sequence[Line]) -> list[cst.BaseSmallStatement]:
    """The statements as parts of a line; raises FixError if they cannot be between two others on it."""
    smalls: list[cst.BaseSmallStatement] = []
    for line in added:
        if not isinstance(line, cst.SimpleStatementLine):
            raise FixError("a compound statement cannot be between two statements on a line")
        smalls.extend(small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) for small in line.body)
    return smalls


def after_on_line(added: Sequence[cst.BaseSmallStatement], statement: cst.CSTNode) -> list[cst.BaseSmallStatement]:
    """A statement of a line, then the added ones; the separator before the next statement comes after them."""
    assert isinstance(statement, cst.BaseSmallStatement)
    bare = statement.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
    return [bare, *added[:-1], added[-1].with_changes(semicolon=statement.semicolon)]


def is_line(statement: cst.CSTNode) -> TypeGuard[Line]:
    """Whether no other statement is on its lines."""
    return isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement)


def as_block(body: cst.BaseSuite) -> cst.IndentedBlock:
    """A body on its own lines, even if it is on the line of its `for` or `with`."""
    if isinstance(body, cst.IndentedBlock):
        return body
    assert isinstance(body, cst.SimpleStatementSuite)
    lines = [cst.SimpleStatementLine([small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]) for small in body.body]
    lines[-1] = lines[-1].with_changes(trailing_whitespace=body.trailing_whitespace)
    return cst.IndentedBlock(lines)


def at_top(added: Sequence[Line], compound: Sized) -> Sized:
    """The compound statement with others at the start of its body, after a docstring."""
    if isinstance(compound, cst.Match):
        raise FixError("a `match` has no body of its own")
    block = as_block(compound.body)
    index = 1 if isinstance(compound, cst.FunctionDef | cst.ClassDef) and is_docstring(block.body[0]) else 0
    if len(block.body) > index and same_code(block.body[index], added[0]):
        return compound
    return compound.with_changes(body=block.with_changes(body=[*block.body[:index], *added, *block.body[index:]]))


def is_docstring(statement: cst.CSTNode) -> bool:
    """Whether the statement is only a string."""
    match statement:
        case cst.SimpleStatementLine(body=[cst.Expr(value=cst.SimpleString() | cst.ConcatenatedString())]):
            return True
        case _:
            return False


def read_with(item: str, module: cst.Module) -> cst.With:
    """An empty `with item:`."""
    wrapped = read_statements(f"with {item}:\n    pass", module)[0]
    if not isinstance(wrapped, cst.With):
        raise FixError(f"`{item}` is not a context manager")
    return wrapped


def wrapped_in(empty: cst.With, statement: Line) -> cst.With:
    """The statement inside a `with`; its comments stay above both."""
    inner = statement.with_changes(leading_lines=())
    return empty.with_changes(body=cst.IndentedBlock([inner]), leading_lines=leading_lines(statement))


def with_wrapped_body(empty: cst.With, compound: Sized) -> Sized:
    """The compound statement with its whole body inside a `with`."""
    if isinstance(compound, cst.Match):
        raise FixError("a `match` has no body of its own")
    block = as_block(compound.body)
    inner = empty.with_changes(body=block.with_changes(header=cst.TrailingWhitespace()))
    return compound.with_changes(body=cst.IndentedBlock([inner], header=block.header))


def has_items_of(outer: cst.CSTNode | None, empty: cst.With) -> bool:
    """Whether a statement is already a `with` of the same items."""
    if not isinstance(outer, cst.With) or len(outer.items) != len(empty.items):
        return False
    pairs = zip(outer.items, empty.items, strict=True)
    return all(mine.item.deep_equals(theirs.item) for mine, theirs in pairs)


def move_steps(tree: Tree, edit: MoveBefore | MoveAfter) -> list[Step]:
    """The steps that remove a statement and insert it elsewhere; none if it is already there.

    Raises FixError if one of the two statements shares its line with others, or if they are in different blocks.
    """
    moved, target = (_whole_line(tree, tree.statement_holding(location)) for location in (edit.location, edit.target))
    if not is_line(moved) or not is_line(target) or tree.parents[moved] is not tree.parents[target]:
        raise FixError(f"{edit.location}: only a statement on its own lines can be moved, and only within its block")
    block = tree.parents[moved]
    assert isinstance(block, cst.Module | cst.IndentedBlock)
    body = list(block.body)
    distance = body.index(moved) - body.index(target)
    if distance in ((0, -1) if isinstance(edit, MoveBefore) else (0, 1)):
        return []
    if any(map(starts_cell, gap_and_comments(moved)[0])):
        raise FixError(f"{edit.location}: the first statement of a cell cannot be moved")
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
    """The line of a statement that is the only one on it."""
    line = tree.parents[statement]
    return line if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else statement


def _without_gap(statement: Line) -> Line:
    """The statement with the comments above it, and without the blank lines above these."""
    return statement.with_changes(leading_lines=gap_and_comments(statement)[1])


def _line(node: cst.CSTNode) -> Line:
    assert isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement)
    return node
