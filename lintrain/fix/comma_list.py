"""Lists in parentheses whose items are added and removed while the layout and the comments are preserved.

Expressions parsed from short pieces of code, in parentheses if their new location needs them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import libcst as cst

from lintrain.fix.tree import FixError
from lintrain.startup.lazy_dataclass import dataclass

Whitespace = cst.BaseParenthesizableWhitespace
Item = cst.Arg | cst.ImportAlias | cst.Param

NOTHING = cst.SimpleWhitespace("")
SPACE = cst.SimpleWhitespace(" ")


@dataclass(frozen=True, slots=True)
class CommaList:
    """The items with their commas; `opening` comes before the first, `closing` after a last one without a comma."""

    opening: Whitespace
    items: tuple[Item, ...]
    closing: Whitespace

    def append(self, item: Item) -> CommaList:
        """The list with one more item, on its own line if the others are."""
        if not self.items:
            return replace(self, items=(item,)) if _comments(self.opening) else CommaList(NOTHING, (item,), NOTHING)
        *others, last = self.items
        tail = _after(last, self.closing)
        joint = _joint(self._separator(), tail)
        rest = _plain(tail) if isinstance(joint, cst.ParenthesizedWhitespace) else tail
        ends_in_comma = isinstance(last.comma, cst.Comma)
        added = _followed_by(item, rest) if ends_in_comma else item
        items = (*others, _followed_by(last, joint), added)
        return CommaList(self.opening, items, self.closing if ends_in_comma else rest)

    def remove(self, index: int) -> CommaList:
        """The list without one item and the comment on its line; comments on their own lines are kept."""
        items = self.items
        before = _after(items[index - 1], self.closing) if index else self.opening
        after = _without_remark(before, _after(items[index], self.closing))
        rest = items[:index] + items[index + 1 :]
        if index < len(items) - 1:
            return self._with_gap(rest, index, _keep_place(before, after))
        gap = _keep_layout(before, after)
        if not rest:
            return CommaList(gap if _comments(gap) else NOTHING, (), NOTHING)
        if isinstance(items[index].comma, cst.Comma):
            return replace(self._with_gap(rest, index, gap), closing=self.closing)
        last = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return CommaList(self.opening, (*rest[:-1], last), gap)

    def _separator(self) -> Whitespace:
        return _after(self.items[-2], self.closing) if len(self.items) > 1 else self.opening

    def _with_gap(self, items: tuple[Item, ...], index: int, gap: Whitespace) -> CommaList:
        if index == 0:
            return CommaList(gap, items, self.closing)
        return replace(self, items=(*items[: index - 1], _followed_by(items[index - 1], gap), *items[index:]))


def _after(item: Item, closing: Whitespace) -> Whitespace:
    return item.comma.whitespace_after if isinstance(item.comma, cst.Comma) else closing


def _followed_by(item: Item, gap: Whitespace) -> Item:
    comma = item.comma if isinstance(item.comma, cst.Comma) else cst.Comma()
    return item.with_changes(comma=comma.with_changes(whitespace_after=gap))


def _joint(separator: Whitespace, tail: Whitespace) -> Whitespace:
    """The separator of the last item and a new one: that of the others, with the comments after the last item."""
    if isinstance(separator, cst.ParenthesizedWhitespace):
        first_line, lines = _lines(tail)
        return separator.with_changes(first_line=first_line or _end_of_line(separator), empty_lines=lines)
    if isinstance(tail, cst.ParenthesizedWhitespace) and _comments(tail):
        return tail.with_changes(last_line=cst.SimpleWhitespace(tail.last_line.value + "    "))
    return SPACE


def _keep_place(before: Whitespace, after: Whitespace) -> Whitespace:
    """The whitespace that a removed item leaves before the next: that before it, with the comments after it."""
    comments = _comments(after)
    if not comments:
        return before
    if not isinstance(before, cst.ParenthesizedWhitespace):
        return after
    lines = [cst.EmptyLine(comment=comment, whitespace=before.last_line) for comment in comments]
    return before.with_changes(empty_lines=[*before.empty_lines, *lines])


def _keep_layout(before: Whitespace, after: Whitespace) -> Whitespace:
    """The whitespace that a removed last item leaves: that after it, with the comments before and after it."""
    if not _comments(before) and not _comments(after):
        return after
    first_line, lines = _lines(before)
    indentation = before.last_line if isinstance(before, cst.ParenthesizedWhitespace) else NOTHING
    kept = [cst.EmptyLine(comment=comment, whitespace=indentation) for comment in _comments(after)]
    return cst.ParenthesizedWhitespace(
        first_line=first_line or cst.TrailingWhitespace(),
        empty_lines=[*lines, *kept],
        indent=True,
        last_line=after.last_line if isinstance(after, cst.ParenthesizedWhitespace) else NOTHING,
    )


def _without_remark(before: Whitespace, after: Whitespace) -> Whitespace:
    """The whitespace after an item without the comment on the item's line, if no other item is on that line."""
    if not isinstance(before, cst.ParenthesizedWhitespace) or not isinstance(after, cst.ParenthesizedWhitespace):
        return after
    return after.with_changes(first_line=_end_of_line(after))


