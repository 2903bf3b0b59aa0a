"""Which module of lintrain imports which, imports inside functions and for type checking included."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "lintrain"

Graph = dict[str, set[str]]
"""The modules of the package that each of its modules imports, by their dotted names."""


def import_graph(root: Path = ROOT) -> Graph:
    """The imports between all modules of the package."""
    modules = {_dotted(path, root): path for path in (root / PACKAGE).rglob("*.py")}
    return {name: {target for target in _imported(path, modules) if target != name} for name, path in modules.items()}


def _dotted(path: Path, root: Path) -> str:
    return ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__")


def _imported(path: Path, modules: dict[str, Path]) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` imports the module, `from module import name` the one that has the name
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (found for name in names if (found := name if name in modules else node.module) in modules)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)


def circles(graph: Graph) -> list[list[str]]:
    """The largest sets of modules that import each other, directly or through others, each in alphabetical order."""
    search = _Search(graph)
    for name in graph:
        if name not in search.numbers:
            search.visit(name)
    return sorted(search.found)


@dataclass
class _Search:
    """Tarjan's search for strongly connected components, in one walk over the graph."""

    graph: Graph
    numbers: dict[str, int] = field(default_factory=dict[str, int])
    lowest: dict[str, int] = field(default_factory=dict[str, int])
    """The lowest number that can be reached from each module."""
    pending: list[str] = field(default_factory=list[str])
    found: list[list[str]] = field(default_factory=list[list[str]])

    def visit(self, name: str) -> None:
        self.numbers[name] = self.lowest[name] = len(self.numbers)
        self.pending.append(name)
        for target in self.graph[name]:
            if target not in self.numbers:
                self.visit(target)
                self.lowest[name] = min(self.lowest[name], self.lowest[target])
            elif target in self.pending:
                self.lowest[name] = min(self.lowest[name], self.numbers[target])
        if self.lowest[name] == self.numbers[name]:
            start = self.pending.index(name)
            members, self.pending = self.pending[start:], self.pending[:start]
            if len(members) > 1:
                self.found.append(sorted(members))
