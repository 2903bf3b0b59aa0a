"""The versions that the files of a project state: lock files, requirements, pyproject, environments, code and comments.

No parser is used: tomllib takes a tenth of a second for a lock file of a megabyte, a search two milliseconds.

In code: `pip install "transformers[torch]>=4.40,<5"` and `git+https://...`; `!pip install transformers==4.56.2` in a
cell, also on continued lines, behind variables or through another installer; `get_ipython().system("pip install ...")`
and `subprocess` calls; `# transformers==4.56.2` in a comment.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lintrain.cache.noted import note, note_asked, note_listed
from lintrain.knowledge.tables import CONFIGURED_PACKAGES, PACKAGES
from lintrain.source.reading import read_plain_text
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from lintrain.source.source import Source


_LARGEST_FILE = 16 * 1024 * 1024
_LONGEST_LINE = 2000
"""Characters of a line with a requirement; the patterns below would take too long on a longer one."""
_DEPENDENCY_SECTION = lazy_pattern(
    r"^\[(project|dependency-groups|tool\.(poetry|pdm|uv|hatch)\b|project\.optional-dep)"
)


PYTHONS = "python*"
"""The folders of an environment that contain the installed packages, one for each version of Python."""

MISSPELLED = "*req*ment*.txt"
"""`requirements.txt` as many write it: `requierments.txt`, `requirement.txt`."""

INSTALLS = ("install*.sh", "*setup*.sh")
"""Scripts of a shell that install a project."""

SPEAKING_NAMES = (
    *("*requirements*", MISSPELLED),
    *("*constraints*.txt", "*env*.yml", "*env*.yaml", "conda*.yml", "conda*.yaml", "*Dockerfile*", *INSTALLS),
    *("README.md", "README.rst", "README.txt", "readme.md"),
    *("uv.lock", "poetry.lock", "pdm.lock", "pylock.toml", "Pipfile.lock", "Pipfile"),
    *("pyproject.toml", "setup.py", "setup.cfg", "src", ".venv", "venv"),
)
"""The file names that are searched for, and the requested packages."""

CONDA = ("*env*.yml", "*env*.yaml", "conda*.yml", "conda*.yaml")
"""The files of conda's environments."""


class _Patterns(NamedTuple):
    """A package in a line of requirements, in a quoted dependency, in one of poetry, and in one with an address."""

    required: re.Pattern[str]
    quoted: re.Pattern[str]
    assigned: re.Pattern[str]
    addressed: re.Pattern[str]


