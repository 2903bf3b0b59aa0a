"""What a run should do, and which findings it reports: each file has the settings of the nearest configuration."""

# Every file of a run asks for its settings, and a `Path` costs ten times a string.
# ruff: noqa: PTH100, PTH120, PTH208

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.builtin import BUILTINS, UNCONDITIONAL
from lintrain.model.level import Level
from lintrain.settings.loading import CONFIGURATIONS, settings_in
from lintrain.settings.settings import Settings, UsageError
from lintrain.source.bounds import is_within
from lintrain.source.discovery import Excludes
from lintrain.source.reading import load_bytes
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.cache.store import Store
    from lintrain.check.baseline import Baseline
    from lintrain.check.names.ruff import NameSearch
    from lintrain.check.packages import Packages
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.model.finding import Finding
    from lintrain.rulebook import RuleFile


ALL = "ALL"


@dataclass(frozen=True, slots=True)
class Choice:
    """One round of selection: the selectors to begin with (None: those of the round before), to add, and to take away.

    `per_file` takes some away for the files of a pattern, which is relative to `root`; `levels` says how bad the
    findings of some are; `named` is who asks.
    """

    named: str
    root: str
    select: Sequence[str] | None = None
    extend: Sequence[str] = ()
    ignore: Sequence[str] = ()
    per_file: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])


@dataclass(frozen=True, slots=True)
class Selection:
    """The enabled names; `known` maps every name to its stage, `per_file` disables some for files that match a pattern.

    `levels` are those that the project gives to findings; `in_preview` are the rules in preview that are not enabled,
    and `unselected` those of them that are selected by name nevertheless.
    """

    names: frozenset[str]
    known: Mapping[str, str]
    per_file: tuple[tuple[Excludes, frozenset[str]], ...] = ()
    levels: Mapping[str, Level] = field(default_factory=dict[str, Level])
    in_preview: frozenset[str] = frozenset()
    unselected: tuple[str, ...] = ()

    def of(self, path: str) -> frozenset[str]:
        """The enabled names for one file."""
        return self.names.difference(*(names for pattern, names in self.per_file if pattern.leave_out_within(path)))

    def leveled(self, finding: Finding) -> Finding:
        """The finding with the level that the project gives to its rule."""
        level = self.levels.get(finding.rule, finding.level)
        return finding if level == finding.level else replace(finding, level=level)


def split(given: Iterable[str]) -> Iterator[str]:
    """The parts of options that may be repeated and may hold several parts between commas."""
    for text in given:
        yield from (part.strip() for part in text.split(",") if part.strip())


def asked(
    select: Iterable[str],
    ignore: Iterable[str],
    extend: Iterable[str] = (),
    per_file: Mapping[str, Sequence[str]] | None = None,
) -> Choice:
    """The selection of the command line, or of a call."""
    here = str(Path.cwd())
    return Choice(
        "the command line", here, list(split(select)) or None, list(split(extend)), list(split(ignore)), per_file or {}
    )


def chosen_for(
    settings: Settings, rules: Sequence[RuleFile], command: Choice, not_trusted: Mapping[str, str] | None = None
) -> Selection:
    """The rules that settings and command line select; raises UsageError for an unknown selector.

    Rules that are `not_trusted` are known by name and stage, and never enabled.
    """
    in_preview = frozenset[str]() if settings.preview else frozenset(rule.name for rule in rules if rule.is_preview)
    known = known_names(rules) | dict(not_trusted or {})
    selection = choose(known, configured(settings), command, in_preview)
    return replace(selection, names=selection.names.difference(not_trusted)) if not_trusted else selection


def known_names(rules: Iterable[RuleFile]) -> dict[str, str]:
    """Every name that can be selected, with its stage."""
    return {rule.name: rule.stage for rule in rules} | {name: found.stage for name, found in BUILTINS.items()}


def configured(settings: Settings) -> Choice:
    """The selection of the project's configuration."""
    return Choice(
        str(settings.file),
        str(settings.root),
        settings.select,
        settings.extend_select,
        settings.ignore,
        settings.per_file_ignores,
        {selector: Level(level) for selector, level in settings.levels.items()},
    )


