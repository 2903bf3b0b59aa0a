"""The form of a file as operators see it: simple syntax searches, none of them lintrain's own reader."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from benchmarks.accuracy.code import Code, Node

Function = ast.FunctionDef | ast.AsyncFunctionDef
Loop = ast.For | ast.While


class Form(Code):
    """A file of others. `nodes` walks the tree once, since many operators ask the same."""

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in ast.walk(self.tree):
            found.setdefault(type(node), []).append(node)
        for nodes in found.values():
            nodes.sort(key=lambda node: (getattr(node, "lineno", 0), getattr(node, "col_offset", 0)))
        return found

    def nodes(self, kind: type[Node]) -> Iterator[Node]:
        """Every node of exactly this kind, in the order of the text."""
        for node in self._by_kind.get(kind, ()):
            assert isinstance(node, kind)
            yield node

    def says(self, *words: str) -> bool:
        """Whether the text has one of the words."""
        return any(word in self.text for word in words)

    # Calls.

    @cached_property
    def _calls_by_name(self) -> dict[str, list[ast.Call]]:
        found: dict[str, list[ast.Call]] = {}
        for call in self.nodes(ast.Call):
            found.setdefault(last_name(call.func), []).append(call)
        return found

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """Every call of something with one of these last names: `Adam` fits `Adam(…)` and `optim.Adam(…)`."""
        for name in names:
            yield from self._calls_by_name.get(name, ())

    def calls_in(self, node: ast.AST, *names: str) -> list[ast.Call]:
        """The calls by these last names inside a node."""
        return [call for call in self.calls(*names) if self.is_in(call, node)]

    def is_statement(self, call: ast.Call) -> bool:
        """Whether a call is a statement of its own, alone on its lines."""
        parent = self.parent(call)
        return isinstance(parent, ast.Expr) and self.is_alone(parent)

    def is_alone(self, statement: ast.stmt) -> bool:
        """Whether a statement shares its lines with no other: `a(); b()` and `if x: a()` do."""
        lines = self.text.split("\n")
        first, last = lines[statement.lineno - 1], lines[(statement.end_lineno or statement.lineno) - 1]
        start, end = self.span(statement)
        before = self.text[:start].rsplit("\n", 1)[-1]
        after = self.text[end:].split("\n", 1)[0]
        return bool(first and last) and not before.strip() and (not after.strip() or after.strip().startswith("#"))

    # Where a node is.

    def is_in(self, node: ast.AST, outer: ast.AST) -> bool:
        """Whether a node is inside another."""
        return any(each is outer for each in self.ancestors(node))

    def function(self, node: ast.AST) -> ast.AST:
        """The innermost function around a node, else the module."""
        return next((outer for outer in self.ancestors(node) if isinstance(outer, Function)), self.tree)

    def loop(self, node: ast.AST) -> Loop | None:
        """The innermost loop around a node in its function."""
        for outer in self.ancestors(node):
            if isinstance(outer, Loop):
                return outer
            if isinstance(outer, Function | ast.ClassDef | ast.Lambda):
                return None
        return None

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        """The class around a node."""
        return next((outer for outer in self.ancestors(node) if isinstance(outer, ast.ClassDef)), None)

    def are_neighbours(self, one: ast.AST, other: ast.AST) -> bool:
        """Whether the statements of two nodes are in the same block."""
        return self.statement(other) in self.block(self.statement(one))

    def functions(self) -> Iterator[ast.FunctionDef]:
        """Every function."""
        yield from self.nodes(ast.FunctionDef)

    def classes(self, *bases: str) -> Iterator[ast.ClassDef]:
        """Every class with one of these bases, by their last names."""
        for each in self.nodes(ast.ClassDef):
            if any(last_name(base) in bases for base in each.bases):
                yield each

    def assigned(self, *names: str) -> Iterator[ast.Assign]:
        """Assignments of one target whose value is a call by one of these last names."""
        for statement in self.nodes(ast.Assign):
            if len(statement.targets) == 1 and isinstance(statement.value, ast.Call):
                if last_name(statement.value.func) in names:
                    yield statement


def last_name(node: ast.AST) -> str:
    """The last part of a dotted name: `Adam` of `torch.optim.Adam`; empty for anything else."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def receiver(call: ast.Call) -> str:
    """The code of what a method is called on, `optimizer` in `optimizer.step()`; empty for a plain name."""
    return ast.unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""


def number(node: ast.AST | None) -> float | None:
    """The value of a number that is written out, else None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    return None
