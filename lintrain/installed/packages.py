"""What the packages that a script imports contain, where no table covers them: cached, else read by another process.

The key of what is cached is the folder of the package, the distribution's version, and the state of every file that was
read: another version and an edited file are read again. A package is read only if it builds on a library of training.
"""

from __future__ import annotations

import ast
import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from lintrain._version import __version__
from lintrain.cache.noted import Memory, note
from lintrain.installed.environments import (
    MOST_FOLDERS_ABOVE,
    Environment,
    InstalledPackage,
    environment_folders,
    environment_in,
    running_environment,
)
from lintrain.installed.facts import Facts, Installed, Version
from lintrain.source.training_syntax import imports
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.installed.process import ReadingProcess
    from lintrain.source.source import Source

FORMAT = 1
"""Changes with what the reading process finds."""

MOST_PACKAGES = 20
"""Packages that one run reads."""

MOST_NAMES = 200
"""Names of a package that are looked up for one script."""

LONGEST_CHAIN = 4
"""Parts of a dotted name that are looked up."""

MOST_KEPT = 500
"""Packages whose facts are cached."""

Contents = tuple[dict[str, Facts], dict[str, tuple[int, int]]]
"""What is known about names of a package, and the time and size of each file that it follows from."""


class Allowed(Protocol):
    """Which installed packages are read for a script."""

    def may_run_on(self, package: InstalledPackage) -> bool:
        """Whether a package concerns training, and its version is one that the project may run on."""
        ...


@dataclass(eq=False)
class PackageReader:
    """Reads packages for the scripts of one run; `cache` is the folder of earlier results, None for none.

    If it `waits`, it asks the reading process. Otherwise it returns what is cached, and notes what is missing.
    """

    cache: str | None = None
    waits: bool = True
    missing: dict[InstalledPackage, list[str]] = field(default_factory=dict[InstalledPackage, list[str]])
    """The names that are not cached, by package, where this does not wait for them."""
    _environments: Memory[str, Environment | None] = field(default_factory=Memory[str, "Environment | None"])
    _running: Environment | None = None
    _known: dict[tuple[str, str], Contents] = field(default_factory=dict[tuple[str, str], "Contents"])
    _process: ReadingProcess | None = None

    @property
    def seconds(self) -> float:
        """How long the reading process took for this run."""
        return self._process.seconds if self._process is not None else 0.0

    def installed(self, source: Source, tops: Iterable[str], allowed: Allowed) -> Installed:
        """What is known about the names that a script imports from these packages.

        `allowed` are the packages that may be read.
        """
        packages = {top: package for top in sorted(tops) if (package := self.package_of(source, top)) is not None}
        readable = {top: package for top, package in packages.items() if allowed.may_run_on(package)}
        names = names_of(source, frozenset(readable)) if readable else {}
        found: dict[str, Facts] = {}
        versions: dict[str, Version] = {}
        for top, paths in sorted(names.items()):
            package = readable[top]
            found.update(self._facts(package, sorted(paths)[:MOST_NAMES]))
            versions[top] = Version(package.version, package.source)
        found.update(dict(_by_public_name(found)))
        return Installed(found, versions)

    def package_of(self, source: Source, top: str) -> InstalledPackage | None:
        """The first environment's package of that name."""
        folder = Path(source.path).absolute().parent
        for number, each in enumerate(environment_folders(folder)):
            if number < 2 * MOST_FOLDERS_ABOVE or each == Path(os.environ.get("VIRTUAL_ENV", "")):
                path = str(each)
                environment = self._environments.get(path, lambda path=path: environment_in(path, _shown(path)))  # type: ignore[misc]
                if environment is not None and (package := environment.find(top)) is not None:
                    return package
        self._running = self._running or running_environment()
        return self._running.find(top)

    def _facts(self, package: InstalledPackage, paths: list[str]) -> Iterator[tuple[str, Facts]]:
        key = (package.folder, package.name)
        if key not in self._known:
            if len(self._known) >= MOST_PACKAGES:
                return
            self._known[key] = self._cached(package)
        known, files = self._known[key]
        missing = [path for path in paths if path not in known]
        if missing and self.waits:
            self._ask(package, missing)
        elif missing:
            self.missing[package] = missing
        for file in files:
            note(file)
        yield from ((path, known[path]) for path in paths if path in known)

    def _ask(self, package: InstalledPackage, paths: list[str]) -> None:
        """Let the reading process look up names; what it cannot answer is unknown, and cached as that."""
        from lintrain.installed.process import ReadingProcess

        self._process = self._process or ReadingProcess()
        if self._process.is_over:
            return
        answer = self._process.ask(package.folder, package.name, paths)
        known, files = self._known[package.folder, package.name]
        try:
            facts, read = _checked(answer, paths, package)
        except (TypeError, ValueError, KeyError, AttributeError):
            facts, read = dict.fromkeys(paths, Facts("unknown")), dict[str, tuple[int, int]]()
        known.update(facts)
        files.update(read)
        if self.cache is not None and not self._process.was_late:
            _keep(self.cache, _name_of(package), known, files)

    def _cached(self, package: InstalledPackage) -> Contents:
        if self.cache is None:
            return {}, {}
        from lintrain.cache.folder import is_ours
        from lintrain.cache.watch import unrecorded
        from lintrain.cache.whole_files import HEADS, read_kept, unsealed

        try:
            with unrecorded():
                kept = read_kept(self.cache, _name_of(package)) if is_ours(self.cache) else b""
                content = unsealed(HEADS["packages"], kept)
            facts, files = _checked(json.loads(content), None, package) if content else ({}, {})
        except (OSError, TypeError, ValueError, KeyError, AttributeError, RecursionError):
            return {}, {}
        return (facts, files) if all(_stamp(file) == stamp for file, stamp in files.items()) else ({}, {})

    def fill(self, missing: Mapping[InstalledPackage, list[str]]) -> None:
        """Cache what another reader did not wait for."""
        for package, paths in missing.items():
            for _ in self._facts(package, paths):
                pass
        self.stop()

    def stop(self) -> None:
        """End the reading process."""
        if self._process is not None:
            self._process.stop()