def choose(
    known: Mapping[str, str], configuration: Choice, command: Choice, in_preview: frozenset[str] = frozenset()
) -> Selection:
    """The names that both select, the command line having the last word; raises UsageError for an unknown selector.

    Rules `in_preview` are left out, however they are selected.
    """
    names = _apply(_apply(set(), configuration, known), command, known)
    ignored = _expand_all(command, command.ignore, known) | _expand_all(configuration, configuration.ignore, known)
    names |= UNCONDITIONAL - ignored
    per_file = tuple(
        (Excludes((pattern,), choice.root), frozenset(_expand_all(choice, selectors, known)))
        for choice in (configuration, command)
        for pattern, selectors in choice.per_file.items()
    )
    by_name = dict.fromkeys(
        name
        for choice in (configuration, command)
        for name in (*(choice.select or ()), *choice.extend)
        if name in in_preview & names
    )
    return Selection(
        frozenset(names - in_preview), known, per_file, _levels(configuration, known), in_preview, tuple(by_name)
    )


def _levels(choice: Choice, known: Mapping[str, str]) -> dict[str, Level]:
    """The level that is given to each name; here, too, a name is stronger than its stage, and a stage than ALL."""
    return {
        name: choice.levels[selector]
        for breadth in (ALL, "stage", "name")
        for selector in _of_breadth(breadth, choice.levels, known)
        for name in _expand(choice, selector, known)
    }


def _apply(chosen: set[str], choice: Choice, known: Mapping[str, str]) -> set[str]:
    """The names after one round: a rule's own name is stronger than its stage, and a stage than ALL."""
    names = set(chosen) if choice.select is None else set[str]()
    for breadth in (ALL, "stage", "name"):
        added = [*(choice.select or ()), *choice.extend]
        names |= _expand_all(choice, _of_breadth(breadth, added, known), known)
        names -= _expand_all(choice, _of_breadth(breadth, choice.ignore, known), known)
    return names


def _of_breadth(breadth: str, selectors: Iterable[str], known: Mapping[str, str]) -> list[str]:
    stages = set(known.values())
    breadths = {
        selector: ALL if selector == ALL else "stage" if selector in stages else "name" for selector in selectors
    }
    return [selector for selector, its in breadths.items() if its == breadth]


def _expand_all(choice: Choice, selectors: Iterable[str], known: Mapping[str, str]) -> set[str]:
    asked = dict.fromkeys(selectors)
    for unknown in (each for each in asked if each not in known):
        _expand(choice, unknown, known)
    return {name for name, stage in known.items() if name in asked or stage in asked or ALL in asked}


