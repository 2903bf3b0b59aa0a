"""The names that a file imports from libraries and the keywords that it passes to them, found by syntax alone.

This decides which files without training are interpreted; the interpreter then finds the calls exactly.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache

from lintrain.analysis.removed_methods import may_use_removed_method
from lintrain.knowledge import tables
from lintrain.knowledge.api import State, has_gone, keyword_state
from lintrain.knowledge.target import Targets
from lintrain.source.source import Source
from lintrain.source.training_syntax import imports

ALIASES = {"pytorch_lightning": "lightning"}
"""Older names of packages."""

MOST_ROUNDS = 3
"""How many assignments from name to name are followed."""


def may_use_removed_name(source: Source, targets: Targets) -> bool:
    """Whether the file imports a removed name, or reads a removed attribute of a library or a tokenizer."""
    if may_use_removed_method(source, targets):
        return True
    whole = set[str]()
    for node in imports(source):
        if isinstance(node, ast.Import):
            whole.update(alias.name.partition(".")[0] for alias in node.names)
        elif not node.level and has_gone(node.module or "", {each.name for each in node.names}, targets):
            return True
    read = {node.attr for node in source.nodes_of(ast.Attribute)} if whole else set[str]()
    return any(has_gone(module, read, targets) for module in whole)


def may_pass_keyword(source: Source, targets: Targets, *states: State) -> bool:
    """Whether the file may pass a keyword of one of these states to a class or function of a library."""
    return any(keyword_state(path, keyword, targets).state in states for path, keyword in source.cached(_passed))


def _passed(source: Source) -> frozenset[tuple[str, str]]:
    """The keywords that the file passes to libraries, each with the name of a callable that may accept it."""
    names = _Names(source)
    found = set[tuple[str, str]]()
    for call in source.nodes_of(ast.Call) if names.meant else ():
        if call.keywords and (paths := names.called(call)):
            named = {each.arg for each in call.keywords if each.arg is not None}
            passed = named if len(named) == len(call.keywords) else named | source.cached(_possible_keywords)
            found.update((path, keyword) for path in paths for keyword in passed)
    return frozenset(found)


def _possible_keywords(source: Source) -> frozenset[str]:
    """All names in the file that `**` may pass as a keyword."""
    texts = {node.value for node in source.nodes_of(ast.Constant) if isinstance(node.value, str)}
    texts.update(node.arg for node in source.nodes_of(ast.keyword) if node.arg is not None)
    return frozenset(text for text in texts if text.isidentifier())


class _Names:
    """What the names of a file may refer to: classes, functions and modules of the covered packages."""

    def __init__(self, source: Source) -> None:
        self.meant = defaultdict[str, set[str]](set)
        """The paths in a package that a name may refer to; for a class, those of its bases."""
        for node in imports(source):
            if isinstance(node, ast.Import):
                self._note_modules(node)
            elif not node.level:
                self._note_names(node)
        if self.meant:
            self._follow(source)

    def _note_modules(self, node: ast.Import) -> None:
        for alias in node.names:
            if _package(alias.name) in tables.COVERED_PACKAGES:
                self.meant[alias.asname or alias.name.partition(".")[0]].add(_package(alias.name))

    def _note_names(self, node: ast.ImportFrom) -> None:
        package = _package(node.module or "")
        if package not in tables.COVERED_PACKAGES:
            return
        for alias in node.names:
            if alias.name == "*":
                for name in _paths_by_name(package):
                    self.meant[name].add(f"{package}.{name}")
            else:
                self.meant[alias.asname or alias.name].add(f"{package}.{alias.name}")

    def _follow(self, source: Source) -> None:
        for _ in range(MOST_ROUNDS):
            before = sum(map(len, self.meant.values()))
            for assigned in source.nodes_of(ast.Assign):
                for target in assigned.targets:
                    if isinstance(target, ast.Name):
                        self.meant[target.id] |= self._of(assigned.value)
            for made in source.nodes_of(ast.ClassDef):
                for base in made.bases:
                    self.meant[made.name] |= self._of(base)
                    self.meant["__init__"] |= self._of(base)
            if sum(map(len, self.meant.values())) == before:
                return

    def _of(self, node: ast.expr) -> set[str]:
        if isinstance(node, ast.Name):
            return self.meant.get(node.id, set())
        parts = list[str]()
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        owners = self.meant.get(node.id, set()) if parts and isinstance(node, ast.Name) else set[str]()
        return {".".join((owner, *reversed(parts))) for owner in owners}

    def called(self, call: ast.Call) -> set[str]:
        """The full names in the tables that a call may refer to, as a function or as a class."""
        func = call.func
        if isinstance(func, ast.Attribute) and func.attr == "__init__":
            meant = self.meant.get("__init__", set())
        else:
            meant = self._of(func)
            if call.args and func.__class__ in (ast.Name, ast.Attribute) and _ends_with_partial(func):
                meant = self._of(call.args[0])
        return {path for each in meant for path in _paths(each)}


def _ends_with_partial(func: ast.expr) -> bool:
    return getattr(func, "attr", getattr(func, "id", "")) == "partial"


def _package(module: str) -> str:
    top = module.partition(".")[0]
    return ALIASES.get(top, top)


def _paths(meant: str) -> Iterator[str]:
    """A name as it is written, and the full names in the tables that end with the same name."""
    package, _, rest = meant.partition(".")
    yield meant
    yield from _paths_by_name(package).get(rest.rpartition(".")[2], ())


@cache
def _paths_by_name(package: str) -> Mapping[str, tuple[str, ...]]:
    """The classes and functions of a package by the last part of their names, without methods."""
    found = defaultdict[str, list[str]](list)
    for path in tables.callable_names(package):
        owner, _, name = path.rpartition(".")
        if not owner.rpartition(".")[2][:1].isupper():
            found[name].append(path)
    return {name: tuple(paths) for name, paths in found.items()}
