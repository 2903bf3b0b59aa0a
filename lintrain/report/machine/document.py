"""The report for programs: plain data whose schema `lintrain schema` prints."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any, Literal

from lintrain.model.level import Level
from lintrain.model.verdict import Outcome
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text.json_values import plain


@dataclass(frozen=True, slots=True)
class Position:
    """A stretch of a file: lines and columns (characters) from 1, the end column exclusive.

    In a notebook, lines count within the cell (`cell` counts every cell from 1), and those of `file_…` are lines and
    columns of the .ipynb file itself; `end_line` counts from the same line as `line`.
    """

    path: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int
    file_line: int
    file_column: int
    file_end_line: int
    file_end_column: int


@dataclass(frozen=True, slots=True)
class RelatedEntry:
    """A place that explains a finding, what happens there, and its part in the story."""

    position: Position
    note: str
    role: str


@dataclass(frozen=True, slots=True)
class EditEntry:
    """Other text for a stretch of the file itself; lines and columns are those of `file_…` of a position."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class FixEntry:
    """What mends a finding; a safe fix changes no run that was correct. Its edits belong together."""

    title: str
    safe: bool
    edits: tuple[EditEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class VerdictEntry:
    """What a probe measured of a finding."""

    outcome: Outcome
    reason: str
    measured: Mapping[str, Any]  # Any: what JSON holds; a type that names itself is more than pydantic's schemas take


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """One finding; its `fingerprint` stays while file, rule and code of its line do, wherever the line moves."""

    rule: str
    level: Level
    message: str
    position: Position
    why: str
    help: str
    related: tuple[RelatedEntry, ...]
    subject: str | None
    claim: Mapping[str, Any]  # Any: what JSON holds
    fix: FixEntry | None
    verdict: VerdictEntry | None
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class SuppressedEntry:
    """A finding that a comment silences, where that stands, and the reason that it gives.

    Without a comment it is one that the project's baseline hides.
    """

    finding: FindingEntry
    comment: Position | None
    reason: str


@dataclass(frozen=True, slots=True)
class CrashEntry:
    """A rule that failed on a file: an error of lintrain."""

    path: str
    rule: str
    error: str


@dataclass(frozen=True, slots=True)
class UnjudgedEntry:
    """A rule that has not judged a file, or not all of it, because what a file may cost was spent."""

    path: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeEntry:
    """A probe whose verdicts are in the report: its script, its exit code, and what it came to."""

    script: str
    exit_code: int
    reason: str


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
    """Everything that `lintrain check` found; `format` grows when a reader of older reports would trip.

    `sources` are the SHA-256 of the texts that findings lie in, by their paths; `probes` are those that judged them.
    """

    format: Literal[1]
    lintrain: str
    findings: tuple[FindingEntry, ...]
    crashes: tuple[CrashEntry, ...]
    summary: Summary
    suppressed: tuple[SuppressedEntry, ...] = ()
    sources: Mapping[str, str] | None = None
    probes: tuple[ProbeEntry, ...] = ()
    unjudged: tuple[UnjudgedEntry, ...] = ()

    @property
    def problems(self) -> list[FindingEntry]:
        """The findings to act on: where a probe judged them, not those that it refuted."""
        return [one for one in self.findings if not (self.probes and is_refuted(one))]


def without_suppressed(report: CheckReport) -> CheckReport:
    """A report that only counts what authors silenced: GitHub's code scanning opens alerts for it all the same."""
    return replace(report, suppressed=())


def is_refuted(entry: FindingEntry) -> bool:
    """Whether a probe saw that the claim is not so."""
    return entry.verdict is not None and entry.verdict.outcome is Outcome.REFUTED


def as_json(report: CheckReport) -> str:
    """A report as JSON text."""
    return json.dumps(plain(asdict(report)), indent=2, ensure_ascii=False)


def as_json_lines(report: CheckReport) -> str:
    """A line of JSON for each finding."""
    return "".join(f"{json.dumps(plain(asdict(one)), ensure_ascii=False)}\n" for one in report.findings)