def _expand(choice: Choice, selector: str, known: Mapping[str, str]) -> list[str]:
    """The names that a selector stands for."""
    names = [name for name, stage in known.items() if selector in (ALL, name, stage)]
    if not names:
        near = nearest(selector, [*known, *known.values(), ALL])
        hint = f"nearest: `{near}`" if near else "`lintrain rules` lists them"
        raise UsageError(f"{choice.named}: no rule or stage `{selector}`; {hint}")
    return names


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is written most like this one, or None where none is near."""
    from difflib import get_close_matches

    near = get_close_matches(name.lower().replace("_", "-"), list(dict.fromkeys(known)), n=1, cutoff=0.5)
    return near[0] if near else None


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The settings of the files that one configuration is nearest to, and the rules of its own that may run."""

    settings: Settings
    selection: Selection
    own: tuple[RuleFile, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def excludes(self) -> Excludes:
        """The files and folders that the configuration excludes."""
        return Excludes((*self.settings.exclude, *self.settings.extend_exclude), str(self.settings.root))


@dataclass(eq=False)
class NearestSettings:
    """The settings by folder; `outer` are those of the run, of files with no nearer configuration.

    `top` is the folder under check, at or above which the configuration of the run is. `complete` makes what the rest
    of a run needs from the settings of a configuration. The names in `searched` folders have been read before, so that
    a cached report depends on nothing more if they are read again.
    """

    outer: FileSettings
    top: str
    complete: Callable[[Settings], FileSettings]
    searched: tuple[str, ...] = ()
    _known: dict[str, FileSettings] = field(default_factory=dict[str, FileSettings])

    def __post_init__(self) -> None:
        self._known[self.top] = self.outer

    def of(self, path: str) -> FileSettings:
        """The settings of a file; raises UsageError if its configuration cannot be read."""
        return self.of_folder(os.path.dirname(os.path.abspath(path)))

    def of_folder(self, folder: str) -> FileSettings:
        """The settings of the files in a folder."""
        known = self._known.get(folder)
        if known is None:
            above = os.path.dirname(folder)
            known = self._known[folder] = self._own(folder) or (
                self.outer if above == folder else self.of_folder(above)
            )
        return known

    def all(self, paths: Iterable[str]) -> list[FileSettings]:
        """The settings that files of a run have, each once, those of the run first."""
        found = {id(self.outer): self.outer}
        for path in paths:
            settings = self.of(path)
            found.setdefault(id(settings), settings)
        return list(found.values())

    def _own(self, folder: str) -> FileSettings | None:
        """The settings that a folder itself configures."""
        names = self._configurations(folder)
        settings = settings_in(Path(folder), names) if names else None
        if settings is None:
            return None
        return self.outer if settings.file == self.outer.settings.file else self.complete(settings)

    def _configurations(self, folder: str) -> Sequence[str]:
        """The configuration files that a folder holds, or may hold if it is not one of the searched ones."""
        if not any(is_within(folder, each) for each in self.searched):
            return CONFIGURATIONS
        try:
            present = set(os.listdir(folder))
        except OSError:
            return ()
        return [name for name in CONFIGURATIONS if name in present]


def _none(_path: str) -> bool:
    return False


def _nothing() -> None:
    pass


def _no_progress(_read: int, _files: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """What to check: the files (in order), all rules, the enabled names, and the libraries' versions.

    `find_targets` returns the versions that scripts of a folder use: a repository may hold several projects. `given`
    are the contents of files that are not read from the disk: standard input, or files with fixes in them. With
    `shows_verdicts`, findings have the verdicts of the last probe. Findings in the `baseline` are hidden.
    `check_cancelled` is called regularly; what it raises ends the run, and must not be an Exception, which would count
    as a failure of one file or rule. Findings may be in modules that the files import: `excludes` determines which
    modules are not reported, and without `reports_modules` only findings in the files themselves are. At most `jobs`
    processes read at once. Results of unchanged files are taken from the `store`, and new ones are cached there; with
    `given` contents, from which an editor goes on, all files are read, and cached only if the disk holds the same.
    `packages` reads installed packages that no table covers; without it, nothing is known about them. `search_names`
    looks for undefined names, given the files and the contents of those that are not on the disk; None starts ruff.
    `by_folder` has the settings of files with a configuration nearer than that of the run; without it, `selection`
    counts for all. With `is_timed` the CPU time of each rule is measured. `on_progress` is called after each file, with
    the number of files that were read and that are to be read.
    """

    files: Sequence[str]
    rules: Sequence[RuleFile]
    selection: Selection
    find_targets: Callable[[Path], TargetVersions]
    given: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    excludes: Callable[[str], bool] = _none
    reports_modules: bool = True
    shows_verdicts: bool = False
    baseline: Baseline | None = None
    check_cancelled: Callable[[], None] = _nothing
    jobs: int = 1
    store: Store | None = None
    packages: Packages | None = None
    search_names: Callable[[Sequence[str], Mapping[str, bytes]], NameSearch] | None = None
    by_folder: NearestSettings | None = None
    is_timed: bool = False
    on_progress: Callable[[int, int], None] = _no_progress

    def selection_of(self, path: str) -> Selection:
        """The selection of the configuration that is nearest to a file."""
        return self.selection if self.by_folder is None else self.by_folder.of(path).selection

    def versions_of(self, path: str) -> Mapping[str, str]:
        """The versions that a configuration nearer to a file than that of the run sets; empty without one."""
        nearest = None if self.by_folder is None else self.by_folder.of(path)
        is_outer = nearest is None or self.by_folder is None or nearest is self.by_folder.outer
        return {} if nearest is None or is_outer else nearest.settings.target_versions

    def load(self, path: str) -> bytes:
        """The bytes of a file; raises UnreadableError where it may not be read."""
        return self.given[path] if path in self.given else load_bytes(path)
