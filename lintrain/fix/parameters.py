"""Parameters of functions."""

from __future__ import annotations

import libcst as cst

from lintrain.fix.comma_list import NOTHING, CommaList
from lintrain.fix.expressions import read_value
from lintrain.fix.step import Step
from lintrain.fix.tree import FixError, Tree
from lintrain.model.fixes import AddParameter


def parameter_step(tree: Tree, edit: AddParameter) -> Step | None:
    """One more parameter with a default, or None where the function has it; raises FixError where it cannot go last."""
    function = tree.compound_at(edit.function)
    if not isinstance(function, cst.FunctionDef):
        raise FixError(f"{edit.function}: no function stands here")
    parameters = function.params
    plain = [*parameters.posonly_params, *parameters.params]
    if any(each.name.value == edit.name for each in [*plain, *parameters.kwonly_params]):
        return None
    if not parameters.params:
        raise FixError(f"{edit.function}: the function has no parameter to follow")
    span = tree.spans[parameters.params[-1]]
    equal = cst.AssignEqual(whitespace_before=NOTHING, whitespace_after=NOTHING)
    added = cst.Param(cst.Name(edit.name), default=read_value(edit.default, tree.module), equal=equal)

    def change(node: cst.CSTNode) -> list[cst.CSTNode]:
        changed = cst.ensure_type(node, cst.FunctionDef)
        listed = _listed(changed).append(added)
        *others, last = listed.items
        params = [*others, last.with_changes(whitespace_after_param=listed.closing)]
        return [changed.with_changes(params=changed.params.with_changes(params=params))]

    return Step(edit, function, change, 0, (span[1], span[1]), frozenset({(function, edit.name)}))


def _listed(function: cst.FunctionDef) -> CommaList:
    """The plain parameters; what libcst keeps behind the last one, be there a comma or not, where calls have it."""
    *others, last = function.params.params
    tail, comma = last.whitespace_after_param, last.comma
    last = last.with_changes(whitespace_after_param=NOTHING)
    if not isinstance(comma, cst.Comma):
        return CommaList(function.whitespace_before_params, (*others, last), tail)
    if isinstance(tail, cst.ParenthesizedWhitespace):
        last = last.with_changes(comma=comma.with_changes(whitespace_after=tail))
    return CommaList(function.whitespace_before_params, (*others, last), NOTHING)
