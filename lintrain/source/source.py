"""One script, notebook or buffer as the reader sees it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cached_property

from lintrain.core.place import Place


@dataclass(eq=False)
class Source:
    """One file's code under the name that the user knows it by; raises SyntaxError from `tree` where it does not parse."""

    path: str
    text: str
    lines: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.lines = self.text.split("\n")

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the code."""
        return ast.parse(self.text)

    def place(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.ExceptHandler) -> Place:
        """Where a node of the tree stands; the parser counts UTF-8 bytes, a place counts characters."""
        end_line = node.end_lineno or node.lineno
        end_column = node.end_col_offset if node.end_col_offset is not None else node.col_offset
        return Place(
            self.path,
            node.lineno,
            self._character(node.lineno, node.col_offset) + 1,
            end_line,
            self._character(end_line, end_column) + 1,
        )

    def code(self, place: Place) -> str:
        """The code at a place."""
        if place.line == place.end_line:
            return self.lines[place.line - 1][place.column - 1 : place.end_column - 1]
        first = self.lines[place.line - 1][place.column - 1 :]
        last = self.lines[place.end_line - 1][: place.end_column - 1]
        return "\n".join([first, *self.lines[place.line : place.end_line - 1], last])

    def _character(self, line: int, byte: int) -> int:
        text = self.lines[line - 1]
        return byte if text.isascii() else len(text.encode()[:byte].decode(errors="replace"))
