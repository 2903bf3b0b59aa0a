"""A whole run: every file read while ruff checks names, and suppressions applied.

Findings in another file than the one that was read: a script may show what is wrong in its modules.

The findings that the comments of a file suppress, and the comments that suppress nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.builtin import SYNTAX_ERROR, UNCONDITIONAL, UNDEFINED_NAME, UNUSED_SUPPRESSION
from lintrain.check.executor import executor_for
from lintrain.check.files import FileReader, ReadFile
from lintrain.check.one_file import Reading
from lintrain.check.result import CheckResult, FileOutcome, Reported, Silenced
from lintrain.check.selection import nearest
from lintrain.check.tiers import names_library
from lintrain.source.pasted import is_pasted
from lintrain.source.reading import CONFIGURED, UnreadableError, holds_too_much, load_bytes, read_bytes
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.check.cached_results import CachedResults
    from lintrain.check.names.ruff import Clue, NameSearch
    from lintrain.check.selection import CheckRequest, Selection
    from lintrain.model.finding import Finding
    from lintrain.model.location import Location
    from lintrain.source.source import Source
    from lintrain.source.suppression import Suppression


@dataclass(eq=False)
class CheckRun:
    """One run over the files of a request."""

    request: CheckRequest
    reader: FileReader = field(init=False)
    _readings: CachedResults | None = field(init=False)
    _computed: Sequence[ReadFile] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.reader = FileReader(self.request)
        self._readings = self._cached_results()

    def check(self) -> CheckResult:
        """Check every file while ruff checks the names of those that use a library."""
        known = self._readings.find() if self._readings and not self.request.given else {}
        left = [path for path in self.request.files if path not in known]
        executor = executor_for(self.reader, left)
        search = self._search_names(left)
        try:
            read = executor.read()
            clues = search.collect() if search else {}
        except BaseException:
            executor.stop()
            if search:
                search.stop()
            raise
        finally:
            if self.request.packages:
                self.request.packages.end()
        problem = search.problem if search else ""
        computed = [self._with_names(file, clues.get(str(Path(file.path).absolute()), [])) for file in read]
        self._computed = () if problem else computed
        known.update((file.path, file) for file in computed)
        return self._outcome([known[path] for path in self.request.files], problem)

    def find(self) -> CheckResult | None:
        """The cached result of all files; None if one of them has none."""
        known = self._readings.find() if self._readings else {}
        if len(known) < len(self.request.files):
            return None
        return self._outcome([known[path] for path in self.request.files], "")

    def keep(self) -> None:
        """Cache the new results for later runs, after the report is written, so that it is not delayed."""
        if self._readings:
            self._readings.keep(self._computed)

    def _cached_results(self) -> CachedResults | None:
        """The cached results; contents that differ from the disk are never cached."""
        if self.request.store is None or not all(_is_on_disk(*each) for each in self.request.given.items()):
            return None
        from lintrain.check.cached_results import CachedResults

        return CachedResults(self.request.store, self.request)

    def _outcome(self, read: Sequence[ReadFile], problem: str) -> CheckResult:
        elsewhere = Elsewhere.of((file.path, file.reading) for file in read)
        files = [self._settle(file, elsewhere, not problem) for file in read]
        if self.request.reports_modules:
            asked_for = {file.path for file in read}
            unasked = [each for each in elsewhere.readings(asked_for) if not self.request.excludes(each[0])]
            files += [self._settle_module(path, source, reading) for path, source, reading in unasked]
            files.sort(key=lambda file: file.path)
        if self.request.baseline:
            files = self.request.baseline.hide(files)
        notes = dict.fromkeys(note for file in read for note in file.notes)
        return CheckResult(tuple(files), (*filter(None, [problem]), *notes), elsewhere.shown)

    def _search_names(self, files: Sequence[str]) -> NameSearch | None:
        """Ruff at work on the files that use a library; None if there are none."""
        paths = [path for path in files if self._checks_names(path)]
        if not paths:
            return None
        if self.request.search_names:
            return self.request.search_names(paths, self.request.given)
        from lintrain.check.names.ruff import start_search

        return start_search(paths, self.request.given)

    def _checks_names(self, path: str) -> bool:
        if UNDEFINED_NAME.name not in self.request.selection_of(path).of(path) or path.endswith(CONFIGURED):
            return False
        try:
            raw = self.request.load(path)
            return names_library(raw) and not holds_too_much(path, raw)
        except UnreadableError:
            return False

    def _source_of(self, file: ReadFile) -> Source | None:
        """The text of a file, read again; None if the file no longer exists."""
        try:
            return read_bytes(file.path, self.request.load(file.path))
        except UnreadableError:
            return None

    def _with_names(self, file: ReadFile, clues: Sequence[Clue]) -> ReadFile:
        """A file with the findings of ruff's clues; then its text stays in memory."""
        source = file.source or self._source_of(file) if clues else None
        if source is None:
            return file
        return replace(file, source=source, names=tuple(self._name_findings(source, file.reading, clues)))

    def _settle(self, file: ReadFile, elsewhere: Elsewhere, looked_at_names: bool) -> FileOutcome:
        """What is left of a file's findings when selection and suppressions are applied."""
        selection = self.request.selection_of(file.path)
        selected = selection.of(file.path)
        reading = elsewhere.joined(file.path, file.reading)
        source = file.source or elsewhere.shown.get(file.path)
        reported = [*reading.reported, *file.names]
        reported = [self._with_level(one) for one in reported if one.finding.rule in selected]
        looked_for = self._looked_for(selection, selected, reading, looked_at_names) if file.suppressions else NOTHING
        if source is not None and _is_part(source, reading):
            looked_for = looked_for.without(UNDEFINED_NAME.name, *self._about_whole_scripts)
        applied = apply_suppressions(reported, file.suppressions, looked_for)
        remaining = _each_name_once(reported, applied.remaining)
        if UNUSED_SUPPRESSION.name in selected and not reading.is_broken:
            remaining.extend(self._with_level(Reported(finding)) for finding in applied.unused)
        judged = self._with_verdicts(file.path, remaining)
        return FileOutcome(
            file.path,
            source,
            _ordered(judged),
            reading.crashes,
            applied.silenced,
            reading.is_exhausted,
            training=reading.training,
            unjudged=tuple(one for one in reading.unjudged if one.rule in selected),
            seconds=file.reading.seconds,
        )

    def _settle_module(self, path: str, source: Source, reading: Reading) -> FileOutcome:
        """What is left of the findings in a module that was not requested: no fix, and no check of its comments."""
        selected = self.request.selection_of(path).of(path)
        mine = (one for one in reading.reported if one.finding.rule in selected)
        reported = [self._with_level(replace(one, fix=None)) for one in mine]
        applied = apply_suppressions(reported, source.suppressions, NOTHING)
        remaining = self._with_verdicts(path, applied.remaining)
        return FileOutcome(path, source, _ordered(remaining), silenced=applied.silenced)

    def _with_level(self, one: Reported) -> Reported:
        return replace(one, finding=self.request.selection_of(one.finding.location.path).leveled(one.finding))

    def _with_verdicts(self, path: str, reported: Sequence[Reported]) -> Sequence[Reported]:
        if not reported or not self.request.shows_verdicts:
            return reported
        from lintrain._version import __version__
        from lintrain.runtime.parent.kept_verdicts import KeptVerdicts

        cached = KeptVerdicts(path, __version__, self.request.given.get(path))
        return [replace(one, verdict=cached.of(one.finding)) for one in reported]

    def _name_findings(self, source: Source, reading: Reading, clues: Sequence[Clue]) -> list[Reported]:
        if source.is_too_large or reading.is_broken:
            return []
        from lintrain.check.names.undefined import name_findings

        found = list(name_findings(source, clues))
        source.forget_tree()
        return found

    @cached_property
    def _about_whole_scripts(self) -> list[str]:
        return [rule.name for rule in self.request.rules if rule.judges_whole_script]

    def _looked_for(
        self, selection: Selection, selected: frozenset[str], reading: Reading, looked_at_names: bool
    ) -> LookedFor:
        """Which rules have judged a file: only for those can a suppression be unused."""
        silent = (
            {crash.rule for crash in reading.crashes}
            | {one.rule for one in reading.unjudged}
            | {rule.name for rule in self.request.rules if not rule.reads_text}
        )
        if not reading.rules_ran:
            silent.update(rule.name for rule in self.request.rules)
        if not looked_at_names:
            silent.add(UNDEFINED_NAME.name)
        known = frozenset(selection.known)
        everything = (
            selected == known - selection.in_preview
            and looked_at_names
            and reading.rules_ran
            and not reading.crashes
            and not reading.unjudged
        )
        return LookedFor(selected - silent, everything, known)


