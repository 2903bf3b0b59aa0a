"""The report for programs: plain data whose schema `lintrain schema` prints."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from lintrain.model.level import Level
from lintrain.model.verdict import Outcome
from lintrain.report.machine.compact import MAY_BE_ABSENT, compact, compact_finding
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import plain

if TYPE_CHECKING:
    from lintrain.rulebook import RuleFile

FORMAT: Final = 3
"""The version of the JSON reports; it grows whenever a program that reads them must change."""


@dataclass(frozen=True, slots=True)
class LocationEntry:
    """A range in a file: lines and columns (in characters) start at 1, the end column is exclusive.

    In a notebook, `line` and `end_line` count within the cell, and `cell` counts all cells from 1; the `file_…` fields
    are lines and columns of the .ipynb file itself.
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
    """A location that explains a finding, what happens there, and the role that it plays."""

    location: LocationEntry
    note: str
    role: str


@dataclass(frozen=True, slots=True)
class EditEntry:
    """The text that replaces a range of the file; lines and columns are as in the `file_…` fields of a location."""

    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True, slots=True)
class FixEntry:
    """The edits that fix a finding, to be applied together; a safe fix never changes a run that was correct."""

    title: str
    safe: bool
    edits: tuple[EditEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class VerdictEntry:
    """What a probe measured about a finding."""

    outcome: Outcome
    reason: str
    measured: Mapping[str, Any]  # Any: a JSON value; pydantic has no schema for a recursive alias


@dataclass(frozen=True, slots=True)
class FindingEntry:
    """One finding; its `fingerprint` depends on the file, the rule and the code of the line, not on the line number."""

    rule: str
    level: Level
    message: str
    location: LocationEntry
    why: str
    help: str
    related: tuple[RelatedEntry, ...]
    subject: str | None
    claim: Mapping[str, Any]  # Any: a JSON value
    fix: FixEntry | None
    verdict: VerdictEntry | None
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class SuppressedEntry:
    """A finding that a comment suppresses, the location of the comment, and the reason that it gives.

    `comment` is null if the project's baseline hides the finding.
    """

    finding: FindingEntry
    comment: LocationEntry | None
    reason: str


@dataclass(frozen=True, slots=True)
class CrashEntry:
    """A rule that crashed on a file, which is a bug in lintrain."""

    path: str
    rule: str
    error: str


@dataclass(frozen=True, slots=True)
class UnjudgedEntry:
    """A rule that did not check a file completely, because the budget of the file was used up."""

    path: str
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class ProbeEntry:
    """A probe whose verdicts are in the report: its script, its exit code, and its closing line."""

    script: str
    exit_code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Summary:
    """The counts of a run; the project's baseline hides `known` findings."""

    files: int
    findings: int
    levels: Mapping[str, int]
    rules: Mapping[str, int]
    suppressed: int
    fixed: int
    known: int


@dataclass(frozen=True, slots=True)
class CheckReport:
    """Everything that `lintrain check` found.

    `sources` has the SHA-256 of each file with findings, by path; `probes` lists the probes that gave the verdicts.
    """

    format: Literal[3]
    lintrain: str
    findings: tuple[FindingEntry, ...]
    crashes: tuple[CrashEntry, ...]
    summary: Summary
    suppressed: tuple[SuppressedEntry, ...] = ()
    sources: Mapping[str, str] | None = None
    probes: tuple[ProbeEntry, ...] = ()
    unjudged: tuple[UnjudgedEntry, ...] = ()

    @property
    def named(self) -> set[str]:
        """The rules of all findings, suppressed ones too."""
        return {one.rule for one in (*self.findings, *(each.finding for each in self.suppressed))}

    @property
    def problems(self) -> list[FindingEntry]:
        """The findings to act on: all of them, without those that a probe in this report refuted."""
        return [one for one in self.findings if not (self.probes and is_refuted(one))]


def whys_of(rules: Iterable[RuleFile], named: Container[str] | None = None) -> dict[str, str]:
    """The first paragraph of the pages of these rules, by name: of all, or of the named ones."""
    from lintrain.check.one_file import first_paragraph

    return {rule.name: first_paragraph(rule.manual.why) for rule in rules if named is None or rule.name in named}


def without_suppressed(report: CheckReport) -> CheckReport:
    """The report without suppressed findings, which GitHub's code scanning would open alerts for."""
    return replace(report, suppressed=())


def is_refuted(entry: FindingEntry) -> bool:
    """Whether a probe refuted the finding."""
    return entry.verdict is not None and entry.verdict.outcome is Outcome.REFUTED


def as_json(report: CheckReport, whys: Mapping[str, str] | None = None) -> str:
    """The report as JSON, without what may be absent: `whys` has the first paragraph of the page of each rule."""
    return written_json(compact(plain_entries(report), whys or {}))


def as_json_lines(report: CheckReport) -> str:
    """One line of JSON per finding."""
    findings = plain_entries(report)["findings"]
    return "".join(f"{_written(compact_finding(one, {}))}\n" for one in findings)


def plain_entries(report: CheckReport) -> dict[str, Any]:
    """The report as JSON values; the claims of findings are for `lintrain judge` alone."""
    document: dict[str, Any] = cast("dict[str, Any]", plain(asdict(report)))  # Any: JSON
    for one in (*document["findings"], *(each["finding"] for each in document["suppressed"])):
        one["claim"] = {}
    return document


def written_json(document: Mapping[str, Any]) -> str:
    """A report as text: a line for each finding, so that a difference of two reports can be read."""
    rest = {name: value for name, value in document.items() if name != "findings"}
    findings = ",\n".join(map(_written, document["findings"]))
    return f'{_written(rest).removesuffix("}")},"findings":[\n{findings}\n]}}'


def _written(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def check_report_schema() -> dict[str, Any]:  # Any: a JSON schema is a tree of whatever JSON holds
    """The schema of `lintrain check --output-format json`."""
    from pydantic import TypeAdapter

    from lintrain.report.machine.document import CheckReport

    schema = TypeAdapter(CheckReport).json_schema(mode="serialization")
    for name, definition in {**schema["$defs"], "CheckReport": schema}.items():
        absent = MAY_BE_ABSENT.get(name, ())
        definition["required"] = [one for one in definition.get("required", ()) if one not in absent]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
