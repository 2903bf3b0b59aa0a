"""Which files of a project depend on others: by their imports, and by the data and settings that they name.

Nothing is parsed for it: a statement of import is known by how its line begins. One in a string counts too, so that a
file may depend on more than it does, and never on less.
"""

# ruff: noqa: PTH119, PTH120
# A project has thousands of files, and a `Path` costs ten times a string.

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import field

from lintrain.source.project import ModuleFile, Project
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

IMPORT = lazy_pattern(
    r"^[ \t]*+(?:import[ \t]+(?P<modules>[^\n#;]+)"
    r"|from[ \t]++(?P<dots>\.*+)[ \t]*+(?P<module>(?!import\b)[\w.]*+)[ \t]*+import[ \t]*+"
    r"(?P<names>\([^)]{0,20000}+\)|[^\n#;]+))",
    re.MULTILINE,
)

READ_BESIDE = (".json", ".jsonl", ".yaml", ".yml", ".csv", ".tsv", ".parquet")
"""Files that are read beside a script which names them."""


@dataclass(eq=False)
class Importers:
    """What the files of one project depend on; all paths are real and absolute."""

    project: Project = field(default_factory=Project)
    _meant: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict[tuple[str, str], frozenset[str]])
    """What statements mean in a folder: many of its files have the same."""

    def reaching(self, files: Iterable[str], changed: Collection[str]) -> set[str]:
        """Those of the files that are among the changed ones, or depend on one of them, over others or directly."""
        named = {os.path.basename(path): path for path in changed if path.endswith(READ_BESIDE)}
        given = list(files)
        users = self._users(given, named)
        reached = set(changed)
        waiting = list(changed)
        while waiting:
            fresh = users.get(waiting.pop(), set()) - reached
            reached |= fresh
            waiting.extend(fresh)
        return reached.intersection(given)

    def _users(self, files: Iterable[str], named: dict[str, str]) -> dict[str, set[str]]:
        """Which files depend directly on a file, among all that the given ones lead to."""
        users: dict[str, set[str]] = {}
        waiting = list(files)
        seen = set(waiting)
        while waiting:
            file = waiting.pop()
            text = _text(file)
            for used in (*self._imported(file, text), *(path for name, path in named.items() if name in text)):
                users.setdefault(used, set()).add(file)
                if used not in seen:
                    seen.add(used)
                    waiting.append(used)
        return users

    def _imported(self, file: str, text: str) -> Iterator[str]:
        """The files of the project that the imports in a file mean, with the packages around them."""
        folder = os.path.dirname(file)
        for statement in IMPORT.finditer(text.replace("\\\n", " ")):
            said = (folder, statement[0].strip())
            if said not in self._meant:
                modules = self._modules(file, statement)
                self._meant[said] = frozenset(os.path.realpath(module.file) for module in modules if module.file)
            yield from self._meant[said]

    def _modules(self, file: str, statement: re.Match[str]) -> Iterator[ModuleFile]:
        if statement["modules"]:
            for name in _names(statement["modules"]):
                yield from self._with_packages(file, name)
            return
        dots, path = statement["dots"], statement["module"]
        if dots:
            module = self.project.find_relative(file, len(dots), path)
        else:
            yield from self._with_packages(file, path)
            module = self.project.find(file, path)
        if module is None:
            return
        yield module
        below = (self.project.submodule(module, name) for name in _names(statement["names"]))
        yield from (each for each in below if each)

    def _with_packages(self, file: str, name: str) -> Iterator[ModuleFile]:
        """A module and the packages that are imported before it."""
        parts = name.split(".")
        if self.project.find(file, parts[0]) is None:
            return
        found = (self.project.find(file, ".".join(parts[: count + 1])) for count in range(len(parts)))
        yield from (each for each in found if each)


def _names(listed: str) -> list[str]:
    """The names of a statement's list, without what they are called in the file."""
    bare = re.sub(r"#.*", "", listed).strip("() \t\n")
    return [words[0] for part in bare.split(",") if (words := part.split())]


def _text(file: str) -> str:
    """The code of a file; empty where it is none or cannot be read."""
    if not file.endswith((".py", ".ipynb")):
        return ""
    try:
        return read_bytes(file, load_bytes(file)).text
    except UnreadableError:
        return ""
