"""What a run found, as plain data for the reports."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from lintrain.builtin import SYNTAX_ERROR, UNREADABLE_FILE
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.model.finding import Finding
    from lintrain.model.fixes import Fix
    from lintrain.model.location import Location
    from lintrain.model.verdict import Verdict
    from lintrain.source.source import Source
    from lintrain.source.suppression import Suppression


@dataclass(frozen=True, slots=True)
class Reported:
    """A finding as it goes into a report: with the edit that fixes it, and the verdict of a probe.

    `is_measured`: only a run showed it, so that no check writes its fix.
    """

    finding: Finding
    fix: Fix | None = None
    verdict: Verdict | None = None
    is_measured: bool = False

    @property
    def is_confirmed(self) -> bool:
        """Whether a probe has shown the mistake."""
        return self.verdict is not None and self.verdict.outcome == "confirmed"


@dataclass(frozen=True, slots=True)
class Silenced:
    """A finding that its author has suppressed, and the comment that does so."""

    reported: Reported
    comment: Suppression


NO_RULES = frozenset({"reader", "lintrain"})
"""What may fail on a file besides a rule, and cannot be ignored."""


NOT_READ = frozenset({SYNTAX_ERROR.name, UNREADABLE_FILE.name})
"""The findings about files on which no rule ran."""

RULES_NAMED = 5
"""Rules that are listed for one file on standard error; reports for programs list all."""

FILES_NAMED = 3
"""Files that are listed for one fault on standard error; reports for programs list all."""


@dataclass(frozen=True, slots=True)
class Crash:
    """A rule (or the `reader` itself) that raised on a file: an error of lintrain, not of the file.

    For a rule of the project's own, `rule_file` is its file.
    """

    path: str
    rule: str
    error: str
    rule_file: str = ""

    @property
    def message(self) -> str:
        """The message for people: which rule failed on which file, whose fault that is, and what to do."""
        return self._message_for(self.path)

    def _message_for(self, files: str) -> str:
        if self.rule_file:
            return f"`{self.rule}` failed on {files}: {self.error}; the rule is the project's own: {self.rule_file}"
        what = f"`{self.rule}` failed on {files}: {self.error}; this is a bug in lintrain"
        instead = f"; `--ignore {self.rule}` runs without the rule" if self.rule not in NO_RULES else ""
        return f"{what}: report it as an issue, with the file, reduced as far as it still fails{instead}"

    @classmethod
    def grouped(cls, crashes: Iterable[Crash]) -> Iterator[str]:
        """The messages for many: each fault once, with the first files and the number of the others."""
        alike: dict[tuple[str, str], list[Crash]] = {}
        for crash in crashes:
            alike.setdefault((crash.rule, crash.error), []).append(crash)
        for same in alike.values():
            paths = list(dict.fromkeys(crash.path for crash in same))
            others = len(paths) - FILES_NAMED
            more = f" and {others} other file{'s' if others > 1 else ''}" if others > 0 else ""
            yield same[0]._message_for(", ".join(paths[:FILES_NAMED]) + more)


@dataclass(frozen=True, slots=True)
class Unjudged:
    """A rule that has not judged a file, or not all of it, because the file's budget was spent; and of what."""

    path: str
    rule: str
    spent: str

    @classmethod
    def grouped(cls, unjudged: Iterable[Unjudged]) -> Iterator[tuple[str, str]]:
        """The messages for people: for each file, its path and a line that names the first rules."""
        alike: dict[tuple[str, str], list[str]] = {}
        for one in unjudged:
            alike.setdefault((one.path, one.spent), []).append(one.rule)
        for (path, spent), rules in alike.items():
            named = ", ".join(f"`{rule}`" for rule in rules[:RULES_NAMED])
            others = len(rules) - RULES_NAMED
            more = f" and {others} other rule{'s' if others > 1 else ''}" if others > 0 else ""
            yield path, f"{path}: not judged by {named}{more}: {spent}"


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """All that was found in one file; `source` is None where it could not be read, and where nothing was found.

    `is_exhausted` when reading it took more than a file is given: then rules were silent. `unjudged` names them.
    `known` are the findings that the project's baseline hides, `training` the places where training starts.
    """

    path: str
    source: Source | None
    reported: tuple[Reported, ...] = ()
    crashes: tuple[Crash, ...] = ()
    silenced: tuple[Silenced, ...] = ()
    is_exhausted: bool = False
    known: tuple[Reported, ...] = ()
    training: tuple[Location, ...] = ()
    unjudged: tuple[Unjudged, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict[str, float])
    """The CPU seconds of each rule, the reader and the parser, if they are measured."""

    @property
    def suppressed(self) -> int:
        """How many findings its comments silence."""
        return len(self.silenced)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """All that a run found, file by file; `notes` are remarks on the run itself, for stderr.

    `modules` are other files that the reasons of findings point to.
    """

    files: tuple[FileOutcome, ...]
    notes: tuple[str, ...] = ()
    modules: Mapping[str, Source] = field(default_factory=dict[str, "Source"])

    @property
    def reported(self) -> list[Reported]:
        """Every finding, ordered by path, line, column and rule."""
        return [reported for file in self.files for reported in file.reported]

    @property
    def crashes(self) -> list[Crash]:
        """Every rule that raised."""
        return [crash for file in self.files for crash in file.crashes]

    @property
    def unjudged(self) -> list[Unjudged]:
        """Every rule that has not judged a file because its budget was spent."""
        return [one for file in self.files for one in file.unjudged]

    @property
    def is_incomplete(self) -> bool:
        """Whether a file was not read, or not judged by every rule; a comment or a baseline hides nothing of that."""
        hidden = (one for file in self.files for one in (*file.known, *(each.reported for each in file.silenced)))
        unread = any(one.finding.rule in NOT_READ for one in (*self.reported, *hidden))
        return unread or bool(self.unjudged or self.crashes)

    @property
    def sources(self) -> dict[str, Source]:
        """The sources that were read, by their path."""
        return {**self.modules, **{file.path: file.source for file in self.files if file.source}}
