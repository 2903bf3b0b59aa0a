"""Expressions read from a few words of code, in the parentheses that their new place needs."""

from __future__ import annotations

from typing import TypeVar

import libcst as cst

from lintrain.fix.tree import FixError

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
"""The parents in which an expression stands alone, so that it needs no parentheses."""


def read_expression(code: str, module: cst.Module) -> cst.BaseExpression | None:
    """The expression that a piece of code is, or None where it is something else."""
    # Half of a character, which only a string of the user's can hold, is written as its escape: it has no UTF-8.
    written = code.encode("utf-8", "backslashreplace").decode()
    try:
        return cst.parse_expression(written, module.config_for_parsing)
    except cst.ParserSyntaxError:
        return None


def read_value(code: str, module: cst.Module) -> cst.BaseExpression:
    """The expression for an argument, in parentheses where a comma or an assignment would be read otherwise."""
    expression = read_expression(code, module)
    if expression is None:
        raise FixError(f"`{code}` is no expression")
    return _with_parentheses(expression) if _is_bare(expression) else expression


def _is_bare(expression: cst.BaseExpression) -> bool:
    needs = cst.Tuple | cst.Yield | cst.NamedExpr | cst.GeneratorExp
    return isinstance(expression, needs) and not expression.lpar


def fitting(expression: cst.BaseExpression, parent: cst.CSTNode) -> cst.BaseExpression:
    """The expression as a child of this parent: in parentheses where it would be read otherwise without."""
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
    """The new expression inside the parentheses around the old one, which are no part of its place."""
    assert isinstance(old, cst.BaseExpression)
    if not old.lpar:
        return expression
    inner = expression.with_changes(lpar=(), rpar=()) if len(expression.lpar) == 1 else expression
    return inner.with_changes(lpar=[*old.lpar, *inner.lpar], rpar=[*inner.rpar, *old.rpar])
