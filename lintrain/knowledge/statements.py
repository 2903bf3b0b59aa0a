"""The versions in the files of a project: lock files, requirements, pyproject, environments.

No parser is used: tomllib takes a tenth of a second for a lock file of a megabyte, a search two milliseconds.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lintrain.cache.noted import note, note_asked, note_listed
from lintrain.knowledge.requirement_lines import (
    PUBLISHED_AS,
    Statement,
    installs_by_address,
    package_named,
    requirements_in,
)
from lintrain.source.reading import read_plain_text
from lintrain.startup.lazy_pattern import lazy_pattern

_LARGEST_FILE = 16 * 1024 * 1024
_LONGEST_LINE = 2000
"""Characters of a line with a requirement; the patterns below would take too long on a longer one."""
_DEPENDENCY_SECTION = lazy_pattern(
    r"^\[(project|dependency-groups|tool\.(poetry|pdm|uv|hatch)\b|project\.optional-dep)"
)


PYTHONS = "python*"
"""The folders of an environment that contain the installed packages, one for each version of Python."""

SPEAKING_NAMES = (
    "*requirements*",
    *("*constraints*.txt", "*env*.yml", "*env*.yaml", "conda*.yml", "conda*.yaml", "*Dockerfile*", "install*.sh"),
    *("README.md", "README.rst", "README.txt", "readme.md"),
    *("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock", "Pipfile"),
    *("pyproject.toml", "setup.py", "setup.cfg", "src", ".venv", "venv"),
)
"""The file names that are searched for, and the requested packages."""

CONDA = ("*env*.yml", "*env*.yaml", "conda*.yml", "conda*.yaml")
"""The files of conda's environments."""


class _Patterns(NamedTuple):
    """A package in a line of requirements, in a quoted dependency, and in one of poetry."""

    required: re.Pattern[str]
    quoted: re.Pattern[str]
    assigned: re.Pattern[str]


@cache
def _patterns(packages: tuple[str, ...]) -> _Patterns:
    names = "|".join(map(re.escape, packages))
    begin = r"\s*(?:-\s*)?(?:[\w-]+::)?(?:install_requires\s*=\s*)?[\"']?"
    clause = r"[=<>!~]=?=?\s*[\w.*+!]+"
    return _Patterns(
        re.compile(rf"^{begin}({names})\s*(?:\[[^\]]*\])?\s*({clause}(?:\s*,\s*{clause})*)", re.I),
        re.compile(rf"[\"']({names})\s*(?:\[[^\]]*\])?\s*\(?([=<>!~][^;\"']*?)\)?\s*[;\"']", re.I),
        re.compile(rf"^\s*({names})\s*=\s*(?:\{{.*?version\s*=\s*)?[\"']([\^~=<>!\d][^\"']*)[\"']", re.I),
    )


