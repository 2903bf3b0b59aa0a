"""Other code in the stead of an expression, an argument or a statement."""

from __future__ import annotations

import libcst as cst

from lintrain.fix.expressions import fitting, read_expression, within_parentheses
from lintrain.fix.statements import Line, leading_lines, read_statements
from lintrain.fix.step import Change, Step
from lintrain.fix.tree import FixError, Tree, span_of
from lintrain.model.fixes import Replace


def replace_step(tree: Tree, edit: Replace) -> Step | None:
    """The change at a place, or None where the code stands there already.

    Raises FixError where the place holds no whole expression, argument or statement.
    """
    for node in tree.nodes_at(edit.location):
        change = _change_of(tree, node, edit.code)
        if change is not None:
            return Step(edit, node, change, 0, span_of(edit.location))
    enclosed = tree.parenthesised_at(edit.location)
    expression = read_expression(edit.code, tree.module)
    if enclosed is not None and expression is not None:
        fitted = fitting(expression, tree.parents[enclosed])
        return Step(edit, enclosed, lambda _: [fitted], 0, span_of(edit.location))
    if edit.code.strip() and tree.text_at(edit.location, len(edit.code)) == edit.code:
        return None
    raise FixError(f"{edit.location}: no whole expression, argument or statement stands here")


def _change_of(tree: Tree, node: cst.CSTNode, code: str) -> Change | None:
    expression = read_expression(code, tree.module)
    if isinstance(node, cst.BaseExpression) and expression is not None:
        fitted = fitting(expression, tree.parents[node])
        return lambda old: [within_parentheses(fitted, old)]
    if isinstance(node, cst.Arg) and (node.keyword or node.star or expression is None):
        return _argument_change(code, tree.module)
    if isinstance(node, cst.SimpleStatementLine | cst.BaseCompoundStatement) and not _is_expression(node, expression):
        return _statement_change(code, tree.module)
    return None


def _is_expression(node: cst.CSTNode, code: cst.BaseExpression | None) -> bool:
    """Whether an expression takes the stead of another one that is a statement of its own."""
    match node:
        case cst.SimpleStatementLine(body=[cst.Expr()]):
            return code is not None
        case _:
            return False


def _argument_change(code: str, module: cst.Module) -> Change:
    call = read_expression(f"f({code})", module)
    if not isinstance(call, cst.Call) or len(call.args) != 1:
        raise FixError(f"`{code}` is not one argument")
    new = call.args[0]

    def change(old: cst.CSTNode) -> list[cst.CSTNode]:
        arg = cst.ensure_type(old, cst.Arg)
        return [new.with_changes(comma=arg.comma, whitespace_after_arg=arg.whitespace_after_arg)]

    return change


def _statement_change(code: str, module: cst.Module) -> Change:
    if not code.strip():
        return lambda _: []
    lines = read_statements(code, module)
    return lambda old: _in_stead_of(old, lines)


def _in_stead_of(old: cst.CSTNode, lines: list[Line]) -> list[Line]:
    """The new statements with the comments above the old one, and those at its end."""
    first, *others = lines
    new = [first.with_changes(leading_lines=[*leading_lines(old), *leading_lines(first)]), *others]
    if isinstance(old, cst.SimpleStatementLine) and isinstance(new[-1], cst.SimpleStatementLine):
        new[-1] = new[-1].with_changes(trailing_whitespace=old.trailing_whitespace)
    return new
