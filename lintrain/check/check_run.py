"""A whole run: every file read while ruff checks names, and suppressions applied."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.builtin import UNDEFINED_NAME, UNUSED_SUPPRESSION
from lintrain.check.crew import crew_for
from lintrain.check.files import FileReader, ReadFile
from lintrain.check.modules import Elsewhere
from lintrain.check.one_file import Reading
from lintrain.check.result import CheckResult, FileOutcome, Reported
from lintrain.check.silence import NOTHING, LookedFor, apply_suppressions
from lintrain.check.tiers import names_library
from lintrain.source.reading import UnreadableError, holds_too_much, read_bytes
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.check.check_request import CheckRequest
    from lintrain.check.kept import KeptReadings
    from lintrain.check.names.ruff import Clue, NameSearch
    from lintrain.source.source import Source


@dataclass(eq=False)
class CheckRun:
    """One run over the files of a request."""

    request: CheckRequest
    reader: FileReader = field(init=False)
    _readings: KeptReadings | None = field(init=False)
    _afresh: Sequence[ReadFile] = field(init=False, default=())

    def __post_init__(self) -> None:
        self.reader = FileReader(self.request)
        self._readings = self._kept_readings()

    def check(self) -> CheckResult:
        """Check every file while ruff checks the names of those that use a library."""
        known = self._readings.find() if self._readings else {}
        left = [path for path in self.request.files if path not in known]
        crew = crew_for(self.reader, left)
        search = self._search_names(left)
        try:
            read = crew.read()
            clues = search.collect() if search else {}
        except BaseException:
            crew.stop()
            if search:
                search.stop()
            raise
        problem = search.problem if search else ""
        afresh = [self._with_names(file, clues.get(str(Path(file.path).absolute()), [])) for file in read]
        self._afresh = () if problem else afresh
        known.update((file.path, file) for file in afresh)
        return self._outcome([known[path] for path in self.request.files], problem)

    def keep(self) -> None:
        """Cache the new results for later runs, after the report is written, so that it is not delayed."""
        if self._readings:
            self._readings.keep(self._afresh)

    def _kept_readings(self) -> KeptReadings | None:
        """The cached results; contents that differ from the disk are never cached."""
        if self.request.store is None or self.request.given:
            return None
        from lintrain.check.kept import KeptReadings

        return KeptReadings(self.request.store, self.request)

    def _outcome(self, read: Sequence[ReadFile], problem: str) -> CheckResult:
        elsewhere = Elsewhere.of((file.path, file.reading) for file in read)
        files = [self._settle(file, elsewhere, not problem) for file in read]
        if self.request.speaks_of_modules:
            asked_for = {file.path for file in read}
            unasked = [each for each in elsewhere.readings(asked_for) if not self.request.leaves_out(each[0])]
            files += [self._settle_module(path, source, reading) for path, source, reading in unasked]
            files.sort(key=lambda file: file.path)
        if self.request.baseline:
            files = self.request.baseline.hide(files)
        notes = dict.fromkeys(note for file in read for note in file.notes)
        return CheckResult(tuple(files), (*filter(None, [problem]), *notes), elsewhere.shown)

    def _search_names(self, files: Sequence[str]) -> NameSearch | None:
        """Ruff at work on the files that use a library; None if there are none."""
        paths = [path for path in files if self._wants_names(path)]
        if not paths:
            return None
        from lintrain.check.names.ruff import start_search

        return start_search(paths, self.request.given)

    def _wants_names(self, path: str) -> bool:
        if UNDEFINED_NAME.name not in self.request.selection.of(path):
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
        """A file with the findings of ruff's clues; then its text is kept in memory."""
        source = file.source or self._source_of(file) if clues else None
        if source is None:
            return file
        return replace(file, source=source, names=tuple(self._name_findings(source, file.reading, clues)))

    def _settle(self, file: ReadFile, elsewhere: Elsewhere, looked_at_names: bool) -> FileOutcome:
        """What is left of a file's findings when selection and suppressions are applied."""
        selected = self.request.selection.of(file.path)
        reading = elsewhere.joined(file.path, file.reading)
        source = file.source or elsewhere.shown.get(file.path)
        reported = [*reading.reported, *file.names]
        reported = [self._with_level(one) for one in reported if one.finding.rule in selected]
        looked_for = self._looked_for(selected, reading, looked_at_names) if file.suppressions else NOTHING
        heard = apply_suppressions(reported, file.suppressions, looked_for)
        kept = list(heard.kept)
        if UNUSED_SUPPRESSION.name in selected and not reading.is_broken:
            kept.extend(self._with_level(Reported(finding)) for finding in heard.unused)
        judged = self._with_verdicts(file.path, kept)
        return FileOutcome(
            file.path,
            source,
            _ordered(judged),
            reading.crashes,
            heard.silenced,
            reading.is_exhausted,
            training=reading.training,
            unjudged=tuple(one for one in reading.unjudged if one.rule in selected),
        )

    def _settle_module(self, path: str, source: Source, reading: Reading) -> FileOutcome:
        """What is left of the findings in a module that was not requested: no fix, and no check of its comments."""
        selected = self.request.selection.of(path)
        mine = (one for one in reading.reported if one.finding.rule in selected)
        reported = [self._with_level(replace(one, fix=None)) for one in mine]
        heard = apply_suppressions(reported, source.suppressions, NOTHING)
        kept = self._with_verdicts(path, heard.kept)
        return FileOutcome(path, source, _ordered(kept), silenced=heard.silenced)

    def _with_level(self, one: Reported) -> Reported:
        return replace(one, finding=self.request.selection.leveled(one.finding))

    def _with_verdicts(self, path: str, reported: Sequence[Reported]) -> Sequence[Reported]:
        if not reported or not self.request.knows_verdicts:
            return reported
        from lintrain._version import __version__
        from lintrain.runtime.parent.kept_verdicts import KeptVerdicts

        kept = KeptVerdicts(path, __version__, self.request.given.get(path))
        return [replace(one, verdict=kept.of(one.finding)) for one in reported]

    def _name_findings(self, source: Source, reading: Reading, clues: Sequence[Clue]) -> list[Reported]:
        if source.is_too_large or reading.is_broken:
            return []
        from lintrain.check.names.undefined import name_findings

        found = list(name_findings(source, clues))
        source.forget_tree()
        return found

    def _looked_for(self, selected: frozenset[str], reading: Reading, looked_at_names: bool) -> LookedFor:
        """Which rules have judged a file: only for those can a suppression be unused."""
        silent = (
            {crash.rule for crash in reading.crashes}
            | {one.rule for one in reading.unjudged}
            | {rule.name for rule in self.request.rules if not rule.reads_text}
        )
        if not reading.rules_were_heard:
            silent.update(rule.name for rule in self.request.rules)
        if not looked_at_names:
            silent.add(UNDEFINED_NAME.name)
        known = frozenset(self.request.selection.known)
        everything = (
            selected == known - self.request.selection.young
            and looked_at_names
            and reading.rules_were_heard
            and not reading.crashes
            and not reading.unjudged
        )
        return LookedFor(selected - silent, everything, known)


def _ordered(reported: Sequence[Reported]) -> tuple[Reported, ...]:
    """By line, column and rule, each claim once."""
    once = {(one.finding.rule, one.finding.location, one.finding.message): one for one in reversed(reported)}
    return tuple(sorted(once.values(), key=lambda one: (one.finding.location, one.finding.rule, one.finding.message)))