def _is_on_disk(path: str, raw: bytes) -> bool:
    try:
        return load_bytes(path) == raw
    except UnreadableError:
        return False


def _is_part(source: Source, reading: Reading) -> bool:
    """Whether some rules do not judge a file: it is a piece of a script, or a cell of it does not parse."""
    is_flawed = any(one.finding.rule == SYNTAX_ERROR.name for one in reading.reported)
    return is_flawed or is_pasted(source.text)


def _each_name_once(reported: Sequence[Reported], remaining: Sequence[Reported]) -> list[Reported]:
    """What remains of the findings, of an undefined name only its first use.

    Each use fails for the same reason and has the same fix: `tf` may be used sixty times. A comment at the first use
    suppresses all of them, and comments at others are used, too.
    """
    first: dict[str, Reported] = {}
    for one in _ordered(reported):
        first.setdefault(one.finding.message, one)
    return [one for one in remaining if one.finding.rule != UNDEFINED_NAME.name or first[one.finding.message] is one]


def _ordered(reported: Sequence[Reported]) -> tuple[Reported, ...]:
    """By line, column and rule, each claim once."""
    once = {(one.finding.rule, one.finding.location, one.finding.message): one for one in reversed(reported)}
    return tuple(sorted(once.values(), key=lambda one: (one.finding.location, one.finding.rule, one.finding.message)))


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The findings of a run by module, and the modules that contain findings or related locations."""

    found: Mapping[str, list[Reported]] = field(default_factory=dict[str, list[Reported]])
    shown: Mapping[str, Source] = field(default_factory=dict[str, "Source"])

    @classmethod
    def of(cls, readings: Iterable[tuple[str, Reading]]) -> Elsewhere:
        """The findings of these results in other files than their own."""
        found: dict[str, list[Reported]] = {}
        shown: dict[str, Source] = {}
        for path, reading in readings:
            for one in reading.reported:
                locations = (one.finding.location, *(reason.location for reason in one.finding.related))
                shown.update(
                    {
                        location.path: reading.modules[location.path]
                        for location in locations
                        if location.path in reading.modules
                    }
                )
                if one.finding.location.path != path:
                    found.setdefault(one.finding.location.path, []).append(one)
        return cls(found, shown)

    def joined(self, path: str, reading: Reading) -> Reading:
        """A file's result with the findings of others in it, each mistake once; the file's own come first."""
        own = [one for one in reading.reported if one.finding.location.path == path]
        own_claims = {_claim(one) for one in own}
        others = () if reading.is_broken else _once(self.found.get(path, ()))
        return replace(reading, reported=(*own, *(one for one in others if _claim(one) not in own_claims)))

    def readings(self, asked_for: Collection[str]) -> Iterator[tuple[str, Source, Reading]]:
        """The modules with findings that were not requested, in order."""
        for path in sorted(self.found.keys() - asked_for):
            if path in self.shown:
                yield path, self.shown[path], Reading(_once(self.found[path]))


def _once(reported: Iterable[Reported]) -> tuple[Reported, ...]:
    first: dict[tuple[str, Location, str | None], Reported] = {}
    for one in reported:
        first.setdefault(_claim(one), one)
    return tuple(first.values())


def _claim(one: Reported) -> tuple[str, Location, str | None]:
    """What is equal if two scripts show the same mistake in a module."""
    return one.finding.rule, one.finding.location, one.finding.subject


@dataclass(frozen=True, slots=True)
class AppliedSuppressions:
    """The remaining findings, the suppressed ones, and the comments that suppress nothing."""

    remaining: tuple[Reported, ...]
    silenced: tuple[Silenced, ...]
    unused: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class LookedFor:
    """The rules that a run has decided for a file, whether those are all that it can, and all the known ones."""

    decided: frozenset[str]
    everything: bool
    known: frozenset[str]

    def without(self, *names: str) -> LookedFor:
        """The same without some rules, which have not judged the file."""
        return LookedFor(self.decided.difference(names), False, self.known)


NOTHING = LookedFor(frozenset(), False, frozenset())


def apply_suppressions(
    reported: Sequence[Reported], suppressions: Sequence[Suppression], looked_for: LookedFor
) -> AppliedSuppressions:
    """Leave out suppressed findings; a comment is only reported as unused if its rule ran."""
    near = _by_line(suppressions)
    used: dict[int, set[str]] = {}
    remaining: list[Reported] = []
    silenced: list[Silenced] = []
    for one in reported:
        covering = [each for each in near(one.finding.location) if each.covers(one.finding.rule, one.finding.location)]
        for comment in covering:
            used.setdefault(id(comment), set()).add(one.finding.rule)
        if covering:
            silenced.append(Silenced(one, covering[0]))
        else:
            remaining.append(one)
    unused = [
        finding
        for comment in suppressions
        for finding in _complaints(comment, used.get(id(comment), set()), looked_for)
    ]
    reported_unused = [finding for finding in unused if not _is_silenced(finding, near(finding.location))]
    return AppliedSuppressions(tuple(remaining), tuple(silenced), tuple(reported_unused))


def _by_line(suppressions: Sequence[Suppression]) -> Callable[[Location], list[Suppression]]:
    """Finds the comments that may apply to a location, in order: generated code may hold thousands of them."""
    lines: dict[int | None, list[int]] = {}
    for position, comment in enumerate(suppressions):
        lines.setdefault(comment.line, []).append(position)

    def near(location: Location) -> list[Suppression]:
        found = {position for line in (None, location.line, location.end_line) for position in lines.get(line, ())}
        return [suppressions[position] for position in sorted(found)]

    return near


def _is_silenced(finding: Finding, suppressions: Sequence[Suppression]) -> bool:
    """Whether a comment suppresses reports of unused comments; it must name that rule: `ignore` would hide itself."""
    return any(
        finding.rule in comment.rules and comment.covers(finding.rule, finding.location) for comment in suppressions
    )


def _complaints(comment: Suppression, used: set[str], looked_for: LookedFor) -> Iterator[Finding]:
    if comment.flaw:
        yield _unused(comment, comment.flaw, "write `# lintrain: ignore[rule] -- reason`")
    elif not comment.rules and not used and looked_for.everything:
        yield _unused(comment, "nothing is suppressed by this comment", "remove the comment")
    for rule in () if comment.flaw else comment.rules:
        if rule not in looked_for.known:
            near = nearest(rule, looked_for.known)
            yield _unused(
                comment, f"no rule is called `{rule}`", f"write `{near}`" if near else "`lintrain rules` lists them"
            )
        elif rule in UNCONDITIONAL:
            yield _unused(comment, f"no comment suppresses `{rule}`", f"remove `{rule}` from the comment")
        elif rule in looked_for.decided and rule not in used and rule != UNUSED_SUPPRESSION.name:
            yield _unused(comment, f"no `{rule}` is found here to suppress", f"remove `{rule}` from the comment")


def _unused(comment: Suppression, message: str, help_text: str) -> Finding:
    from lintrain.model.finding import Finding

    return Finding(UNUSED_SUPPRESSION.name, UNUSED_SUPPRESSION.level, comment.location, message, help=help_text)
