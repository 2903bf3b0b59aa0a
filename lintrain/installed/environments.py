"""The environments of a project, and where they hold a package; no interpreter is started and no hook is run.

The probe starts the interpreter of one, and a check reads the source of its packages.
"""

# Every import of a script asks, and a `Path` costs ten times a string.

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from dataclasses import field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from lintrain.cache.noted import Memory, note, note_asked, note_listed
from lintrain.installed.facts import RUNNING
from lintrain.source.reading import read_plain_text
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

FOLDER_NAMES = (".venv", "venv")
MOST_FOLDERS_ABOVE = 10

LARGEST_LIST = 256 * 1024
"""Bytes of a file about packages: what a package requires, and paths of editable installations."""

MOST_LISTS = 200
"""Files with paths of editable installations, and paths in them."""

TRAINING = "accelerate|datasets|evaluate|keras|lightning|peft|pytorch[-_]lightning|tensorflow|torch|transformers|trl"
REQUIRES_TRAINING = lazy_pattern(rf"^Requires-Dist:\s*(?:{TRAINING})(?![\w.-])(?!.*\bextra\s*==)", re.I | re.M)
"""A line of a package's metadata by which it builds on a library of training, without an extra."""

MAPPING = lazy_pattern(r"^MAPPING\b[^=]*=\s*(\{[^}]*\})", re.M)
"""Where the finder that setuptools writes for an editable installation has its packages."""

PLAIN_PATH = lazy_pattern(r"(?!import\b|#)\S.*")


def environment_folders(script_folder: Path, here: Path | None = None) -> Iterator[Path]:
    """The folders of virtual environments that a project may run in, the likeliest first: its own, then the active."""
    for folder in (*([here] if here else []), script_folder, *script_folder.parents):
        for name in FOLDER_NAMES:
            yield folder / name
    if active := os.environ.get("VIRTUAL_ENV"):
        yield Path(active)


@dataclass(frozen=True, slots=True)
class InstalledPackage:
    """An installed package: the folder that it is in, and its distribution; `builds_on_training` by its metadata."""

    folder: str
    name: str
    version: str
    source: str
    builds_on_training: bool
    distribution: str = ""
    """The name that requirements call it by."""

    @property
    def is_beside_us(self) -> bool:
        """Whether it is installed for lintrain: the project may run on another version."""
        return self.source == RUNNING


@dataclass(eq=False)
class Environment:
    """The folders of packages of one environment."""

    folders: tuple[str, ...]
    shown: str
    _packages: Memory[str, InstalledPackage | None] = field(default_factory=Memory[str, "InstalledPackage | None"])
    _editable: dict[str, str] | None = None
    _owners: dict[str, str] | None = None

    def find(self, name: str) -> InstalledPackage | None:
        """Where it holds a package; None if it does not."""
        return self._packages.get(name, lambda: self._find(name))

    def _find(self, name: str) -> InstalledPackage | None:
        for folder in self.folders:
            note_listed(folder, name, f"{name}.py", "*.pth", "*.dist-info")
            if _is_package(folder, name):
                return self._described(folder, name)
        elsewhere = self._elsewhere(name)
        return self._described(elsewhere, name) if elsewhere else None

    def _described(self, folder: str, name: str) -> InstalledPackage:
        info = self._distribution(name)
        version = os.path.basename(info).removesuffix(".dist-info").partition("-")[2] if info else ""
        metadata = _text_of(os.path.join(info, "METADATA")) if info else ""
        builds = not info or REQUIRES_TRAINING.search(metadata) is not None
        distribution = os.path.basename(info).partition("-")[0] or name
        return InstalledPackage(folder, name, version, self.shown, builds, distribution)

    def _distribution(self, name: str) -> str:
        """The folder with the metadata of the distribution that brings a package."""
        infos = [os.path.join(each, info) for each in self.folders for info in _names(each, "*.dist-info")]
        plain = _plain(name)
        same = (info for info in infos if _plain(os.path.basename(info).partition("-")[0]) == plain)
        found = next(same, "")
        if found:
            return found
        if self._owners is None:
            self._owners = {
                line.strip(): info
                for info in infos[: MOST_LISTS * 10]
                for line in _text_of(os.path.join(info, "top_level.txt")).split("\n")[:MOST_LISTS]
            }
        return self._owners.get(name, "")

    def _elsewhere(self, name: str) -> str:
        """The folder of an editable installation; empty if there is none."""
        if self._editable is None:
            self._editable = dict(self._editable_packages())
        if name in self._editable:
            return self._editable[name]
        roots = (folder for key, folder in self._editable.items() if key.startswith("/"))
        return next((folder for folder in roots if _is_package(folder, name)), "")

    def _editable_packages(self) -> Iterator[tuple[str, str]]:
        """Folders by the package in them, or by themselves if they are searched for any package."""
        for folder in self.folders:
            for file in _names(folder, "*.pth")[:MOST_LISTS]:
                for line in _text_of(os.path.join(folder, file)).split("\n")[:MOST_LISTS]:
                    path = os.path.join(folder, line.strip())
                    if PLAIN_PATH.match(line) and "\0" not in path and os.path.isdir(path):
                        yield "/" + path, path
            for file in _names(folder, "__editable___*_finder.py")[:MOST_LISTS]:
                yield from _mapped(_text_of(os.path.join(folder, file)))


def _mapped(finder: str) -> Iterator[tuple[str, str]]:
    """The packages that an editable installation's finder knows, with the folders that they are in."""
    import ast

    found = MAPPING.search(finder)
    try:
        mapping: object = ast.literal_eval(found[1]) if found is not None else {}
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return
    known = cast("dict[object, object]", mapping) if isinstance(mapping, dict) else {}
    for name, path in known.items():
        if isinstance(name, str) and isinstance(path, str) and os.path.basename(path) == name:
            yield name, os.path.dirname(path)


def environment_in(folder: str, shown: str) -> Environment | None:
    """The virtual environment in a folder; None if there is none."""
    note_asked(folder)
    if not os.path.isdir(folder):
        return None
    pythons = sorted(_names(os.path.join(folder, "lib"), "python*"))
    above = [os.path.join(folder, "Lib"), *(os.path.join(folder, "lib", python) for python in pythons)]
    folders = tuple(os.path.join(each, "site-packages") for each in above)
    held = tuple(each for each in folders if os.path.isdir(each))
    return Environment(held, shown) if held else None


def running_environment() -> Environment:
    """The packages of the interpreter that runs lintrain."""
    entries = (entry for entry in sys.path if entry.endswith(("site-packages", "dist-packages")))
    return Environment(tuple(entries), RUNNING)


def _is_package(folder: str, name: str) -> bool:
    inner = os.path.join(folder, name)
    return os.path.isfile(os.path.join(inner, "__init__.py")) or os.path.isfile(f"{inner}.py")


def _plain(name: str) -> str:
    return name.lower().replace("-", "_").replace(".", "_")


def _names(folder: str, pattern: str) -> list[str]:
    note_listed(folder, pattern)
    try:
        return [name for name in os.listdir(folder) if fnmatchcase(name, pattern)]
    except OSError:
        return []


def _text_of(path: str) -> str:
    """The text of a small file; empty if there is none."""
    note(path)
    try:
        return read_plain_text(Path(path), LARGEST_LIST)
    except (OSError, UnicodeDecodeError, ValueError):
        return ""
