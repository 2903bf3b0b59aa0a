"""Whether a script trains by what it imports from modules of its project: decided by names, without reading them."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import chain
from typing import NamedTuple, TypeGuard

from lintrain.source.nodes import walk
from lintrain.source.project import Project
from lintrain.source.source import Source
from lintrain.source.training_syntax import ANYWHERE, TRAINING_ACTS, acts_of, imports, is_act, words_in
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOST_IMPORTS = 40
"""Imports of a file that are followed, and names of one of them."""

DEEPEST = 1
"""Modules between a script and the one that trains for it."""

RUNNING, MAIN = "", "if __name__"
"""The keys of the statements that a module runs, and of those that it runs only as a script."""

LIBRARIES = frozenset(TRAINING_ACTS) | sys.stdlib_module_names
"""Packages that are not modules of a project."""

ACTS_IN_BYTES = lazy_pattern("|".join(sorted({"Trainer", *ANYWHERE, *chain(*TRAINING_ACTS.values())})).encode())

CALLED_BY_LIBRARIES = frozenset(
    {"compute_loss", "configure_optimizers", "forward", "train_dataloader", "train_step", "training_step"}
)
"""Methods that no script calls by their names."""

STAR = "from "
"""How the name of what a star brings in begins."""


class _Wanted(NamedTuple):
    """What a file imports from a module: one of its names, or (None) the module, under a name of the file's own."""

    level: int
    module: str
    name: str | None


@dataclass(frozen=True, slots=True)
class _Contents:
    """What a file has at its top level: each name with the words of what defines it, methods by theirs, and imports."""

    words: Mapping[str, frozenset[str]]
    methods: Mapping[str, frozenset[str]]
    imported: Mapping[str, Sequence[_Wanted]]

    def words_of(self, names: frozenset[str], called: frozenset[str]) -> frozenset[str]:
        """The words of these names' definitions and of the called methods, and of all that those use in turn."""
        found, pending = set[str](), {RUNNING, *names, *(called & self.methods.keys())}
        while pending:
            name = pending.pop()
            words = self.words.get(name, frozenset[str]()) | self.methods.get(name, frozenset[str]())
            pending |= (words - found) & (self.words.keys() | self.methods.keys())
            found |= words
        return frozenset(found | (names & self.imported.keys()))


def imports_training(source: Source, project: Project) -> bool:
    """Whether what a script uses of its project's modules trains."""
    contents = source.cached(_contents)
    used = contents.words_of(frozenset(contents.words), frozenset(contents.methods))
    return _Search(source, project).leads_on(source.path, contents, used, DEEPEST)


@dataclass(eq=False, slots=True)
class _Search:
    """The modules that are visited for one script, each once for the same names."""

    script: Source
    project: Project
    seen: set[tuple[str, frozenset[str]]] = field(default_factory=set[tuple[str, frozenset[str]]])

    def leads_on(self, path: str, contents: _Contents, used: frozenset[str], deeper: int) -> bool:
        """Whether an import of a file, of which these words are used, leads to training."""
        return any(
            self._trains(file, names, used, deeper)
            for name in list(contents.imported)[:MOST_IMPORTS]
            for wanted in contents.imported[name]
            for file, names in self._meant(path, wanted, used if name in used else frozenset())
        )

    def _meant(self, path: str, wanted: _Wanted, used: frozenset[str]) -> Iterator[tuple[str, frozenset[str]]]:
        """The file that an import refers to, and the names of it that are used: for a whole module all of its names."""
        level, name, project = wanted.level, wanted.module, self.project
        found = project.find_relative(path, level, name) if level else project.find(self.script.path, name)
        below = project.submodule(found, wanted.name) if found is not None and wanted.name is not None else None
        names = used if wanted.name is None or below is not None or not used else frozenset({wanted.name})
        module = below or found
        if module is not None and module.file is not None and (module.file, names) not in self.seen:
            self.seen.add((module.file, names))
            yield module.file, names

    def _trains(self, file: str, names: frozenset[str], used: frozenset[str], deeper: int) -> bool:
        is_last = deeper == 0
        code = None if is_last and not self.project.contains(file, ACTS_IN_BYTES) else self.project.load(file)
        if code is None:
            return False
        contents = code.cached(_contents)
        contained = contents.words_of(names, used)
        acts = acts_of(code)
        if any(is_act(word, acts) for word in contained):
            return True
        return not is_last and self.leads_on(file, contents, contained, deeper - 1)


def _contents(source: Source) -> _Contents:
    words = defaultdict[str, set[str]](set)
    methods = defaultdict[str, set[str]](set)
    imported = defaultdict[str, list[_Wanted]](list)
    for node in imports(source):
        for bound, wanted in _wanted(node):
            if _is_library(wanted):
                words[bound].update(wanted.module.split("."), [wanted.name] if wanted.name else ())
            else:
                imported[bound].append(wanted)
                if bound.startswith(STAR):
                    words[RUNNING].add(bound)
    for statement in source.tree.body:
        if isinstance(statement, ast.ClassDef):
            called = [part for part in statement.body if _is_called_by_name(part)]
            words[statement.name] |= words_in(statement).difference(*map(words_in, called))
            for method in called:
                methods[method.name] |= words_in(method)
        elif not isinstance(statement, ast.Import | ast.ImportFrom):
            contained = words_in(statement)
            for name in _names_made(statement):
                words[name] |= contained
    return _Contents(_frozen(words), _frozen(methods), imported)


def _frozen(words: Mapping[str, set[str]]) -> Mapping[str, frozenset[str]]:
    return {name: frozenset(found) for name, found in words.items()}


def _wanted(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, _Wanted]]:
    """What a statement imports, by the name that it gets in the file."""
    for alias in node.names:
        if isinstance(node, ast.Import):
            yield alias.asname or alias.name.partition(".")[0], _Wanted(0, alias.name, None)
        elif alias.name == "*":
            yield f"{STAR}{node.module}", _Wanted(node.level, node.module or "", None)
        else:
            yield alias.asname or alias.name, _Wanted(node.level, node.module or "", alias.name)


def _is_library(wanted: _Wanted) -> bool:
    return not wanted.level and wanted.module.partition(".")[0] in LIBRARIES


def _is_called_by_name(part: ast.stmt) -> TypeGuard[ast.FunctionDef]:
    """Whether a part of a class is a method that only those run who say its name."""
    if not isinstance(part, ast.FunctionDef):
        return False
    return not part.name.startswith("__") and part.name not in CALLED_BY_LIBRARIES


def _names_made(statement: ast.stmt) -> list[str]:
    """The names that a statement at the top level gives something; the name of none for what it runs."""
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
        return [statement.name]
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return [node.id for target in targets for node in walk(target) if isinstance(node, ast.Name)]
    is_main = isinstance(statement, ast.If) and "__name__" in words_in(statement.test)
    return [MAIN if is_main else RUNNING]