def names_of(source: Source, tops: frozenset[str]) -> dict[str, set[str]]:
    """The dotted names of packages that a file imports or reads as attributes of what it imports, by package."""
    bound: dict[str, str] = {}
    found: dict[str, set[str]] = {}
    for node in imports(source):
        for alias in node.names:
            path = alias.name if isinstance(node, ast.Import) else f"{node.module}.{alias.name}"
            if path.partition(".")[0] not in tops or (isinstance(node, ast.ImportFrom) and node.level):
                continue
            if isinstance(node, ast.Import) and not alias.asname:
                bound[path.partition(".")[0]] = path.partition(".")[0]
            elif alias.name != "*":
                bound[alias.asname or alias.name] = path
            if isinstance(node, ast.ImportFrom) and alias.name != "*":
                found.setdefault(path.partition(".")[0], set()).add(path)
    for attribute in source.nodes_of(ast.Attribute) if bound else ():
        path = _chain(attribute, bound)
        if path and path.count(".") < LONGEST_CHAIN:
            found.setdefault(path.partition(".")[0], set()).add(path)
    return found


def _chain(node: ast.expr, bound: Mapping[str, str]) -> str:
    parts = list[str]()
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([bound[node.id], *reversed(parts)]) if isinstance(node, ast.Name) and node.id in bound else ""


def _by_public_name(found: Mapping[str, Facts]) -> Iterator[tuple[str, Facts]]:
    """The same under the names by which the rules know what a package exports: `transformers.Trainer`."""
    for path, facts in found.items():
        top, *inner = path.split(".")
        index = next((at for at, part in enumerate(inner) if not part.islower()), None)
        if index and (public := ".".join([top, *inner[index:]])) not in found:
            yield public, facts


def _shown(folder: str) -> str:
    return os.path.basename(folder) or folder


def _stamp(file: str) -> tuple[int, int] | None:
    try:
        state = os.stat(file)
    except (OSError, ValueError):
        return None
    return state.st_mtime_ns, state.st_size


def _checked(answer: Any, paths: list[str] | None, package: InstalledPackage) -> Contents:  # Any: what JSON holds
    """The facts of an answer or of a file; raises TypeError, ValueError, KeyError or AttributeError."""
    facts = {str(path): Facts.of(each) for path, each in answer["facts"].items()}
    files = {str(file): (int(time), int(size)) for file, time, size in answer["files"]}
    if paths is not None and facts.keys() != set(paths):
        raise ValueError("an answer to something else")
    if any(not os.path.normpath(file).startswith(package.folder) for file in files):
        raise ValueError("files of another package")
    return facts, files


def _name_of(package: InstalledPackage) -> str:
    from lintrain.cache.whole_files import digest

    key = (FORMAT, __version__, sys.version_info[:2], package.folder, package.name, package.version)
    return digest(repr(key).encode("utf-8", "surrogateescape")).decode("ascii")


def _keep(folder: str, name: str, facts: Mapping[str, Facts], files: Mapping[str, tuple[int, int]]) -> None:
    """Cache what is known about a package; if the folder cannot be written, nothing is cached."""
    from lintrain.cache.folder import is_ours
    from lintrain.cache.removal import prune
    from lintrain.cache.watch import unrecorded
    from lintrain.cache.whole_files import HEADS, make_folder, put, sealed

    document = {
        "facts": {path: each.as_plain() for path, each in facts.items()},
        "files": [[file, *stamp] for file, stamp in files.items()],
    }
    try:
        with unrecorded():
            make_folder(folder)
            if is_ours(folder):
                put(folder, name, sealed(HEADS["packages"], json.dumps(document).encode("ascii")))
                prune(folder, MOST_KEPT)
    except OSError:
        return