@cache
def _patterns(packages: tuple[str, ...]) -> _Patterns:
    names = "|".join(map(re.escape, packages))
    begin = r"\s*(?:-\s*)?(?:[\w-]+::)?(?:install_requires\s*=\s*)?[\"']?"
    clause = r"[=<>!~]=?=?\s*[\w.*+!]+"
    return _Patterns(
        re.compile(rf"^{begin}({names})\s*(?:\[[^\]]*\])?\s*({clause}(?:\s*,\s*{clause})*)", re.I),
        re.compile(rf"[\"']({names})\s*(?:\[[^\]]*\])?\s*\(?([=<>!~][^;\"']*?)\)?\s*[;\"']", re.I),
        re.compile(rf"^\s*({names})\s*=\s*(?:\{{.*?version\s*=\s*)?[\"']([\^~=<>!\d][^\"']*)[\"']", re.I),
        re.compile(rf"^\s*({names})\s*=\s*\{{[^}}]*?\b(?:git|url)\s*=", re.I),
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
        names = [name for name in self._matching("*requirements*", MISSPELLED) if name.endswith((".txt", ".in"))]
        below = [f"requirements/{path.name}" for path in self._listed("requirements", "*.txt")]
        names.sort(key=lambda each: (each != "requirements.txt", each))
        for name in (*names, *sorted(below), *self._matching("*constraints*.txt"), *self._matching(*CONDA)):
            yield from self._required_in(name)

    def setup(self) -> Iterator[Statement]:
        """The requirements of `setup.py`, `setup.cfg` and a `Pipfile`."""
        _, quoted, assigned, _ = _patterns(tuple(self._names()))
        for name, pattern in (("setup.py", quoted), ("Pipfile", assigned)):
            for number, line in enumerate((self._text(name) or "").splitlines(), 1):
                for found in pattern.finditer(line) if len(line) <= _LONGEST_LINE else ():
                    yield Statement(package_named(found[1]), found[2].strip(), f"{name}:{number}")
        yield from self._required_in("setup.cfg")

    def installs(self) -> Iterator[Statement]:
        """What a Dockerfile or a script for the installation installs, and what a README pins."""
        for name in self._matching("*Dockerfile*", *INSTALLS):
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
        _, *patterns, addressed = _patterns(tuple(self._names()))
        for number, line in enumerate((self._text("pyproject.toml") or "").splitlines(), 1):
            if line.startswith("["):
                is_inside = _DEPENDENCY_SECTION.match(line) is not None
            elif is_inside and len(line) <= _LONGEST_LINE:
                for pattern in patterns:
                    for found in pattern.finditer(line):
                        yield Statement(package_named(found[1]), found[2].strip(), f"pyproject.toml:{number}")
                if source := addressed.match(line):  # from a repository, in any version
                    yield Statement(package_named(source[1]), "", f"pyproject.toml:{number}")

    def own_packages(self) -> Iterator[str]:
        """The packages whose source code is in this folder, next to their build configuration: their own repository."""
        builds = self._here & {"pyproject.toml", "setup.py", "setup.cfg"}
        for package in self.packages if builds else ():
            locations = [location for location, first in (("", package), ("src", "src")) if first in self._here]
            if any(_is_file(self.folder / location / package / "__init__.py") for location in locations):
                yield package
        # Forks of these tools often lack build files, and bring keys of their own.
        for package in CONFIGURED_PACKAGES:
            if package in self._here or ("src" in self._here and _is_folder(self.folder / "src" / package)):
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


def _is_folder(path: Path) -> bool:
    note_asked(path)
    return path.is_dir()


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


PUBLISHED_AS = {
    "pytorch-lightning": "lightning",
    "pytorch_lightning": "lightning",
    "pytorch": "torch",
    "pytorch-transformers": "transformers",
    "pytorch_transformers": "transformers",
}
"""Other names under which packages are or were published; `pytorch` is conda's."""

TENSORFLOWS = ("tensorflow", "tensorflow-cpu", "tensorflow-gpu", "tensorflow_cpu", "tensorflow_gpu")
"""The packages whose version decides about `tf.keras`."""

_EVERY = (*PACKAGES, *PUBLISHED_AS, *TENSORFLOWS)
_NAMES = "|".join(sorted(_EVERY, key=len, reverse=True))
_STEMS = tuple(name for name in _EVERY if not any(other in name for other in _EVERY if other != name))
"""Names of which each of those names contains one."""
_CLAUSE = r"(?:===?|[~!<>]=|[<>=])\s*v?\d[\w.*+!]*"
_PINNED = lazy_pattern(
    rf"(?<![\w./-])(?P<name>{_NAMES})(?:\[[^\]]*\])?\s*(?P<specifier>{_CLAUSE}(?:\s*,\s*{_CLAUSE})*)", re.IGNORECASE
)
_FROM_SOURCE = lazy_pattern(
    rf"git\+\S*/(?P<name>{_NAMES})(?:\.git)?(?:@(?P<tag>[\w.-]+))?(?=[@#\s\"',)]|$)", re.IGNORECASE
)
_FROM_WHEEL = lazy_pattern(rf"/(?P<name>{_NAMES})-(?P<version>\d+(?:\.\d+)+)[^/\s]*\.whl", re.IGNORECASE)
_NAMED = lazy_pattern(rf"(?<![\w./-])(?P<name>{_NAMES})(?=\s|$)", re.IGNORECASE)
_TAG = lazy_pattern(r"v?(\d+(?:\.\d+)+)$")


class Statement(NamedTuple):
    """The requirement of one source for a package: `specifier` as written there (`==4.46.3`, `>=4.40,<5`).

    `above` counts the folders from the script's up to that of the source.
    """

    package: str
    specifier: str
    source: str
    above: int = 0


def requirements_in(line: str, source: str) -> Iterator[Statement]:
    """The requirements in a line of a shell or of prose; an empty specifier for an install without a known version."""
    plain = line.replace('"', " ").replace("'", " ")
    for pinned in _PINNED.finditer(plain):
        yield Statement(package_named(pinned["name"]), pinned["specifier"].replace(" ", ""), source)
    for named in _NAMED.finditer(plain) if "--no-index" in line else ():
        yield Statement(package_named(named["name"]), "", source)  # from a folder of wheels, in any version
    yield from installs_by_address(plain, source)


def installs_by_address(line: str, source: str) -> Iterator[Statement]:
    """The packages that a line takes from a repository or a wheel; a tag or the wheel's name is their version."""
    for wheel in _FROM_WHEEL.finditer(line):
        yield Statement(package_named(wheel["name"]), f"=={wheel['version']}", source)
    for built in _FROM_SOURCE.finditer(line):
        tag = _TAG.match(built["tag"] or "")
        yield Statement(package_named(built["name"]), f"=={tag[1]}" if tag else "", source)


def package_named(name: str) -> str:
    """The package that is published under a name."""
    return PUBLISHED_AS.get(name.lower(), name.lower())


INSTALL = "an install in this file"
COMMENT = "a comment in this file"

_HINT = lazy_pattern(r"[=~<>]=\s*v?\d|[=<>]\d|git\+|\.whl|--no-index")
"""What every line that names a version holds."""

_FREQUENT = lazy_pattern(r"[=~<>+](?:(?<=[=~<>])=\s*v?\d|(?<=[=<>])\d|(?<=git\+))")
"""The same without what is rare: a pattern that begins with one of a few characters takes a third of the time."""

_LONGEST_REQUIREMENT = 4000
_SHOWN = lazy_pattern(r"\s*!\s*echo\b[^>]*$")
"""A line of a shell that only shows what it says."""

_EXACT = lazy_pattern(r"(?:===?|~=)\s*v?\d+\.\d")
_REQUIRES = lazy_pattern(r"\b(?:install|pip|conda|requires?|requirements?|dependenc(?:y|ies))\b", re.IGNORECASE)
_DOUBTS = lazy_pattern(
    r"\b(?:uninstall|bugs?|issues?|br[eo]a?ke?n?s?|fail\w*|errors?|not|since|before|prior|until|after|deprecated|removed)"
    r"\b|n't\b",
    re.IGNORECASE,
)
"""Words with which a comment speaks about a version that the script is not written for."""

_LIST_ITEM = lazy_pattern(r"\s*#?\s*(?:-\s+)?[\"']?[\w.\[\]-]+\s*[=~<>!\d.*,\s]+[\"']?,?\s*$")


def statements_in(source: Source) -> tuple[Statement, ...]:
    """The last version that a script or notebook names for each package; installs come before comments."""
    found: dict[str, Statement] = {}
    for statement in source.cached(_named):
        known = found.get(statement.package)
        if known is None or statement.source == INSTALL or known.source == COMMENT:
            found[statement.package] = statement
    return tuple(found.values())


def _named(source: Source) -> tuple[Statement, ...]:
    shell = source.notebook.masked.values() if source.notebook is not None else ()
    texts = (*((text, True) for text in _joined(shell)), *((text, False) for text in _hints(source.text)))
    return tuple(statement for text, is_shell in texts for statement in _in_line(text, is_shell=is_shell))


def _hints(text: str) -> Iterator[str]:
    """The lines of a text that may name a version, each once."""
    end = -1
    hint = _HINT if ".whl" in text or "--no-index" in text else _FREQUENT
    for found in hint.finditer(text):
        if found.start() > end:
            start = text.rfind("\n", 0, found.start()) + 1
            end = text.find("\n", start)
            end = end if end >= 0 else len(text)
            line = text[start:end]
            if any(stem in line.lower() for stem in _STEMS):
                yield line


def _joined(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a shell, each with those that a backslash joins to it."""
    whole = ""
    for line in lines:
        whole += line.removesuffix("\\")
        if not line.endswith("\\"):
            yield whole
            whole = ""
    if whole:
        yield whole


def _in_line(line: str, *, is_shell: bool) -> Iterator[Statement]:
    if len(line) > _LONGEST_REQUIREMENT or not _HINT.search(line) or "uninstall" in line or _SHOWN.match(line):
        return
    is_comment = line.lstrip().startswith("#") or not (is_shell or _REQUIRES.search(line))
    if is_comment and _DOUBTS.search(line):
        return
    is_requirement = is_shell or _REQUIRES.search(line) or ("#" in line and _LIST_ITEM.match(line))
    for statement in requirements_in(line, COMMENT if is_comment else INSTALL):
        if is_requirement or _EXACT.match(statement.specifier):
            yield statement
