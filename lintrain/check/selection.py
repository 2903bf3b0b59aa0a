"""Which findings a run reports.

What a run should do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.builtin import BUILTINS, UNCONDITIONAL
from lintrain.model.level import Level
from lintrain.settings.settings import Settings, UsageError
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


def chosen_for(settings: Settings, rules: Sequence[RuleFile], command: Choice) -> Selection:
    """The rules that settings and command line select; raises UsageError for an unknown selector."""
    in_preview = frozenset[str]() if settings.preview else frozenset(rule.name for rule in rules if rule.is_preview)
    return choose(known_names(rules), configured(settings), command, in_preview)


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
    return {name for selector in selectors for name in _expand(choice, selector, known)}


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


def _none(_path: str) -> bool:
    return False


def _nothing() -> None:
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
    processes read at once. Results of unchanged files are taken from the `store`, and new ones are cached there.
    `packages` reads installed packages that no table covers; without it, nothing is known about them. `search_names`
    looks for undefined names, given the files and the contents of those that are not on the disk; None starts ruff.
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

    def load(self, path: str) -> bytes:
        """The bytes of a file; raises UnreadableError where it may not be read."""
        return self.given[path] if path in self.given else load_bytes(path)
