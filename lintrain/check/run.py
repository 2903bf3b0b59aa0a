"""A whole run: every file read, ruff asked beside us, the author's suppressions heard."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.builtin import UNDEFINED_NAME, UNUSED_SUPPRESSION
from lintrain.check.modules import Elsewhere
from lintrain.check.one_file import Reading, check_source, unreadable
from lintrain.check.outcome import FileOutcome, Outcome, Reported
from lintrain.check.selection import Selection
from lintrain.check.silence import NOTHING, LookedFor, apply_suppressions
from lintrain.check.tiers import names_library
from lintrain.source.project import Project
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes

if TYPE_CHECKING:
    from lintrain.check.baseline import Baseline
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.names.ruff import Clue, NameSearch
    from lintrain.rulebook import RuleFile
    from lintrain.source.source import Source


@dataclass(frozen=True, slots=True)
class Request:
    """What to check: the files (in order), every rule there is, the names in force, and the libraries' versions.

    `find_targets` tells the versions that scripts of a folder are written for: a repository may hold several projects.
    `given` are the contents of files that are not read from the disk: standard input, or files with fixes in them.
    With `knows_verdicts`, findings carry what the last probe said of them. What the `baseline` knows is hidden.
    `go_on` is called between the steps of a check; what it raises ends the run.
    Findings may lie in modules that the files import: `leaves_out` tells of which nobody wants to hear, and without
    `speaks_of_modules` only those are reported that lie in the files themselves.
    """

    files: Sequence[str]
    rules: Sequence[RuleFile]
    selection: Selection
    find_targets: Callable[[Path], TargetVersions]
    given: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    leaves_out: Callable[[str], bool] = field(default=lambda _: False)
    speaks_of_modules: bool = True
    knows_verdicts: bool = False
    baseline: Baseline | None = None
    go_on: Callable[[], None] = field(default=lambda: None)


@dataclass(eq=False)
class Run:
    """One run over the files of a request."""

    request: Request
    targets: dict[Path, TargetVersions] = field(default_factory=dict[Path, "TargetVersions"])
    project: Project = field(init=False)

    def __post_init__(self) -> None:
        given = {os.path.abspath(path): raw for path, raw in self.request.given.items()}  # noqa: PTH100
        self.project = Project(given, {os.path.abspath(path): path for path in self.request.files})  # noqa: PTH100

    def check(self) -> Outcome:
        """Check every file, one after the other, while ruff looks at the names of those that use a library."""
        search = self._search_names()
        try:
            read = [(path, *self._read(path)) for path in self.request.files]
            clues = search.collect() if search else {}
        except BaseException:
            if search:
                search.stop()
            raise
        problem = search.problem if search else ""
        elsewhere = Elsewhere.of((path, reading) for path, _, reading in read)
        files = [
            self._settle(
                path,
                source,
                elsewhere.joined(path, reading),
                clues.get(str(Path(path).absolute()), []),
                not problem,
            )
            for path, source, reading in read
        ]
        if self.request.speaks_of_modules:
            asked_for = {path for path, _, _ in read}
            unasked = [each for each in elsewhere.readings(asked_for) if not self.request.leaves_out(each[0])]
            files += [self._settle_module(path, source, reading) for path, source, reading in unasked]
            files.sort(key=lambda file: file.path)
        if self.request.baseline:
            files = self.request.baseline.hide(files)
        notes = dict.fromkeys(note for targets in self.targets.values() for note in targets.notes)
        return Outcome(tuple(files), (*filter(None, [problem]), *notes), elsewhere.shown)

    def _targets_of(self, source: Source) -> TargetVersions:
        """The versions that a script is written for: looked up when the first of its folder is read."""
        folder = Path(source.path).absolute().parent
        if folder not in self.targets:
            self.targets[folder] = self.request.find_targets(folder)
        if source.notebook is None:
            return self.targets[folder]
        from lintrain.knowledge.installs import with_installs

        return with_installs(self.targets[folder], source.notebook.masked.values())

    def _search_names(self) -> NameSearch | None:
        """Ruff at work on the files that use a library; None where there are none."""
        paths = [path for path in self.request.files if self._wants_names(path)]
        if not paths:
            return None
        from lintrain.names.ruff import start_search

        return start_search(paths, self.request.given)

    def _wants_names(self, path: str) -> bool:
        if UNDEFINED_NAME.name not in self.request.selection.of(path):
            return False
        try:
            return names_library(self._load(path))
        except UnreadableError:
            return False

    def _load(self, path: str) -> bytes:
        return self.request.given[path] if path in self.request.given else load_bytes(path)

    def _read(self, path: str) -> tuple[Source | None, Reading]:
        try:
            source = read_bytes(path, self._load(path))
        except UnreadableError as error:
            return None, Reading((Reported(unreadable(path, str(error), error.line)),), is_broken=True)
        names = self.request.selection.of(path)
        rules = [rule for rule in self.request.rules if rule.name in names]
        reading = check_source(source, rules, partial(self._targets_of, source), self.project, self.request.go_on)
        self.project.forget()
        source.forget_tree()  # the trees of a whole repository would fill the memory
        return source, reading

    def _settle(
        self, path: str, source: Source | None, reading: Reading, clues: Sequence[Clue], looked_at_names: bool
    ) -> FileOutcome:
        """What is left of a file's findings when selection and suppressions are applied."""
        selected = self.request.selection.of(path)
        reported = [*reading.reported, *self._name_findings(source, reading, clues)]
        reported = [self._with_level(one) for one in reported if one.finding.rule in selected]
        suppressions = source.suppressions if source else ()
        looked_for = self._looked_for(selected, reading, looked_at_names) if suppressions else NOTHING
        heard = apply_suppressions(reported, suppressions, looked_for)
        kept = list(heard.kept)
        if UNUSED_SUPPRESSION.name in selected and not reading.is_broken:
            kept.extend(self._with_level(Reported(finding)) for finding in heard.unused)
        judged = self._with_verdicts(path, kept)
        return FileOutcome(
            path,
            source,
            _ordered(judged),
            reading.crashes,
            heard.silenced,
            reading.is_exhausted,
            training=reading.training,
        )

    def _settle_module(self, path: str, source: Source, reading: Reading) -> FileOutcome:
        """What is left of the findings in a module that nobody asked to check: no fix, and no word on its comments."""
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
        from lintrain import __version__
        from lintrain.probe.kept_verdicts import KeptVerdicts

        kept = KeptVerdicts(path, __version__, self.request.given.get(path))
        return [replace(one, verdict=kept.of(one.finding)) for one in reported]

    def _name_findings(self, source: Source | None, reading: Reading, clues: Sequence[Clue]) -> list[Reported]:
        if source is None or reading.is_broken or not clues:
            return []
        from lintrain.names.undefined import name_findings

        return list(name_findings(source, clues))

    def _looked_for(self, selected: frozenset[str], reading: Reading, looked_at_names: bool) -> LookedFor:
        """Which rules have had their say on a file: only of those can a suppression be called unused."""
        silent = {crash.rule for crash in reading.crashes} | {
            rule.name for rule in self.request.rules if not rule.reads_text
        }
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
        )
        return LookedFor(selected - silent, everything, known)


def _ordered(reported: Sequence[Reported]) -> tuple[Reported, ...]:
    """By line, column and rule, each claim once."""
    once = {(one.finding.rule, one.finding.place, one.finding.message): one for one in reversed(reported)}
    return tuple(sorted(once.values(), key=lambda one: (one.finding.place, one.finding.rule, one.finding.message)))
