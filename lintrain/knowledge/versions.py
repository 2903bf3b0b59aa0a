"""Which versions of the libraries a project is written for.

Sources in this order: what a script or notebook installs or requires itself (`with_written`); the settings; for each
folder, the nearest to the script first, its lock files, requirements, build configuration, environment and what its
Dockerfile or README installs; the interpreter that runs lintrain. The first that names a version decides; a range is
narrowed by the sources that follow, as far as they agree with it. If no source names a package, the newest version in
the tables is assumed. A version that is older than the tables is no target, and in the repository of a library itself
that library has no published version: rules report nothing about either. Up to TensorFlow 2.15 Keras has its number,
from 2.16 on it is Keras 3. A torch that is pinned excludes the releases of Lightning that ask for a newer one.

Specifiers (`>=4.40,<5`, `~=4.46.1`, `==4.*`, and poetry's `^4.40` and `~4.40`) are read without `packaging`, because a
minor version is allowed as soon as one of its patches is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from functools import partial
from pathlib import Path

from lintrain.cache.noted import Memory, note_asked
from lintrain.installed.facts import Installed
from lintrain.knowledge.statements import TENSORFLOWS, Reader, Statement, interpreter_folders
from lintrain.knowledge.tables import CONFIGURED_PACKAGES, PACKAGES, covered_version, covered_versions
from lintrain.knowledge.target import ENVIRONMENTS, INTERPRETER, NEWEST_KNOWN, Target, Version, written
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

__all__ = ["Target", "TargetVersions", "Version", "VersionFinder", "exactly", "find_versions"]

_MOST_FOLDERS_ABOVE = 10


@dataclass(frozen=True, slots=True)
class TargetVersions:
    """The target of each package that the tables cover, and notes on files that could not be read.

    A package without a target has a version outside the tables: rules report nothing about it.
    """

    targets: Mapping[str, Target] = field(default_factory=dict[str, Target])
    notes: tuple[str, ...] = ()
    outside: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """What the sources say about packages of which the tables lack the version, at least of the newest."""
    installed: Installed = field(default_factory=Installed)
    """What was read of installed packages that the tables do not cover."""

    def get(self, package: str, /) -> Target | None:
        """The target of a package."""
        return self.targets.get(package)

    def may_run_on(self, package: str, version: str, *, is_sure: bool) -> bool:
        """Whether an installed version, which the tables lack, is one that the project may run on.

        A requirement without a version is only met for sure by the project's own environment.
        """
        if package not in self.outside or not (named := _named_versions(f"=={version}")):
            return False
        return (is_sure or all(self.outside[package])) and all(
            allowed_versions(specifier, named[:1]) for specifier in self.outside[package]
        )


@dataclass(frozen=True, slots=True)
class _Requirements:
    """The requirements of one folder, the file that comes first in it first."""

    statements: tuple[Statement, ...]
    own_packages: frozenset[str]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, folder: Path) -> _Requirements:
        reader = Reader(folder, (*PACKAGES, *TENSORFLOWS))
        files = (reader.lock_files(), reader.requirements(), reader.pyproject(), reader.setup())
        statements = tuple(each for file in (*files, reader.environment(), reader.installs()) for each in file)
        return cls(
            tuple(with_keras(with_dependents(statements))), frozenset(reader.own_packages()), tuple(reader.notes)
        )


@dataclass(eq=False)
class VersionFinder:
    """Finds the target versions of folders; each folder, and the interpreter, is read once.

    `settings` maps packages to versions or specifiers and comes first. `root` is the folder under check: for a script
    in no repository, the requirements up to there count.
    """

    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    root: Path | None = None
    _requirements: Memory[Path, _Requirements] = field(default_factory=Memory[Path, _Requirements])
    _begins: Memory[Path, bool] = field(default_factory=Memory[Path, bool])
    _targets: dict[tuple[Statement, ...], TargetVersions] = field(
        default_factory=dict[tuple[Statement, ...], TargetVersions]
    )
    _installed: Memory[None, tuple[Statement, ...]] = field(default_factory=Memory[None, tuple[Statement, ...]])

    def find(self, folder: str | os.PathLike[str]) -> TargetVersions:
        """The target versions of a project folder."""
        stated_by_folder = [
            self._requirements.get(each, partial(_Requirements.of, each)) for each in self.project_folders(Path(folder))
        ]
        own = frozenset[str]().union(*(each.own_packages for each in stated_by_folder))
        stated = tuple(self._statements(stated_by_folder))
        if stated not in self._targets:
            self._targets[stated] = _decided_of_all(stated)
        targets = {package: target for package, target in self._targets[stated].targets.items() if package not in own}
        notes = tuple(note for each in stated_by_folder for note in each.notes)
        return TargetVersions(targets, notes, _outside(targets, (each for each in stated if each.package not in own)))

    def _statements(self, stated_by_folder: list[_Requirements]) -> Iterator[Statement]:
        for package, version in self.settings.items():
            yield Statement(package.lower(), version if version[:1] in "=<>!~^" else f"=={version}", "settings")
        for above, each in enumerate(stated_by_folder):
            yield from (statement._replace(above=above) for statement in each.statements)
        yield from self._installed.get(None, _installed_beside_us)

    def project_folders(self, folder: Path) -> list[Path]:
        """The folder and those above it up to the one with `.git`; if there is none, up to the one under check."""
        above = [folder, *list(folder.absolute().parents)[:_MOST_FOLDERS_ABOVE]]
        for location, each in enumerate(above):
            if self._begins.get(each, partial(_begins_at, each)):
                return above[: location + 1]
        return above[: above.index(self.root) + 1] if self.root in above else above[:1]


def _outside(targets: Mapping[str, Target], statements: Iterable[Statement]) -> dict[str, tuple[str, ...]]:
    """What is said about the packages without a target, and about those with a newer version than the tables have."""
    found: dict[str, tuple[str, ...]] = {}
    for each in statements:
        target = targets.get(each.package)
        is_beside_us = each.source == INTERPRETER and each.package in found  # it need not be the project's
        is_read = target is None or target.is_beyond or each.package in CONFIGURED_PACKAGES
        if is_read and not is_beside_us:
            found[each.package] = (*found.get(each.package, ()), each.specifier)
    return found


def allows(folder: Path, distribution: str, version: str) -> bool:
    """Whether the files of a project allow a version of a package that the tables do not cover."""
    named = _named_versions(f"=={version}")
    names = {distribution, distribution.replace("_", "-"), distribution.replace("-", "_")}
    readers = (Reader(each, sorted(names)) for each in VersionFinder().project_folders(folder))
    stated = (
        each
        for reader in readers
        for file in (reader.lock_files(), reader.requirements(), reader.pyproject(), reader.setup())
        for each in file
    )
    return all(allowed_versions(each.specifier, named[:1]) for each in stated)


def _installed_beside_us() -> tuple[Statement, ...]:
    return tuple(Reader(Path(), PACKAGES).installed(interpreter_folders(), INTERPRETER))


def _begins_at(folder: Path) -> bool:
    """Whether a folder is the root of a repository."""
    note_asked(folder / ".git")
    return (folder / ".git").exists()


def find_versions(folder: str | os.PathLike[str], settings: Mapping[str, str] | None = None) -> TargetVersions:
    """The target versions of a project folder; `settings` maps packages to versions or specifiers and comes first."""
    return VersionFinder(settings or {}).find(folder)


def exactly(**versions: str) -> TargetVersions:
    """Targets with exactly these versions: `exactly(transformers="4.46.3")`."""
    statements = {package: [Statement(package, f"=={version}", "given")] for package, version in versions.items()}
    targets = {package: decided(package, stated) for package, stated in statements.items()}
    return TargetVersions({package: target for package, target in targets.items() if target is not None})


def _decided_of_all(statements: Iterable[Statement]) -> TargetVersions:
    by_package: dict[str, list[Statement]] = {}
    for statement in statements:
        by_package.setdefault(statement.package, []).append(statement)
    targets = {package: decided(package, by_package.get(package, [])) for package in PACKAGES}
    return TargetVersions({package: target for package, target in targets.items() if target is not None})


def decided(package: str, statements: Iterable[Statement]) -> Target | None:
    """The versions that the requirements allow, taken in order; one that contradicts those before it is ignored."""
    covered = covered_versions(package)
    agreeing: list[Statement] = []
    before: list[Statement] = []
    left = covered
    for location, group in enumerate(_by_rank(statements)):
        allowed = {version for statement in group for version in _allowed(package, statement)}
        narrowed = tuple(version for version in left if version in allowed)
        if not narrowed and (location == 0 or _names_unknown(group) or _agree_outside(before, group)):
            return None
        before += group
        if narrowed and len(narrowed) < len(left):
            left = narrowed
            agreeing += group
        if len(left) == 1:
            break
    if not agreeing and left == covered:
        return Target(covered[-1:], written(covered[-1]), NEWEST_KNOWN)
    text = ", ".join(dict.fromkeys(statement.specifier.removeprefix("==") for statement in agreeing))
    source = ", ".join(dict.fromkeys(statement.source for statement in agreeing))
    is_beyond = any(_is_beyond(covered, statement) for statement in agreeing)
    return Target(left, text, source, is_beyond, is_installed=agreeing[-1].source in ENVIRONMENTS)


def _names_unknown(group: Iterable[Statement]) -> bool:
    """Whether a package is installed from a repository, and so in any version."""
    return all(not statement.specifier for statement in group)


def _agree_outside(before: Iterable[Statement], group: Iterable[Statement]) -> bool:
    """Whether the versions that one source names, outside the tables, are among those that the sources before allow."""
    named = [start for each in (*before, *group) for start in _named_versions(each.specifier)]
    below = [(major, minor - 1) for major, minor in named if minor]
    outside = {version for each in group for version in allowed_versions(each.specifier, (*named, *below))}
    return any(all(allowed_versions(each.specifier, [version]) for each in before) for version in outside)


def _named_versions(specifier: str) -> list[Version]:
    releases = [found[2].split(".") for part in specifier.split(",") if (found := _CLAUSE.match(part.strip()))]
    return [(int(release[0]), int(release[1]) if len(release) > 1 else 0) for release in releases]


def _is_beyond(covered: tuple[Version, ...], statement: Statement) -> bool:
    return bool(covered) and not allowed_versions(statement.specifier, covered)


def _by_rank(statements: Iterable[Statement]) -> list[list[Statement]]:
    """The requirements of one file together: a lock file may pin a package once for each platform."""
    groups: dict[tuple[int, str], list[Statement]] = {}
    for statement in statements:
        groups.setdefault((statement.above, statement.source.partition(":")[0]), []).append(statement)
    return list(groups.values())


def _allowed(package: str, statement: Statement) -> tuple[Version, ...]:
    covered = covered_versions(package)
    if not statement.specifier:
        return ()
    if allowed := allowed_versions(statement.specifier, covered):
        return allowed
    lowest = lowest_version(statement.specifier)
    newest = covered_version(package, lowest) if lowest else None
    return (newest,) if newest is not None and newest == covered[-1] else ()


_CLAUSE = lazy_pattern(r"(===|==|!=|~=|>=|<=|>|<|\^|~|=)?\s*v?(\d+(?:\.\d+)*)(\.\*)?")


def allowed_versions(specifier: str, versions: Iterable[Version]) -> tuple[Version, ...]:
    """The versions that every clause of the specifier allows; all versions if it has no clause."""
    clauses = [found for part in specifier.split(",") if (found := _CLAUSE.match(part.strip())) is not None]
    return tuple(version for version in versions if all(_allows(clause, version) for clause in clauses))


def lowest_version(specifier: str) -> str | None:
    """The version that a specifier starts from or pins; None if it only has an upper bound."""
    found = (_CLAUSE.match(part.strip()) for part in specifier.split(","))
    return next((each[2] for each in found if each is not None and each[1] not in ("<", "<=", "!=")), None)


def _allows(clause: re.Match[str], version: Version) -> bool:
    release = tuple(map(int, clause[2].split(".")))
    start = (release[0], release[1] if len(release) > 1 else 0)
    match clause[1] or "==":
        case ">=" | ">":
            return version >= start
        case "<":
            return version < start or (version == start and any(release[2:]))
        case "<=":
            return version <= start
        case "!=":
            return not (clause[3] and version[: len(release)] == release[:2])
        case "~=":
            return version == start if len(release) > 2 else version >= start and version[0] == start[0]
        case "^":
            return version >= start and (version[0] == start[0] if start[0] else version == start)
        case "~":
            return version == start if len(release) > 1 else version[0] == start[0]
        case _:
            return version[0] == start[0] if clause[3] and len(release) == 1 else version == start


def with_written(targets: TargetVersions, statements: Iterable[Statement]) -> TargetVersions:
    """The targets of one file: what it says itself overrides its project, and settings override both."""
    decisions, outside = dict(targets.targets), dict(targets.outside)
    for statement in with_keras(statements):
        known = decisions.get(statement.package)
        if known is not None and known.source.startswith("settings"):
            continue
        target = decided(statement.package, [statement])
        outside.pop(statement.package, None)
        if target is None or target.is_beyond:
            outside[statement.package] = (statement.specifier,)
        if target is None:
            decisions.pop(statement.package, None)
        elif not target.is_assumed:
            decisions[statement.package] = target
    return replace(targets, targets=decisions, outside=outside)


_KERAS_CLAUSE = lazy_pattern(r"\s*(===|==|!=|~=|>=|<=|>|<|\^|~|=)?\s*v?(\d+)(?:\.(\d+))?")
_FIRST_WITH_KERAS_3 = (2, 16)
_KERAS_OF_FIRST = {(2, 0): "2.3", (2, 1): "2.3", (2, 2): "2.3", (2, 3): "2.4"}
"""The Keras whose names `tf.keras` has in the first releases of TensorFlow 2, which are numbered otherwise."""


def with_keras(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The statements, with those about TensorFlow as statements about the Keras that it contains."""
    for statement in statements:
        if statement.package not in TENSORFLOWS:
            yield statement
        elif specifier := ",".join(_clauses(statement.specifier)):
            yield Statement("keras", specifier, statement.source)


