"""The files that a run reads: named ones, and those in named folders."""

# ruff: noqa: PTH100, PTH110, PTH112, PTH118, PTH119, PTH120, PTH109, PTH208
# A walk makes thousands of paths, and a `Path` costs ten times a string.

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING

from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.source.gitignore import Ignores

SUFFIXES = (".py", ".ipynb")

CONFIGURED = (".yaml", ".yml", ".json")
"""Files of these kinds are read if their keys are those of a training configuration."""

TEXTS = (".txt", ".md", ".rst", ".toml", ".cfg", ".ini", ".csv", ".tsv", ".log", ".html", ".xml", ".lock", ".jsonl")
"""Files that are not Python, even if they are named."""

LARGEST_CONFIGURED = 64 * 1024

DEFAULT_EXCLUDES = (
    "*{{*}}*",  # a template's file or folder, before cookiecutter names it
    ".bzr",
    ".direnv",
    ".eggs",
    ".git",
    ".hg",
    ".ipynb_checkpoints",
    ".lintrain_cache",
    ".mypy_cache",
    ".nox",
    ".pyenv",
    ".pytest_cache",
    ".pytype",
    ".ruff_cache",
    ".svn",
    ".tox",
    ".venv",
    ".vscode",
    "__pycache__",
    "__pypackages__",
    "_build",
    "build",
    "dist",
    "node_modules",
    "site-packages",
    "venv",
)


class MissingPathError(Exception):
    """A file or folder that was named and does not exist."""


@dataclass(frozen=True, slots=True)
class Excludes:
    """Patterns of paths to leave out: a name (`build`, `*_old.py`) anywhere, or a path from the root (`docs/*.py`)."""

    patterns: tuple[str, ...] = DEFAULT_EXCLUDES
    root: str = ""

    def leave_out(self, path: str) -> bool:
        """Whether a pattern names this file or folder itself."""
        return self.names(os.path.abspath(path))

    def names(self, absolute: str) -> bool:
        """As `leave_out`, of an absolute path."""
        literal, wild = _by_signs(self.patterns)
        name = os.path.basename(absolute)
        below = absolute.removeprefix(self.root.rstrip(os.sep) + os.sep).replace(os.sep, "/")
        if name in literal or below in literal:
            return True
        return any(fnmatchcase(text, each) for each in wild for text in (name, below, absolute.replace(os.sep, "/")))

    def leave_out_within(self, path: str) -> bool:
        """Whether a pattern names this file or a folder around it, as far up as the root."""
        current = os.path.abspath(path)
        while current not in (self.root, os.path.dirname(current)):
            if self.names(current):
                return True
            current = os.path.dirname(current)
        return False


