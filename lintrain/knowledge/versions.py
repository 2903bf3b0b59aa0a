"""Which versions of the libraries a project is written for.

Asked in this order: the settings, lock files, requirements, pyproject, the project's environment, the interpreter that
runs lintrain. The first to name a version decides; one that only names a range is narrowed by those that follow, as far
as they agree with it. Where nothing names a package, the newest version that the tables cover is taken. In the
repository of a library itself, that library is of no published version, and nothing is said of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path

from lintrain.cache.noted import Memory, note_asked
from lintrain.knowledge.specifiers import allowed_versions, lowest_version
from lintrain.knowledge.statements import Reader, Statement, interpreter_folders
from lintrain.knowledge.tables import COVERED_PACKAGES, covered_version, covered_versions
from lintrain.knowledge.target import Target, Version, written
from lintrain.startup.lazy_dataclass import dataclass

__all__ = ["Target", "TargetVersions", "Version", "VersionFinder", "exactly", "find_versions"]

_MOST_FOLDERS_ABOVE = 6

INTERPRETER = "the interpreter that runs lintrain"

NOBODY_TELLS = "the newest version that lintrain knows"
"""The source of a target that no file states."""


@dataclass(frozen=True, slots=True)
class TargetVersions:
    """The target of each package that the tables cover, and notes on files that could not be read.

    A package without a target is one whose version lies outside the tables: nothing can be said of it.
    """

    targets: Mapping[str, Target] = field(default_factory=dict[str, Target])
    notes: tuple[str, ...] = ()

    def get(self, package: str, /) -> Target | None:
        """The target of a package."""
        return self.targets.get(package)


@dataclass(frozen=True, slots=True)
class _Said:
    """What one folder states: its lock files, requirements, pyproject and environment, in this order."""

    ranks: tuple[tuple[Statement, ...], ...]
    own_packages: frozenset[str]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> _Said:
        reader = Reader(folder, COVERED_PACKAGES)
        ranks = (reader.lock_files(), reader.requirements(), reader.pyproject(), reader.environment())
        said = tuple(tuple(rank) for rank in ranks)
        return cls(said, frozenset(reader.own_packages()), tuple(reader.notes))


@dataclass(eq=False)
class VersionFinder:
    """Finds the target versions of folders; what a folder or the interpreter says is read once.

    `settings` maps packages to versions or specifiers and comes first.
    """

    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    _said: Memory[Path, _Said] = field(default_factory=Memory[Path, _Said])
    _begins: Memory[Path, bool] = field(default_factory=Memory[Path, bool])
    _targets: dict[tuple[Statement, ...], TargetVersions] = field(
        default_factory=dict[tuple[Statement, ...], TargetVersions]
    )
    _installed: Memory[None, tuple[Statement, ...]] = field(default_factory=Memory[None, tuple[Statement, ...]])

    def find(self, folder: str | os.PathLike[str]) -> TargetVersions:
        """The target versions of a project folder."""
        said = [self._said.get(each, partial(_Said.of, each)) for each in self._project_folders(Path(folder))]
        own = frozenset[str]().union(*(each.own_packages for each in said))
        stated = tuple(self._statements(said))
        if stated not in self._targets:
            self._targets[stated] = _decided_of_all(stated)
        targets = {package: target for package, target in self._targets[stated].targets.items() if package not in own}
        return TargetVersions(targets, tuple(note for each in said for note in each.notes))

    def _statements(self, said: list[_Said]) -> Iterator[Statement]:
        for package, version in self.settings.items():
            yield Statement(package.lower(), version if version[:1] in "=<>!~^" else f"=={version}", "settings")
        for rank in zip(*(each.ranks for each in said), strict=True):
            for statements in rank:
                yield from statements
        yield from self._installed.get(None, _installed_beside_us)

    def _project_folders(self, folder: Path) -> list[Path]:
        """The folder and those above it up to the one with `.git`; without one in reach, the folder alone."""
        above = [folder, *list(folder.absolute().parents)[:_MOST_FOLDERS_ABOVE]]
        for location, each in enumerate(above):
            if self._begins.get(each, partial(_begins_at, each)):
                return above[: location + 1]
        return above[:1]


def _installed_beside_us() -> tuple[Statement, ...]:
    return tuple(Reader(Path(), COVERED_PACKAGES).installed(interpreter_folders(), INTERPRETER))


def _begins_at(folder: Path) -> bool:
    """Whether a repository begins at a folder."""
    note_asked(folder / ".git")
    return (folder / ".git").exists()


def find_versions(folder: str | os.PathLike[str], settings: Mapping[str, str] | None = None) -> TargetVersions:
    """The target versions of a project folder; `settings` maps packages to versions or specifiers and comes first."""
    return VersionFinder(settings or {}).find(folder)


def exactly(**versions: str) -> TargetVersions:
    """Targets of the given versions and nothing else: `exactly(transformers="4.46.3")`."""
    statements = {package: [Statement(package, f"=={version}", "given")] for package, version in versions.items()}
    targets = {package: decided(package, stated) for package, stated in statements.items()}
    return TargetVersions({package: target for package, target in targets.items() if target is not None})


def _decided_of_all(statements: Iterable[Statement]) -> TargetVersions:
    by_package: dict[str, list[Statement]] = {}
    for statement in statements:
        by_package.setdefault(statement.package, []).append(statement)
    targets = {package: decided(package, by_package.get(package, [])) for package in COVERED_PACKAGES}
    return TargetVersions({package: target for package, target in targets.items() if target is not None})


def decided(package: str, statements: Iterable[Statement]) -> Target | None:
    """The versions that the statements leave, taken in order; one that contradicts those before it does not count."""
    covered = covered_versions(package)
    agreeing: list[Statement] = []
    left = covered
    for location, group in enumerate(_by_rank(statements)):
        allowed = {version for statement in group for version in _allowed(package, statement)}
        narrowed = tuple(version for version in left if version in allowed)
        if not narrowed and location == 0:
            return None
        if narrowed and len(narrowed) < len(left):
            left = narrowed
            agreeing += group
        if len(left) == 1:
            break
    if not agreeing and left == covered:
        return Target(covered[-1:], written(covered[-1]), NOBODY_TELLS)
    text = ", ".join(dict.fromkeys(statement.specifier.removeprefix("==") for statement in agreeing))
    source = ", ".join(dict.fromkeys(statement.source for statement in agreeing))
    return Target(left, text, source, any(_is_beyond(covered, statement) for statement in agreeing))


def _is_beyond(covered: tuple[Version, ...], statement: Statement) -> bool:
    return bool(covered) and not allowed_versions(statement.specifier, covered)


def _by_rank(statements: Iterable[Statement]) -> list[list[Statement]]:
    """Statements of one file together: a lock file may pin a package once for each platform."""
    groups: dict[str, list[Statement]] = {}
    for statement in statements:
        groups.setdefault(statement.source.partition(":")[0], []).append(statement)
    return list(groups.values())


def _allowed(package: str, statement: Statement) -> tuple[Version, ...]:
    covered = covered_versions(package)
    if allowed := allowed_versions(statement.specifier, covered):
        return allowed
    lowest = lowest_version(statement.specifier)
    newest = covered_version(package, lowest) if lowest else None
    return (newest,) if newest is not None and newest == covered[-1] else ()