def _plain(gap: Whitespace) -> Whitespace:
    """The same whitespace without its comments."""
    if not isinstance(gap, cst.ParenthesizedWhitespace):
        return gap
    return gap.with_changes(first_line=_end_of_line(gap), empty_lines=[])


def _end_of_line(gap: cst.ParenthesizedWhitespace) -> cst.TrailingWhitespace:
    return cst.TrailingWhitespace(newline=gap.first_line.newline)


def _lines(gap: Whitespace) -> tuple[cst.TrailingWhitespace | None, list[cst.EmptyLine]]:
    if not isinstance(gap, cst.ParenthesizedWhitespace):
        return None, []
    return gap.first_line, list(gap.empty_lines)


def _comments(gap: Whitespace) -> list[cst.Comment]:
    return list(_comments_of(gap))


def _comments_of(gap: Whitespace) -> Iterator[cst.Comment]:
    if isinstance(gap, cst.ParenthesizedWhitespace):
        if gap.first_line.comment:
            yield gap.first_line.comment
        for line in gap.empty_lines:
            if line.comment:
                yield line.comment


Parsed = TypeVar("Parsed", bound=cst.BaseExpression)

_ATOMS = (
    cst.Name,
    cst.Attribute,
    cst.Call,
    cst.Subscript,
    cst.BaseNumber,
    cst.BaseString,
    cst.BaseList,
    cst.BaseDict,
    cst.BaseSet,
)

_SEPARATE = (
    cst.Arg,
    cst.Assign,
    cst.AnnAssign,
    cst.AugAssign,
    cst.Return,
    cst.Expr,
    cst.Index,
    cst.Element,
    cst.DictElement,
    cst.WithItem,
    cst.If,
    cst.While,
    cst.For,
    cst.Param,
    cst.FormattedStringExpression,
)
"""The parents in which an expression is on its own, so that it needs no parentheses."""


def read_expression(code: str, module: cst.Module) -> cst.BaseExpression | None:
    """The expression that a piece of code is, or None if it is something else."""
    # A lone surrogate, which only a string of the user can contain, is escaped: it has no UTF-8 encoding.
    written = code.encode("utf-8", "backslashreplace").decode()
    try:
        return cst.parse_expression(written, module.config_for_parsing)
    except cst.ParserSyntaxError:
        return None


def read_value(code: str, module: cst.Module) -> cst.BaseExpression:
    """The expression for an argument, in parentheses if a comma or an assignment would otherwise change its meaning."""
    expression = read_expression(code, module)
    if expression is None:
        raise FixError(f"`{code}` is not an expression")
    return _with_parentheses(expression) if _is_bare(expression) else expression


def _is_bare(expression: cst.BaseExpression) -> bool:
    needs = cst.Tuple | cst.Yield | cst.NamedExpr | cst.GeneratorExp
    return isinstance(expression, needs) and not expression.lpar


def fitting(expression: cst.BaseExpression, parent: cst.CSTNode) -> cst.BaseExpression:
    """The expression as a child of this parent, in parentheses if it would otherwise be parsed differently."""
    if expression.lpar or isinstance(expression, _ATOMS):
        return expression
    if isinstance(parent, _SEPARATE) and not _is_bare(expression):
        return expression
    if isinstance(parent, cst.Assign | cst.Return | cst.Expr) and isinstance(expression, cst.Tuple):
        return expression
    return _with_parentheses(expression)


def _with_parentheses(expression: Parsed) -> Parsed:
    return expression.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def within_parentheses(expression: cst.BaseExpression, old: cst.CSTNode) -> cst.BaseExpression:
    """The new expression inside the parentheses around the old one, which are not part of its location."""
    assert isinstance(old, cst.BaseExpression)
    if not old.lpar:
        return expression
    inner = expression.with_changes(lpar=(), rpar=()) if len(expression.lpar) == 1 else expression
    return inner.with_changes(lpar=[*old.lpar, *inner.lpar], rpar=[*inner.rpar, *old.rpar])