@lru_cache(maxsize=64)
def _by_signs(patterns: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Patterns that are plain names and paths, and those with wildcards."""
    literal = [pattern.rstrip("/") for pattern in patterns]
    wild = (pattern.removeprefix("./") for pattern in literal if any(sign in pattern for sign in "*?[/"))
    return frozenset(literal), tuple(wild)


def nothing() -> None:
    """Do nothing, in each folder of a search that is not observed."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """How files are searched for; `on_folder` is called in each folder."""

    excludes: Excludes = field(default_factory=Excludes)
    respect_gitignore: bool = True
    force_exclude: bool = False
    on_folder: Callable[[], None] = nothing

    def find(self, paths: Iterable[str]) -> list[str]:
        """The files to read, in order of their paths, each once; raises MissingPathError."""
        given = list(paths)
        _demand_existing(given)
        found: dict[str, str] = {}
        for path in given:
            for real, file in self._files(path):
                found.setdefault(real, _as_shown(file))
        return sorted(found.values())

    def _files(self, path: str) -> Iterator[tuple[str, str]]:
        """The files that a path means, each with its real path."""
        if self.force_exclude and self.excludes.leave_out_within(path):
            return
        if not os.path.isdir(path):
            if not path.endswith((*CONFIGURED, *TEXTS)) or (path.endswith(CONFIGURED) and _is_configuration(path)):
                yield os.path.realpath(path), path
        elif self.respect_gitignore:
            from lintrain.source.gitignore import Ignores

            yield from self._walk(path, Ignores.above(path), self._bounds(path))
        else:
            yield from self._walk(path, None, self._bounds(path))

    def _bounds(self, folder: str) -> tuple[str, ...]:
        """The folders that a link among the files of this one may lead into; others are not shown."""
        return tuple({os.path.join(os.path.realpath(each), "") for each in (folder, self.excludes.root or ".", ".")})

    def _walk(self, folder: str, ignores: Ignores | None, bounds: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        """The Python files below a folder; folders behind symbolic links are not entered, so there are no loops."""
        self.on_folder()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            return
        if ignores:
            ignores = ignores.within(folder, {entry.name for entry in entries})
        absolute, real = os.path.abspath(folder), os.path.realpath(folder)
        for entry in entries:
            is_folder = entry.is_dir(follow_symlinks=False)
            is_script = entry.name.endswith(SUFFIXES)
            if not is_folder and not ((is_script or entry.name.endswith(CONFIGURED)) and _is_ours(entry, bounds)):
                continue
            path = os.path.join(absolute, entry.name)
            if self.excludes.names(path) or (ignores and ignores.leave_out(path, is_folder)):
                continue
            if is_folder:
                yield from self._walk(entry.path, ignores, bounds)
            elif is_script or _is_configuration(path):
                is_link = entry.is_symlink()
                yield os.path.realpath(path) if is_link else os.path.join(real, entry.name), entry.path


WRITTEN = re.compile(r"checkpoint-\d+")
"""Names of folders that a training writes: what it was configured with is in them, and starts nothing."""


def _is_configuration(path: str) -> bool:
    """Whether a YAML or JSON file is a training configuration; the keys of most tell without parsing them."""
    if WRITTEN.fullmatch(os.path.basename(os.path.dirname(path))):
        return False
    from lintrain.configurations.document import outline
    from lintrain.configurations.kinds import may_configure, parts_of
    from lintrain.source.reading import UnreadableError, read_bytes, read_start

    try:
        raw = read_start(path, LARGEST_CONFIGURED + 1)
        if len(raw) > LARGEST_CONFIGURED or not may_configure(raw):
            return False
        source = read_bytes(path, raw)
    except (OSError, UnreadableError):
        return False
    known = outline(source.text) if path.endswith(".json") else None
    if known is not None:
        return bool(parts_of(known))
    from lintrain.source.configuration import Configuration

    return isinstance(source, Configuration) and bool(source.parts)


def _is_ours(entry: os.DirEntry[str], bounds: tuple[str, ...]) -> bool:
    """Whether an entry is a file, or a link to one within the bounds."""
    try:
        return entry.is_file() and (not entry.is_symlink() or os.path.realpath(entry.path).startswith(bounds))
    except OSError:
        return False  # a link that leads to itself


def _demand_existing(paths: list[str]) -> None:
    missing = [path for path in paths if not os.path.exists(path)]
    if missing:
        raise MissingPathError("\n".join(f"`{path}` does not exist{_nearest(path)}" for path in missing))


def _nearest(path: str) -> str:
    """The file with the name most similar to that of a missing one, as the end of a message."""
    from difflib import get_close_matches

    folder, name = os.path.split(path)
    try:
        near = get_close_matches(name, os.listdir(folder or "."), n=1)
    except OSError:
        return ""
    return f"; nearest: `{os.path.join(folder, near[0])}`" if near else ""


def _as_shown(path: str) -> str:
    """A path as reports show it: relative to the working folder if it is below that."""
    normal = os.path.normpath(path)
    here = os.getcwd() + os.sep
    return normal.removeprefix(here)
