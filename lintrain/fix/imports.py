"""Edits of a module's imports."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import libcst as cst
from libcst.helpers import get_full_name_for_node

from lintrain.core.fix import AddImport
from lintrain.fix.comma_list import NOTHING, CommaList
from lintrain.fix.statements import is_docstring, leading_lines

Body = cst.SimpleStatementLine | cst.BaseCompoundStatement
BLANK = cst.EmptyLine(indent=False)


def with_import(module: cst.Module, wanted: AddImport) -> cst.Module:
    """The module with a name brought in: beside others of its origin, else in its sorted place among the imports."""
    if any(_brings(small, wanted) for small in _top_level(module)):
        return module
    if wanted.name is not None:
        for small in _top_level(module):
            if _merges(small, wanted):
                return _replaced(module, small, _with_name(small, wanted.name))
    return _with_new_import(module, wanted)


def without_import(module: cst.Module, origin: str, name: str) -> cst.Module:
    """The module without one imported name; an import that brings nothing else goes with its line."""
    changed = module.visit(_Removal(origin, name))
    assert isinstance(changed, cst.Module)
    return changed


def _top_level(module: cst.Module) -> list[cst.BaseSmallStatement]:
    return [small for line in module.body if isinstance(line, cst.SimpleStatementLine) for small in line.body]


def _brings(small: cst.BaseSmallStatement, wanted: AddImport) -> bool:
    """Whether an import binds the name that is wanted: `import torch.nn` binds `torch` too."""
    match small:
        case cst.Import(names=names) if wanted.name is None:
            bound = [str(alias.evaluated_name) for alias in names if alias.asname is None]
            return any(name == wanted.module or name.startswith(f"{wanted.module}.") for name in bound)
        case cst.ImportFrom(names=[*names]) if wanted.name is not None and _origin(small) == wanted.module:
            return any(_binds(alias, wanted.name) for alias in names)
        case _:
            return False


def _binds(alias: cst.ImportAlias, name: str) -> bool:
    return alias.evaluated_name == name and (alias.evaluated_alias or name) == name


def _merges(small: cst.BaseSmallStatement, wanted: AddImport) -> bool:
    return (
        isinstance(small, cst.ImportFrom)
        and not isinstance(small.names, cst.ImportStar)
        and _origin(small) == wanted.module
    )


def _origin(small: cst.ImportFrom) -> str:
    return "." * len(small.relative) + (get_full_name_for_node(small.module) or "" if small.module else "")


def _with_name(small: cst.BaseSmallStatement, name: str) -> cst.ImportFrom:
    assert isinstance(small, cst.ImportFrom)
    return _into_import(small, _names(small).append(cst.ImportAlias(name=cst.Name(name))))


def _names(small: cst.ImportFrom) -> CommaList:
    assert not isinstance(small.names, cst.ImportStar)
    opening = small.lpar.whitespace_after if small.lpar else NOTHING
    closing = small.rpar.whitespace_before if small.rpar else NOTHING
    return CommaList(opening, tuple(small.names), closing)


def _into_import(small: cst.ImportFrom, names: CommaList) -> cst.ImportFrom:
    small = small.with_changes(names=names.items)
    if small.lpar is None or small.rpar is None:
        return small
    return small.with_changes(
        lpar=small.lpar.with_changes(whitespace_after=names.opening),
        rpar=small.rpar.with_changes(whitespace_before=names.closing),
    )


def _replaced(module: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> cst.Module:
    changed = module.deep_replace(old, new)
    assert isinstance(changed, cst.Module)
    return changed


def _with_new_import(module: cst.Module, wanted: AddImport) -> cst.Module:
    module = _with_comments_at_their_statement(module)
    code = f"import {wanted.module}" if wanted.name is None else f"from {wanted.module} import {wanted.name}"
    line = cst.ensure_type(cst.parse_statement(code, module.config_for_parsing), cst.SimpleStatementLine)
    body = list(module.body)
    first = _first_place(body)
    block = _leading_imports(body[first:])
    if not body:
        return module.with_changes(body=[line], has_trailing_newline=True)
    if not block:
        return module.with_changes(body=_with_block(body, first, line))
    key = _sort_key(line)
    index = next((index for index, other in enumerate(block) if _sort_key(other) > key), len(block))
    return module.with_changes(body=[*body[:first], *_with_line(block, index, line), *body[first + len(block) :]])


def _with_comments_at_their_statement(module: cst.Module) -> cst.Module:
    """The module whose header ends at its last blank line: comments below it speak of the first statement."""
    blank = max((index for index, line in enumerate(module.header) if line.comment is None), default=None)
    if blank is None or not module.body:
        return module
    first = module.body[0]
    moved = first.with_changes(leading_lines=[*module.header[blank + 1 :], *leading_lines(first)])
    return module.with_changes(header=module.header[: blank + 1], body=[moved, *module.body[1:]])


def _first_place(body: Sequence[Body]) -> int:
    """The place below the docstring and the `__future__` imports."""
    index = 1 if body and is_docstring(body[0]) else 0
    while index < len(body) and _is_future(body[index]):
        index += 1
    return index


def _is_future(line: Body) -> bool:
    return _is_import(line) and _sort_key(line)[2] == "__future__"


def _is_import(line: Body) -> bool:
    return isinstance(line, cst.SimpleStatementLine) and isinstance(line.body[0], cst.Import | cst.ImportFrom)


def _leading_imports(body: Sequence[Body]) -> list[Body]:
    end = next((index for index, line in enumerate(body) if not _is_import(line)), len(body))
    return list(body[:end])


def _sort_key(line: Body) -> tuple[int, int, str]:
    """Standard library first, then others, then relative ones; `import` before `from`; then by name."""
    small = cst.ensure_type(line, cst.SimpleStatementLine).body[0]
    if isinstance(small, cst.ImportFrom):
        name, kind = _origin(small), 1
    else:
        name, kind = str(cst.ensure_type(small, cst.Import).names[0].evaluated_name), 0
    if name.startswith("."):
        return 2, kind, name.lower()
    return (0 if name.partition(".")[0] in sys.stdlib_module_names else 1), kind, name.lower()


def _with_block(body: list[Body], index: int, line: Body) -> list[Body]:
    """The statements with an import as the only one of its module, blank lines around it."""
    after = [_below_blank_line(body[index]), *body[index + 1 :]] if index < len(body) else []
    return [*body[:index], _below_blank_line(line) if index else line, *after]


def _with_line(block: list[Body], index: int, line: Body) -> list[Body]:
    """The imports with one more: at the end of its group, at its start, or as a group of its own."""
    group = _sort_key(line)[0]
    before, after = block[:index], block[index:]
    if before and _sort_key(before[-1])[0] == group:
        return [*before, line, *after]
    if after and _sort_key(after[0])[0] == group:
        lines = list(leading_lines(after[0]))
        blank = next((place for place, empty in enumerate(lines) if empty.comment), len(lines))
        moved = line.with_changes(leading_lines=lines[:blank])
        return [*before, moved, after[0].with_changes(leading_lines=lines[blank:]), *after[1:]]
    below = [_below_blank_line(after[0]), *after[1:]] if after else []
    return [*before, _below_blank_line(line) if before else line, *below]


def _below_blank_line(line: Body) -> Body:
    lines = leading_lines(line)
    return line if lines and lines[0].comment is None else line.with_changes(leading_lines=[BLANK, *lines])


class _Removal(cst.CSTTransformer):
    """Takes one name out of every `from origin import …`."""

    def __init__(self, origin: str, name: str) -> None:
        super().__init__()
        self.origin = origin
        self.name = name

    def leave_ImportFrom(  # noqa: N802 - libcst looks this name up
        self,
        original_node: cst.ImportFrom,  # noqa: ARG002 - and calls it with both
        updated_node: cst.ImportFrom,
    ) -> cst.ImportFrom | cst.RemovalSentinel:
        if isinstance(updated_node.names, cst.ImportStar) or _origin(updated_node) != self.origin:
            return updated_node
        places = [index for index, alias in enumerate(updated_node.names) if alias.evaluated_name == self.name]
        if not places:
            return updated_node
        if len(updated_node.names) == 1:
            return cst.RemovalSentinel.REMOVE
        return _into_import(updated_node, _names(updated_node).remove(places[0]))