class Reader:
    """Reads the requirements of one folder for some packages; a file that cannot be read becomes a note."""

    def __init__(self, folder: Path, packages: Iterable[str]) -> None:
        self.folder = folder
        self.packages = tuple(packages)
        self.notes: list[str] = []
        self._here = frozenset(_names_in(folder, *SPEAKING_NAMES, *self.packages))

    def _names(self) -> list[str]:
        return [*self.packages, *(name for name, package in PUBLISHED_AS.items() if package in self.packages)]

    def lock_files(self) -> Iterator[Statement]:
        """The versions that lock files pin."""
        pinned = re.compile(rf'^name = "({"|".join(self._names())})"\r?\nversion = "([^"]+)"', re.MULTILINE)
        for name in ("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml"):
            locked = self._text(name) or ""
            for found in pinned.finditer(locked):
                yield Statement(package_named(found[1]), f"=={found[2]}", f"{name}:{_line(locked, found.end())}")
        if text := self._text("Pipfile.lock"):
            for package in self._names():
                if (one := re.search(rf'"{package}":\s*\{{[^{{}}]*?"version":\s*"(==[^"]+)"', text)) is not None:
                    yield Statement(package_named(package), one[1], f"Pipfile.lock:{_line(text, one.end())}")

    def requirements(self) -> Iterator[Statement]:
        """The versions in requirements, constraints and environments of conda, the plain name first."""
        names = [name for name in self._matching("*requirements*") if name.endswith((".txt", ".in"))]
        below = [f"requirements/{path.name}" for path in self._listed("requirements", "*.txt")]
        names.sort(key=lambda each: (each != "requirements.txt", each))
        for name in (*names, *sorted(below), *self._matching("*constraints*.txt"), *self._matching(*CONDA)):
            yield from self._required_in(name)

    def setup(self) -> Iterator[Statement]:
        """The requirements of `setup.py`, `setup.cfg` and a `Pipfile`."""
        _, quoted, assigned = _patterns(tuple(self._names()))
        for name, pattern in (("setup.py", quoted), ("Pipfile", assigned)):
            for number, line in enumerate((self._text(name) or "").splitlines(), 1):
                for found in pattern.finditer(line) if len(line) <= _LONGEST_LINE else ():
                    yield Statement(package_named(found[1]), found[2].strip(), f"{name}:{number}")
        yield from self._required_in("setup.cfg")

    def installs(self) -> Iterator[Statement]:
        """What a Dockerfile or a script for the installation installs, and what a README pins."""
        for name in self._matching("*Dockerfile*", "install*.sh"):
            for number, line in enumerate((self._text(name) or "").splitlines(), 1):
                if len(line) <= _LONGEST_LINE and not line.lstrip().startswith("#"):
                    yield from requirements_in(line, f"{name}:{number}")
        for name in self._matching("README.*", "readme.md"):
            for number, line in enumerate((self._text(name) or "").splitlines(), 1):
                if "==" in line and len(line) <= _LONGEST_LINE:
                    yield from requirements_in(line, f"{name}:{number}")

    def _required_in(self, name: str) -> Iterator[Statement]:
        """The requirements of a file that has one in each line."""
        required = _patterns(tuple(self._names())).required
        for number, line in enumerate((self._text(name) or "").splitlines(), 1):
            if len(line) > _LONGEST_LINE or line.lstrip().startswith("#"):
                continue
            if found := required.match(line):
                yield Statement(package_named(found[1]), found[2], f"{name}:{number}")
            elif "git+" in line or ".whl" in line:
                yield from installs_by_address(line, f"{name}:{number}")

    def _matching(self, *patterns: str) -> list[str]:
        """The names in the folder that match one of the patterns, in order."""
        return sorted(name for name in self._here if any(fnmatchcase(name, pattern) for pattern in patterns))

    def pyproject(self) -> Iterator[Statement]:
        """The dependencies in pyproject.toml, in the standard form and in poetry's."""
        is_inside = False
        _, *patterns = _patterns(tuple(self._names()))
        for number, line in enumerate((self._text("pyproject.toml") or "").splitlines(), 1):
            if line.startswith("["):
                is_inside = _DEPENDENCY_SECTION.match(line) is not None
            elif is_inside and len(line) <= _LONGEST_LINE:
                for pattern in patterns:
                    for found in pattern.finditer(line):
                        yield Statement(package_named(found[1]), found[2].strip(), f"pyproject.toml:{number}")

    def own_packages(self) -> Iterator[str]:
        """The packages whose source code is in this folder, next to their build configuration: their own repository."""
        builds = self._here & {"pyproject.toml", "setup.py", "setup.cfg"}
        for package in self.packages if builds else ():
            locations = [location for location, first in (("", package), ("src", "src")) if first in self._here]
            if any(_is_file(self.folder / location / package / "__init__.py") for location in locations):
                yield package

    def environment(self) -> Iterator[Statement]:
        """The packages that are installed in the project's own `.venv` or `venv`."""
        for name in (".venv", "venv"):
            if name in self._here:
                pythons = sorted(_names_in(self.folder / name / "lib", PYTHONS))
                above = ["Lib", *(f"lib/{python}" for python in pythons if fnmatchcase(python, PYTHONS))]
                yield from self.installed([self.folder / name / each / "site-packages" for each in above], name)

    def installed(self, folders: Iterable[Path], source: str) -> Iterator[Statement]:
        """The versions in the names of the `.dist-info` folders; no installed file is opened."""
        for folder in folders:
            for name in _names_in(folder, "*.dist-info"):
                if name.endswith(".dist-info"):
                    package, _, version = name.removesuffix(".dist-info").partition("-")
                    if package_named(package) in self.packages:
                        yield Statement(package_named(package), f"=={version}", source)

    def _text(self, name: str) -> str | None:
        if name.partition("/")[0] not in self._here:
            return None
        path = self.folder / name
        note(path)
        try:
            return read_plain_text(path, _LARGEST_FILE)
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            reason = (isinstance(error, OSError) and error.strerror) or error
            self.notes.append(f"{path}: not read for versions: {reason}")
            return None

    def _listed(self, name: str, pattern: str) -> list[Path]:
        """The matches of a pattern for a folder inside this one."""
        if name not in self._here:
            return []
        note_listed(self.folder / name, pattern)
        try:
            return sorted((self.folder / name).glob(pattern))
        except OSError as error:
            self.notes.append(f"{self.folder}: not read for versions: {error}")
            return []


def interpreter_folders() -> list[Path]:
    """The package folder of the interpreter that runs lintrain."""
    return [Path(entry) for entry in sys.path if entry.endswith(("site-packages", "dist-packages"))]


def _is_file(path: Path) -> bool:
    note_asked(path)
    return path.is_file()


def _names_in(folder: Path, *patterns: str) -> list[str]:
    """The names in a folder that match one of the patterns."""
    note_listed(folder, *patterns)
    try:
        return os.listdir(folder)  # noqa: PTH208 - hundreds of names, of which only the few packages' are paths
    except OSError:
        # An environment that is partly deleted or not readable counts as missing.
        return []


def _line(text: str, position: int) -> int:
    return text.count("\n", 0, position) + 1
