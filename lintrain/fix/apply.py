"""Apply fixes to a text.

Relocations an expression, an argument or a statement.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from lintrain.configurations.editing import NotEditableError, edited
from lintrain.fix.arguments import argument_step, parameter_step, setting_step
from lintrain.fix.comma_list import fitting, read_expression, within_parentheses
from lintrain.fix.imports import with_import, without_import
from lintrain.fix.insertions import insert_after_step, insert_at_top_step, insert_before_step, wrap_body_step, wrap_step
from lintrain.fix.statements import Line, leading_lines, move_steps, read_statements
from lintrain.fix.tree import Change, Step, Tree, clash, read_tree, span_of
from lintrain.fix.tree import FixError as FixError
from lintrain.model.fixes import (
    AddArgument,
    AddImport,
    AddParameter,
    Edit,
    Fix,
    InsertAfter,
    InsertAtTop,
    InsertBefore,
    MoveAfter,
    MoveBefore,
    RemoveArgument,
    RemoveImport,
    RenameArgument,
    Replace,
    SetArgument,
    WrapBody,
    WrapInWith,
)
from lintrain.source.parsing import parse
from lintrain.source.reading import CONFIGURED
from lintrain.startup.lazy_dataclass import dataclass

_MARK = "\ufeff"


def apply(text: str, fixes: Sequence[Fix]) -> str:
    """The text with these fixes; of fixes that touch the same code only the first is applied.

    Locations refer to this text. Raises FixError if the text is not Python, if a fix does not match it, or if the
    result does not parse.
    """
    if not fixes:
        return text
    if path := _configuration_of(fixes):
        try:
            return edited(path, text, fixes)
        except NotEditableError as error:
            raise FixError(str(error)) from error
    mark = _MARK if text.startswith(_MARK) else ""
    return mark + apply_to(read_tree(text.removeprefix(_MARK)), fixes)


def _configuration_of(fixes: Sequence[Fix]) -> str:
    """The configuration file that fixes are for; empty for Python."""
    edits = [edit for fix in fixes for edit in fix.edits]
    locations = [getattr(edit, "location", None) or getattr(edit, "call", None) for edit in edits]
    return next((each.path for each in locations if each is not None and each.path.endswith(CONFIGURED)), "")


def apply_to(tree: Tree, fixes: Sequence[Fix]) -> str:
    """The text of a tree with these fixes, as `apply` returns it; the tree is not changed."""
    steps: list[Step] = []
    imports: list[AddImport | RemoveImport] = []
    for fix in fixes:
        wanted = _steps(tree, fix)
        if not any(clash(step, taken) for step in wanted for taken in steps):
            steps.extend(step for step in wanted if step not in steps)
            imports.extend(edit for edit in fix.edits if isinstance(edit, AddImport | RemoveImport))
    return _parsing(_code(tree, steps, imports))


@dataclass(frozen=True, slots=True)
class Changed:
    """The code of one statement of the module before and after a fix; `line` is the first, with comments above."""

    line: int
    before: str
    after: str


def changed_statement(tree: Tree, fix: Fix) -> Changed | None:
    """The change that a fix makes to the only top-level statement that it touches; None if it touches several.

    Raises FixError as `apply` does. The rest of the text is not generated again: this is faster for many fixes of a
    long file.
    """
    steps = _steps(tree, fix)
    if any(isinstance(edit, AddImport | RemoveImport) for edit in fix.edits) or tree.module in {s.node for s in steps}:
        return None
    touched = {tree.outermost(step.node) for step in steps}
    if len(touched) != 1:
        return None
    statement = touched.pop()
    if not isinstance(statement, cst.SimpleStatementLine | cst.BaseCompoundStatement):
        return None
    try:
        nodes = _visited(statement, _Changes(_by_node(steps)))
        after = "".join(tree.module.code_for_node(node) for node in nodes)
    except FixError:
        raise
    except Exception as error:  # as in `_code`
        raise FixError(f"the code cannot be inserted there: {error}") from error
    line = tree.start_of(statement)[0] - len(statement.leading_lines)
    return Changed(line, tree.module.code_for_node(statement), _parsing(after))


def _steps(tree: Tree, fix: Fix) -> list[Step]:
    steps: list[Step] = []
    for edit in fix.edits:
        for step in _steps_of(tree, edit):
            if step in steps:
                continue
            if any(clash(step, taken) for taken in steps):
                raise FixError(f"`{fix.title}` changes the same code twice")
            steps.append(step)
    return steps


def _steps_of(tree: Tree, edit: Edit) -> list[Step]:
    if isinstance(edit, MoveBefore | MoveAfter):
        return move_steps(tree, edit)
    step = _step(tree, edit)
    return [] if step is None else [step]


def _step(tree: Tree, edit: Edit) -> Step | None:
    match edit:
        case Replace():
            return replace_step(tree, edit)
        case SetArgument():
            return setting_step(tree, edit)
        case AddArgument() | RenameArgument() | RemoveArgument():
            return argument_step(tree, edit)
        case AddParameter():
            return parameter_step(tree, edit)
        case InsertBefore():
            return insert_before_step(tree, edit)
        case InsertAfter():
            return insert_after_step(tree, edit)
        case InsertAtTop():
            return insert_at_top_step(tree, edit)
        case WrapInWith():
            return wrap_step(tree, edit)
        case WrapBody():
            return wrap_body_step(tree, edit)
        case AddImport() | RemoveImport() | MoveBefore() | MoveAfter():
            return None


def _code(tree: Tree, steps: Sequence[Step], imports: Sequence[AddImport | RemoveImport]) -> str:
    try:
        return _with_imports(_changed(tree, steps), imports).code
    except FixError:
        raise
    except Exception as error:  # libcst raises errors of many types for a node that is not allowed at its new location
        raise FixError(f"the code cannot be inserted there: {error}") from error


def _changed(tree: Tree, steps: Sequence[Step]) -> cst.Module:
    """The module with the steps applied; visits only the top-level statements that contain one."""
    by_node = _by_node(steps)
    changes = _Changes(by_node)
    if tree.module in by_node:
        changed = tree.module.visit(changes)
        assert isinstance(changed, cst.Module)
        return changed
    touched = {tree.outermost(node) for node in by_node}
    body: list[cst.BaseStatement] = []
    for statement in tree.module.body:
        body.extend(_visited(statement, changes) if statement in touched else [statement])
    return tree.module.with_changes(body=body)


def _by_node(steps: Sequence[Step]) -> dict[cst.CSTNode, list[Step]]:
    found: dict[cst.CSTNode, list[Step]] = {}
    for step in sorted(steps, key=lambda step: step.order):
        found.setdefault(step.node, []).append(step)
    return found


def _visited(statement: cst.BaseStatement, changes: _Changes) -> Sequence[cst.BaseStatement]:
    """The nodes that replace a statement."""
    match statement.visit(changes):
        case cst.RemovalSentinel():
            return []
        case cst.FlattenSentinel() as nodes:
            return list(nodes)
        case node:
            return [node]


class _Changes(cst.CSTTransformer):
    """Applies the steps of every node, inner nodes first."""

    def __init__(self, steps: dict[cst.CSTNode, list[Step]]) -> None:
        super().__init__()
        self.steps = steps

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        """The nodes that replace a node; later steps change the last of the nodes that earlier ones returned.

        A step may give a node of another class, so the signature is wider than that of libcst.
        """
        steps = self.steps.get(original_node)
        if steps is None:
            return updated_node
        nodes = [updated_node]
        for step in steps:
            if nodes:
                nodes = [*nodes[:-1], *step.change(nodes[-1])]
        match nodes:
            case []:
                return cst.RemovalSentinel.REMOVE
            case [only]:
                return only
            case _:
                return cst.FlattenSentinel(nodes)


def _with_imports(module: cst.Module, edits: Sequence[AddImport | RemoveImport]) -> cst.Module:
    for edit in edits:
        if isinstance(edit, AddImport):
            module = with_import(module, edit)
        else:
            module = without_import(module, edit.module, edit.name)
    return module


def _parsing(text: str) -> str:
    """The text itself; raises FixError if it does not parse."""
    try:
        parse(text)
    except (SyntaxError, ValueError) as error:
        raise FixError(f"the fixed text does not parse: {error}") from error
    return text


def replace_step(tree: Tree, edit: Replace) -> Step | None:
    """The change at a location, or None if the code is already there.

    Raises FixError if the location contains no complete expression, argument or statement.
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
    raise FixError(f"{edit.location}: there is no complete expression, argument or statement at this location")


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
    """Whether an expression relocations another one that is a statement of its own."""
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
    """The new statements with the comments above the old one, and the comment at its end."""
    first, *others = lines
    new = [first.with_changes(leading_lines=[*leading_lines(old), *leading_lines(first)]), *others]
    if isinstance(old, cst.SimpleStatementLine) and isinstance(new[-1], cst.SimpleStatementLine):
        new[-1] = new[-1].with_changes(trailing_whitespace=old.trailing_whitespace)
    return new
