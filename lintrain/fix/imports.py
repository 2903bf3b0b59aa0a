"""Edits of a module's imports.

Removes imports and keeps the comments above them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import fields
from itertools import dropwhile
from typing import TypeVar, cast

import libcst as cst
from libcst.helpers import get_full_name_for_node

from lintrain.fix.comma_list import NOTHING, CommaList
from lintrain.fix.statements import Line, gap_and_comments, is_docstring, leading_lines, starts_cell
from lintrain.model.fixes import AddImport

Body = cst.SimpleStatementLine | cst.BaseCompoundStatement
BLANK = cst.EmptyLine(indent=False)


def with_import(module: cst.Module, wanted: AddImport) -> cst.Module:
    """The module with a name imported: next to others of its origin, else at its sorted position among the imports.

    An import below the first statement that uses the name comes too late.
    """
    above = _top_level(_above_use(module.body, wanted.binds))
    if any(_brings(small, wanted) for small in above):
        return module
    if wanted.name is not None:
        for small in above:
            if _merges(small, wanted):
                return _replaced(module, small, _with_name(small, wanted.name))
    return _with_new_import(module, wanted)


def _top_level(body: Sequence[Body]) -> list[cst.BaseSmallStatement]:
    return [small for line in body if isinstance(line, cst.SimpleStatementLine) for small in line.body]


def _above_use(body: Sequence[Body], name: str) -> Sequence[Body]:
    """The statements above the first that uses a name when it runs; a function definition uses none."""
    for index, line in enumerate(body):
        if not _is_import(line) and not isinstance(line, cst.FunctionDef) and _uses(line, name):
            return body[:index]
    return body


def _brings(small: cst.BaseSmallStatement, wanted: AddImport) -> bool:
    """Whether an import binds the requested name: `import torch.nn` binds `torch` too."""
    match small:
        case cst.Import(names=names) if wanted.name is None:
            if wanted.alias is not None:
                imported = ((str(each.evaluated_name), each.evaluated_alias) for each in names)
                return (wanted.module, wanted.alias) in imported
            bound = [str(each.evaluated_name) for each in names if each.asname is None]
            return any(name == wanted.module or name.startswith(f"{wanted.module}.") for name in bound)
        case cst.ImportFrom(names=[*names]) if wanted.name is not None and origin_of(small) == wanted.module:
            return any(_binds(alias, wanted.name) for alias in names)
        case _:
            return False


def _binds(alias: cst.ImportAlias, name: str) -> bool:
    return alias.evaluated_name == name and (alias.evaluated_alias or name) == name


def _merges(small: cst.BaseSmallStatement, wanted: AddImport) -> bool:
    return (
        isinstance(small, cst.ImportFrom)
        and not isinstance(small.names, cst.ImportStar)
        and origin_of(small) == wanted.module
    )


def origin_of(small: cst.ImportFrom) -> str:
    """The module that a name is imported from, with its leading dots."""
    return "." * len(small.relative) + (get_full_name_for_node(small.module) or "" if small.module else "")


def _with_name(small: cst.BaseSmallStatement, name: str) -> cst.ImportFrom:
    assert isinstance(small, cst.ImportFrom)
    return into_import(small, names_of(small).append(cst.ImportAlias(name=cst.Name(name))))


def names_of(small: cst.ImportFrom) -> CommaList:
    """The imported names and their separators."""
    assert not isinstance(small.names, cst.ImportStar)
    opening = small.lpar.whitespace_after if small.lpar else NOTHING
    closing = small.rpar.whitespace_before if small.rpar else NOTHING
    return CommaList(opening, tuple(small.names), closing)


def into_import(small: cst.ImportFrom, names: CommaList) -> cst.ImportFrom:
    """The import with other names."""
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
    alias = f" as {wanted.alias}" if wanted.alias else ""
    code = f"from {wanted.module} import {wanted.name}" if wanted.name else f"import {wanted.module}{alias}"
    line = cst.ensure_type(cst.parse_statement(code, module.config_for_parsing), cst.SimpleStatementLine)
    body = list(module.body)
    if not body:
        return module.with_changes(body=[line], has_trailing_newline=True)
    first, block = _block_for(body, line, wanted)
    if not block:
        return module.with_changes(body=_with_block(body, first, line))
    key = _sort_key(line)
    index = next((index for index, other in enumerate(block) if _sort_key(other) > key), len(block))
    return module.with_changes(body=[*body[:first], *_with_line(block, index, line), *body[first + len(block) :]])


def _block_for(body: list[Body], line: Body, wanted: AddImport) -> tuple[int, list[Body]]:
    """The start of the imports that a new one belongs to, and these imports.

    Code between two blocks of imports (environment variables, an installation in a notebook) may have to run first. A
    library is therefore added to the block that already imports it, or any library, unless code above that block uses
    the name.
    """
    start = _first_location(body)
    blocks = list(_import_blocks(body, start))
    used = _first_use(body[: blocks[-1][0] if blocks else 0], start, wanted.binds)
    reachable = [(first, block) for first, block in blocks if first <= used]
    if _sort_key(line)[0] == 1:
        package = wanted.module.partition(".")[0]
        beside = [each for each in reachable if any(_package(other) == package for other in each[1])]
        libraries = [each for each in reachable if any(_sort_key(other)[0] == 1 for other in each[1])]
        if beside or libraries:
            return (beside or libraries)[0]
    leading = _leading_imports(body[start:])
    return (start, leading) if leading or not reachable else reachable[0]


def _import_blocks(body: list[Body], start: int) -> Iterator[tuple[int, list[Body]]]:
    index = start
    while index < len(body):
        block = _leading_imports(body[index:])
        if block:
            yield index, block
        index += max(len(block), 1)


def _first_use(body: Sequence[Body], start: int, name: str) -> int:
    """The index of the first statement from `start` on that uses a name; the number of statements if none does."""
    return next((index for index in range(start, len(body)) if _uses(body[index], name)), len(body))


def _uses(node: cst.CSTNode, name: str) -> bool:
    """Whether a name occurs anywhere in a node."""
    if isinstance(node, cst.Name):
        return node.value == name
    # Like `node.children`, but that property creates every child again to find them.
    for field in fields(node):
        value: object = getattr(node, field.name)
        parts = cast("Sequence[object]", value) if isinstance(value, list | tuple) else [value]
        if any(_uses(part, name) for part in parts if isinstance(part, cst.CSTNode)):
            return True
    return False


def _package(line: Body) -> str:
    small = cst.ensure_type(line, cst.SimpleStatementLine).body[0]
    origin = (
        origin_of(small)
        if isinstance(small, cst.ImportFrom)
        else str(cst.ensure_type(small, cst.Import).names[0].evaluated_name)
    )
    return origin.partition(".")[0]


def _with_comments_at_their_statement(module: cst.Module) -> cst.Module:
    """The module whose header ends at its last blank line: comments below it belong to the first statement."""
    blank = max((index for index, line in enumerate(module.header) if line.comment is None), default=None)
    if blank is None or not module.body:
        return module
    first = module.body[0]
    moved = first.with_changes(leading_lines=[*module.header[blank + 1 :], *leading_lines(first)])
    return module.with_changes(header=module.header[: blank + 1], body=[moved, *module.body[1:]])


def _first_location(body: Sequence[Body]) -> int:
    """The position after the docstring and the `__future__` imports."""
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
        name, kind = origin_of(small), 1
    else:
        name, kind = str(cst.ensure_type(small, cst.Import).names[0].evaluated_name), 0
    if name.startswith("."):
        return 2, kind, name.lower()
    return (0 if name.partition(".")[0] in sys.stdlib_module_names else 1), kind, name.lower()


def _with_block(body: list[Body], index: int, line: Body) -> list[Body]:
    """The statements with an import as the only one of its module, with blank lines around it."""
    after = [_below_blank_line(body[index]), *body[index + 1 :]] if index < len(body) else []
    return [*body[:index], _below_blank_line(line) if index else line, *after]


def _with_line(block: list[Body], index: int, line: Body) -> list[Body]:
    """The imports with one more: at the end of its group, at its start, or as a group of its own."""
    group = _sort_key(line)[0]
    before, after = block[:index], block[index:]
    if before and _sort_key(before[-1])[0] == group:
        return [*before, line, *after]
    gap, comments = gap_and_comments(after[0]) if after else ([], [])
    if after and _sort_key(after[0])[0] == group:
        return [
            *before,
            line.with_changes(leading_lines=gap),
            after[0].with_changes(leading_lines=comments),
            *after[1:],
        ]
    if not before and any(map(starts_cell, gap)):
        first = line.with_changes(leading_lines=gap)
        return [first, after[0].with_changes(leading_lines=[BLANK, *comments]), *after[1:]]
    below = [_below_blank_line(after[0]), *after[1:]] if after else []
    return [*before, _below_blank_line(line) if before else line, *below]


def _below_blank_line(line: Body) -> Body:
    """A statement with a blank line above it, unless one or a cell marker already separates it from the code above."""
    gap, comments = gap_and_comments(line)
    return line if gap else line.with_changes(leading_lines=[BLANK, *comments])


Small = TypeVar("Small", cst.SimpleStatementLine, cst.SimpleStatementSuite)


def without_import(module: cst.Module, origin: str, name: str) -> cst.Module:
    """The module without one imported name; an import of nothing else is removed with its line."""
    changed = module.visit(_Removal(origin, name))
    assert isinstance(changed, cst.Module)
    return changed


class _Removal(cst.CSTTransformer):
    """Removes one name from every `from origin import …`."""

    def __init__(self, origin: str, name: str) -> None:
        super().__init__()
        self.origin = origin
        self.name = name

    def leave_ImportFrom(  # noqa: N802 - libcst looks these names up
        self,
        original_node: cst.ImportFrom,  # noqa: ARG002 - and calls them with both
        updated_node: cst.ImportFrom,
    ) -> cst.ImportFrom:
        index = self._index(updated_node)
        if index is None or self._goes(updated_node):
            return updated_node
        return into_import(updated_node, names_of(updated_node).remove(index))

    def leave_SimpleStatementLine(  # noqa: N802
        self,
        original_node: cst.SimpleStatementLine,  # noqa: ARG002
        updated_node: cst.SimpleStatementLine,
    ) -> cst.SimpleStatementLine:
        return self._without(updated_node) if len(updated_node.body) > 1 else updated_node

    def leave_SimpleStatementSuite(  # noqa: N802
        self,
        original_node: cst.SimpleStatementSuite,  # noqa: ARG002
        updated_node: cst.SimpleStatementSuite,
    ) -> cst.SimpleStatementSuite:
        return self._without(updated_node)

    def leave_IndentedBlock(  # noqa: N802
        self,
        original_node: cst.IndentedBlock,  # noqa: ARG002
        updated_node: cst.IndentedBlock,
    ) -> cst.IndentedBlock:
        body, left = self._lines(updated_node.body)
        return updated_node.with_changes(body=body, footer=[*left, *updated_node.footer])

    def leave_Module(  # noqa: N802
        self,
        original_node: cst.Module,  # noqa: ARG002
        updated_node: cst.Module,
    ) -> cst.Module:
        body, left = self._lines(updated_node.body)
        return updated_node.with_changes(body=body, footer=[*left, *updated_node.footer])

    def _lines(self, body: Sequence[cst.BaseStatement]) -> tuple[list[Line], list[cst.EmptyLine]]:
        """The remaining lines, each with the comments of removed lines above it; and the comments left over."""
        remaining: list[Line] = []
        left: list[cst.EmptyLine] = []
        for line in body:
            assert isinstance(line, cst.SimpleStatementLine | cst.BaseCompoundStatement)
            if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and self._goes(line.body[0]):
                left += list(line.leading_lines) if _comments(line.leading_lines) else []
            elif left:
                gap = dropwhile(lambda empty: empty.comment is None, leading_lines(line))
                remaining.append(line.with_changes(leading_lines=[*left, *gap]))
                left = []
            else:
                remaining.append(line)
        return remaining, left

    def _without(self, line: Small) -> Small:
        remaining: list[cst.BaseSmallStatement] = [small for small in line.body if not self._goes(small)]
        if len(remaining) == len(line.body) or not remaining:
            return line.with_changes(body=remaining)
        return line.with_changes(
            body=[*remaining[:-1], remaining[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)]
        )

    def _goes(self, small: cst.BaseSmallStatement) -> bool:
        """Whether a statement imports this name and nothing else."""
        if not isinstance(small, cst.ImportFrom) or isinstance(small.names, cst.ImportStar):
            return False
        return len(small.names) == 1 and self._index(small) is not None

    def _index(self, small: cst.ImportFrom) -> int | None:
        if isinstance(small.names, cst.ImportStar) or origin_of(small) != self.origin:
            return None
        return next((index for index, alias in enumerate(small.names) if alias.evaluated_name == self.name), None)


def _comments(lines: Sequence[cst.EmptyLine]) -> bool:
    return any(line.comment for line in lines)
