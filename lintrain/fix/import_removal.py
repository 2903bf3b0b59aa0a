"""Imports that go, while the comments above them stay."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import TypeVar

import libcst as cst

from lintrain.fix.imports import into_import, names_of, origin_of
from lintrain.fix.statements import Line, leading_lines

Small = TypeVar("Small", cst.SimpleStatementLine, cst.SimpleStatementSuite)


def without_import(module: cst.Module, origin: str, name: str) -> cst.Module:
    """The module without one imported name; an import that brings nothing else goes with its line."""
    changed = module.visit(_Removal(origin, name))
    assert isinstance(changed, cst.Module)
    return changed


class _Removal(cst.CSTTransformer):
    """Takes one name out of every `from origin import …`."""

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
        """The lines that stay, each with the comments of lines that went above it; and the comments that are left."""
        kept: list[Line] = []
        left: list[cst.EmptyLine] = []
        for line in body:
            assert isinstance(line, cst.SimpleStatementLine | cst.BaseCompoundStatement)
            if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 and self._goes(line.body[0]):
                left += list(line.leading_lines) if _comments(line.leading_lines) else []
            elif left:
                gap = dropwhile(lambda empty: empty.comment is None, leading_lines(line))
                kept.append(line.with_changes(leading_lines=[*left, *gap]))
                left = []
            else:
                kept.append(line)
        return kept, left

    def _without(self, line: Small) -> Small:
        kept: list[cst.BaseSmallStatement] = [small for small in line.body if not self._goes(small)]
        if len(kept) == len(line.body) or not kept:
            return line.with_changes(body=kept)
        return line.with_changes(body=[*kept[:-1], kept[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])

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