def _clauses(specifier: str) -> Iterator[str]:
    for clause in specifier.split(","):
        found = _KERAS_CLAUSE.match(clause)
        if found is None:
            continue
        version = int(found[2]), int(found[3] or 0)
        is_bound = found[1] in ("<", "<=", "!=")
        if version in _KERAS_OF_FIRST and found[1] not in ("<", "!="):
            yield f"{found[1] or '=='}{_KERAS_OF_FIRST[version]}"
        elif version < _FIRST_WITH_KERAS_3:
            yield clause.strip()
        elif not is_bound:
            yield ">=3.0"
        elif version == _FIRST_WITH_KERAS_3 and found[1] == "<":
            yield "<3.0"


LIGHTNING_NEEDS: tuple[tuple[Version, Version], ...] = (
    ((1, 6), (1, 8)),
    ((1, 7), (1, 9)),
    ((1, 9), (1, 10)),
    ((2, 0), (1, 11)),
    ((2, 1), (1, 12)),
    ((2, 2), (1, 13)),
    ((2, 3), (2, 0)),
    ((2, 4), (2, 1)),
)
"""Releases of Lightning with the oldest torch that they, and those after them, can be installed with."""

NUMPY_2_NEEDS: Mapping[str, Version] = {"torch": (2, 3), **dict.fromkeys(TENSORFLOWS, (2, 18))}
"""The first releases that are built for NumPy 2; those before them are used with an earlier one."""

_NO_LATER = lazy_pattern(r"(?:(?<![<>!~=])={1,3}|<=|~=(?=\s*v?\d+\.\d+\.))\s*v?(\d+)\.(\d+)")


def with_dependents(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The statements, and after them what a pinned torch or TensorFlow says about the versions of other packages."""
    pins: list[tuple[Version, Statement]] = []
    for statement in statements:
        yield statement
        if statement.package in NUMPY_2_NEEDS and (found := _NO_LATER.search(statement.specifier)):
            pins.append(((int(found[1]), int(found[2])), statement))
    for version, statement in pins:
        if version < NUMPY_2_NEEDS[statement.package]:
            yield Statement("numpy", "<2", f"the {statement.package} in {statement.source}")
    torches = [pin for pin in pins if pin[1].package == "torch"]
    if not torches:
        return
    torch, pinned = max(torches, key=lambda pin: pin[0])
    excluded = next((release for release, needed in LIGHTNING_NEEDS if torch < needed), None)
    if excluded is not None:
        yield Statement("lightning", f"<{written(excluded)}", f"the torch in {pinned.source}")
