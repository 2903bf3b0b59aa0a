"""Write fixes into a text."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Sequence

import libcst as cst

from lintrain.fix.arguments import argument_step
from lintrain.fix.import_removal import without_import
from lintrain.fix.imports import with_import
from lintrain.fix.insertions import insert_after_step, insert_at_top_step, insert_before_step, wrap_body_step, wrap_step
from lintrain.fix.parameters import parameter_step
from lintrain.fix.replacement import replace_step
from lintrain.fix.statements import move_steps
from lintrain.fix.step import Step, clash
from lintrain.fix.tree import FixError as FixError
from lintrain.fix.tree import Tree, read_tree
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
    WrapBody,
    WrapInWith,
)
from lintrain.startup.lazy_dataclass import dataclass

_MARK = "\ufeff"


def apply(text: str, fixes: Sequence[Fix]) -> str:
    """The text with these fixes; of fixes that touch the same code only the first is applied.

    Places are those of this text. Raises FixError when the text is not Python, when a fix does not fit it, or when the
    outcome would not parse.
    """
    if not fixes:
        return text
    mark = _MARK if text.startswith(_MARK) else ""
    return mark + apply_to(read_tree(text.removeprefix(_MARK)), fixes)


def apply_to(tree: Tree, fixes: Sequence[Fix]) -> str:
    """The text of a tree with these fixes, as `apply` gives it; the tree stays as it is."""
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
    """What a fix makes of the only statement of the module that it touches; None where it touches more than one.

    Raises FixError as `apply` does. The rest of the text is not written again, which many fixes of a long file need.
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
        raise FixError(f"the code does not fit there: {error}") from error
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
    except Exception as error:  # libcst raises all sorts of errors for a node that does not fit where it is put
        raise FixError(f"the code does not fit there: {error}") from error


def _changed(tree: Tree, steps: Sequence[Step]) -> cst.Module:
    """The module with the steps taken; only the outermost statements that hold one are walked through."""
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
    """What stands in the stead of a statement."""
    match statement.visit(changes):
        case cst.RemovalSentinel():
            return []
        case cst.FlattenSentinel() as nodes:
            return list(nodes)
        case node:
            return [node]


class _Changes(cst.CSTTransformer):
    """Takes the steps of every node, inner nodes first."""

    def __init__(self, steps: dict[cst.CSTNode, list[Step]]) -> None:
        super().__init__()
        self.steps = steps

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel | cst.FlattenSentinel[cst.CSTNode]:
        """What stands in the stead of a node; later steps change the last of the nodes that earlier ones gave.

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
    """The text itself; raises FixError where it does not parse."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an odd escape in the user's strings is no concern of a fix
        try:
            ast.parse(text)
        except (SyntaxError, ValueError) as error:
            raise FixError(f"the fixed text would not parse: {error}") from error
    return text
