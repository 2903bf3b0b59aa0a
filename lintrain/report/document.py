"""The report for programs: plain data whose schema `lintrain schema` prints."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lintrain import __version__
from lintrain.check.outcome import Crash, Outcome, Reported
from lintrain.core.fix import Fix
from lintrain.core.level import Level
from lintrain.core.place import Place
from lintrain.core.verdict import Ruling, Verdict
from lintrain.report.frame import FindSource


@dataclass(frozen=True, slots=True)
class Position:
    """A stretch of a file: lines and columns (characters) from 1, the end column exclusive.

    In a notebook, lines count within the cell (`cell` counts every cell from 1), and `file_line` is the line of the
    .ipynb file itself; `end_line` counts from the same line as `line`.
    """

    path: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int
    file_line: int


@dataclass(frozen=True, slots=True)
class ReasonEntry:
    """A place that explains a finding, what happens there, and its part in the story."""

    position: Position
    note: str
    role: str


@dataclass(frozen=True, slots=True)
class FixEntry:
    """What mends a finding; a safe fix changes no run that was correct."""

    title: str
    safe: bool


@dataclass(frozen=True, slots=True)
class VerdictEntry:
    """What a probe measured of a finding."""

    ruling: Ruling
    reason: str
    measured: Mapping[str, Any]  # Any: what JSON holds; a type that names itself is more than pydantic's schemas take


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """One finding."""

    rule: str
    level: Level
    message: str
    position: Position
    why: str
    help: str
    because: tuple[ReasonEntry, ...]
    subject: str | None
    facts: Mapping[str, str | int | float | bool | None]
    fix: FixEntry | None
    verdict: VerdictEntry | None


@dataclass(frozen=True, slots=True)
class CrashEntry:
    """A rule that failed on a file: an error of lintrain."""

    path: str
    rule: str
    error: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a run; `known` findings are hidden by the project's baseline."""

    files: int
    findings: int
    levels: Mapping[str, int]
    rules: Mapping[str, int]
    suppressed: int
    fixed: int
    known: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that `lintrain check` found; `format` grows when a reader of older reports would trip."""

    format: Literal[1]
    lintrain: str
    findings: tuple[FindingEntry, ...]
    crashes: tuple[CrashEntry, ...]
    summary: Summary


def check_report(outcome: Outcome, find_source: FindSource, fixed: int = 0) -> CheckReport:
    """The report of a run; `fixed` findings are gone because their fixes were written."""
    reported = outcome.reported
    return CheckReport(
        1,
        __version__,
        tuple(finding_entry(one, find_source) for one in reported),
        tuple(_crash_entry(crash) for crash in outcome.crashes),
        Summary(
            len(outcome.files),
            len(reported),
            {level.value: sum(one.finding.level == level for one in reported) for level in Level},
            dict(sorted(Counter(one.finding.rule for one in reported).items())),
            sum(file.suppressed for file in outcome.files),
            fixed,
            sum(len(file.known) for file in outcome.files),
        ),
    )


def as_json(report: CheckReport) -> str:
    """A report as JSON text."""
    return json.dumps(asdict(report), indent=2, ensure_ascii=False)


def finding_entry(one: Reported, find_source: FindSource) -> FindingEntry:
    """One finding as programs read it."""
    finding = one.finding
    return FindingEntry(
        finding.rule,
        finding.level,
        finding.message,
        position_of(finding.place, find_source),
        finding.why,
        finding.help,
        tuple(
            ReasonEntry(position_of(reason.place, find_source), reason.note, reason.role) for reason in finding.because
        ),
        finding.subject,
        dict(finding.facts),
        _fix_entry(one.fix),
        _verdict_entry(one.verdict),
    )


def position_of(place: Place, find_source: FindSource) -> Position:
    """A place as programs read it."""
    source = find_source(place.path)
    if source is None:
        return Position(place.path, None, place.line, place.column, place.end_line, place.end_column, place.line)
    at = source.locate(place)
    end_line = at.line + place.end_line - place.line
    return Position(place.path, at.cell, at.line, at.column, end_line, place.end_column, at.file_line)


def _fix_entry(fix: Fix | None) -> FixEntry | None:
    return FixEntry(fix.title, fix.safe) if fix else None


def _verdict_entry(verdict: Verdict | None) -> VerdictEntry | None:
    return VerdictEntry(verdict.ruling, verdict.reason, verdict.measured) if verdict else None


def _crash_entry(crash: Crash) -> CrashEntry:
    return CrashEntry(crash.path, crash.rule, crash.error)
