"""A correct script as the operators see it: its syntax tree, and edits of its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from lintrain.source.writing import editable_text, file_bytes

HERE = "\ue000"
"""Stands in edited text where the mistake must be reported; taken out before anyone else sees it."""

Node = TypeVar("Node", bound=ast.AST)
Located = ast.expr | ast.stmt | ast.keyword


@dataclass(frozen=True, slots=True)
class Edit:
    """Characters `start` to `end` of a text become `text`."""

    start: int
    end: int
    text: str


class Code:
    """The code of one script or notebook (its cells joined, magics masked)."""

    def __init__(self, path: str, raw: bytes) -> None:
        self.path = path
        self.raw = raw
        self.source: Source = read_bytes(path, raw)
        self.text = editable_text(self.source)
        self._sorted: dict[type[ast.AST], list[Any]] = {}  # Any: nodes of the kind
        self._called: dict[ast.Call, str] = {}
        self._starts = [0]
        for line in self.text.split("\n"):
            self._starts.append(self._starts[-1] + len(line) + 1)

    @classmethod
    def of(cls, path: Path) -> Code:
        """The code of a file."""
        return cls(str(path), path.read_bytes())

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the text."""
        return ast.parse(self.text)

    @cached_property
    def _nodes(self) -> list[ast.AST]:
        return list(ast.walk(self.tree))

    @cached_property
    def _parents(self) -> dict[ast.AST, ast.AST]:
        return {child: parent for parent in self._nodes for child in ast.iter_child_nodes(parent)}

    # Finding things.

    def nodes(self, kind: type[Node]) -> Iterator[Node]:
        """Every node of a kind, in the order of the text."""
        if kind not in self._sorted:
            # Kept: three hundred operators ask for the same kinds, and to walk through the tree takes longest.
            found = [node for node in self._nodes if isinstance(node, kind)]
            found.sort(key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
            self._sorted[kind] = found
        yield from self._sorted[kind]

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Every call of something with one of these names: `Trainer` fits `Trainer(…)` and `x.Trainer(…)`."""
        for call in self.nodes(ast.Call):
            written = self.called(call)
            if any(written == name or written.endswith(f".{name}") for name in names):
                yield call

    def called(self, call: ast.Call) -> str:
        """What a call calls, as it is written: `torch.optim.Adam`."""
        if call not in self._called:
            self._called[call] = ast.unparse(call.func)
        return self._called[call]

    def argument(self, call: ast.Call, name: str) -> ast.keyword | None:
        """The argument that a call gives by this name, or None."""
        return next((keyword for keyword in call.keywords if keyword.arg == name), None)

    def parent(self, node: ast.AST) -> ast.AST:
        """The node around a node."""
        return self._parents[node]

    def statement(self, node: ast.AST) -> ast.stmt:
        """The statement that a node stands in."""
        while not isinstance(node, ast.stmt):
            node = self._parents[node]
        return node

    def ancestors(self, node: ast.AST) -> Iterator[ast.AST]:
        """Everything around a node, nearest first."""
        while node in self._parents:
            node = self._parents[node]
            yield node

    def block(self, statement: ast.stmt) -> list[ast.stmt]:
        """The statements that stand beside a statement, itself among them."""
        parent = self._parents[statement]
        for _, value in ast.iter_fields(parent):
            if isinstance(value, list) and statement in value:
                return value
        raise ValueError(f"line {statement.lineno} stands in no block")

    def loops(self, node: ast.AST) -> list[ast.AST]:
        """The loops around a node, innermost first."""
        return [outer for outer in self.ancestors(node) if isinstance(outer, ast.For | ast.While)]

    def span(self, node: Located) -> tuple[int, int]:
        """The characters from which to which a node stands."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._offset(node.lineno, node.col_offset), self._offset(end_line, end_column)

    def code(self, node: Located) -> str:
        """The text of a node."""
        start, end = self.span(node)
        return self.text[start:end]

    # Editing.

    def here(self, node: Located) -> Edit:
        """Say that the mistake must be reported on the line where a node starts."""
        start, _ = self.span(node)
        return Edit(start, start, HERE)

    def replace(self, node: Located, text: str) -> Edit:
        """Write something else for a node."""
        return Edit(*self.span(node), text)

    def delete(self, statement: ast.stmt) -> Edit:
        """Take out a statement with its lines; `pass` where it was the only one of its block."""
        if len(self.block(statement)) == 1:
            return self.replace(statement, "pass")
        first = getattr(statement, "decorator_list", [])
        start_line = min([statement.lineno, *(decorator.lineno for decorator in first)])
        return Edit(self._starts[start_line - 1], self._starts[statement.end_lineno or statement.lineno], "")

    def before(self, statement: ast.stmt, text: str) -> Edit:
        """Write lines above a statement, with its indentation."""
        start = self._starts[statement.lineno - 1]
        return Edit(start, start, self._indented(statement, text))

    def after(self, statement: ast.stmt, text: str) -> Edit:
        """Write lines below a statement, with its indentation."""
        start = self._starts[statement.end_lineno or statement.lineno]
        return Edit(start, start, self._indented(statement, text))

    def at_end(self, text: str) -> Edit:
        """Write lines at the end of the file."""
        return Edit(len(self.text), len(self.text), text.rstrip("\n") + "\n")

    def drop_argument(self, call: ast.Call, name: str) -> Edit:
        """Take out an argument that is given by name; raises ValueError where it is not."""
        given: list[Located] = [*call.args, *sorted(call.keywords, key=lambda keyword: self.span(keyword))]
        index = next(
            (i for i, one in enumerate(given) if isinstance(one, ast.keyword) and one.arg == name),
            None,
        )
        if index is None:
            raise ValueError(f"no argument {name}")
        start, end = self.span(given[index])
        if index + 1 < len(given):
            return Edit(start, self.span(given[index + 1])[0], "")
        return Edit(self.span(given[index - 1])[1] if index else start, end, "")

    def add_argument(self, call: ast.Call, text: str) -> Edit:
        """Give a call one more argument at its end, as `name=value`."""
        given: list[Located] = [*call.args, *call.keywords]
        if not given:
            end = self.span(call)[1] - 1
            return Edit(end, end, text)
        end = max(self.span(one)[1] for one in given)
        return Edit(end, end, f", {text}")

    def set_argument(self, call: ast.Call, name: str, text: str) -> Edit:
        """Give an argument by name another value, or add it."""
        keyword = self.argument(call, name)
        return self.replace(keyword.value, text) if keyword else self.add_argument(call, f"{name}={text}")

    def move_after(self, statement: ast.stmt, other: ast.stmt) -> list[Edit]:
        """Take a statement out and write it below another one."""
        return [self.delete(statement), self.after(other, self.lines_of(statement))]

    def move_before(self, statement: ast.stmt, other: ast.stmt) -> list[Edit]:
        """Take a statement out and write it above another one."""
        return [self.delete(statement), self.before(other, self.lines_of(statement))]

    def lines_of(self, statement: ast.stmt) -> str:
        """A statement's text, its further lines without its indentation."""
        first, *rest = self.code(statement).split("\n")
        return "\n".join([first, *(line.removeprefix(" " * statement.col_offset) for line in rest)])

    # Putting together.

    def edited(self, edits: list[Edit]) -> tuple[str, list[int]]:
        """The text after the edits, and the lines that carry the mistake; raises ValueError where edits overlap."""
        pieces: list[str] = []
        position = 0
        for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
            if edit.start < position:
                raise ValueError(f"edits overlap at {edit.start}")
            pieces += [self.text[position : edit.start], edit.text]
            position = edit.end
        marked = "".join([*pieces, self.text[position:]])
        lines = [number for number, line in enumerate(marked.split("\n"), start=1) if HERE in line]
        return marked.replace(HERE, ""), lines

    def written(self, text: str) -> bytes:
        """The bytes of the whole file with this text for its code."""
        return file_bytes(self.source, text, self.raw)

    def _offset(self, line: int, column: int) -> int:
        """Where a position of the parser, which counts bytes, stands in the text."""
        start = self._starts[line - 1]
        text = self.text[start : self._starts[line] - 1]
        return start + (column if text.isascii() else len(text.encode()[:column].decode()))

    def _indented(self, statement: ast.stmt, text: str) -> str:
        margin = " " * statement.col_offset
        return "".join(f"{margin}{line}\n" if line else "\n" for line in text.rstrip("\n").split("\n"))
