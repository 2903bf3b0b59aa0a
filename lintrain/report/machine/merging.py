"""Reports merged into one, and a stored report turned back into findings."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from lintrain.check.result import Reported
from lintrain.model.finding import Finding, Related
from lintrain.model.fixes import Fix
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.report.machine.document import CheckReport, FindingEntry, LocationEntry, Summary, SuppressedEntry
from lintrain.report.machine.entries import digest
from lintrain.report.machine.wording import absolute
from lintrain.source.reading import UnreadableError, read_file
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

STRENGTH = {Outcome.CONFIRMED: 2, Outcome.REFUTED: 1, Outcome.INCONCLUSIVE: 0}

OTHER_STATE = "changed between check and probe, so verdicts on it are left out"

Claim = tuple[str, str, str, int | None, int, int]
"""What identifies a finding in two reports of the same text: file, rule, message, cell, line and column."""


@dataclass(frozen=True, slots=True)
class Joined:
    """The merged report, and notes on what could not be merged."""

    report: CheckReport
    notes: tuple[str, ...]


def join(reports: Sequence[CheckReport]) -> Joined:
    """Merge reports; the strongest verdict on a finding counts, confirmed before refuted.

    The verdicts of a probe on a file that changed since the check are left out.
    """
    checks = [report for report in reports if not report.probes]
    probed = [report for report in reports if report.probes]
    texts = {_file(path): text for report in checks for path, text in (report.sources or {}).items()}
    suppressed = {_claim(one.finding): one for report in reports for one in report.suppressed}
    findings = {_claim(entry): entry for report in checks for entry in report.findings}
    stale: dict[str, None] = {}
    for report in probed:
        others = {path for path, text in (report.sources or {}).items() if texts.get(_file(path), text) != text}
        stale.update(dict.fromkeys(sorted(others)))
        for entry in report.findings:
            claim = _claim(entry)
            if entry.location.path not in others and claim not in suppressed:
                findings[claim] = _stronger(findings.get(claim), entry)
    probes = [probe for report in probed for probe in report.probes if probe.script not in stale]
    joined = _report(checks + probed, _in_order(findings.values()), tuple(suppressed.values()))
    return Joined(
        replace(joined, probes=tuple(dict.fromkeys(probes))), tuple(f"{path}: {OTHER_STATE}" for path in stale)
    )


def _report(
    reports: Sequence[CheckReport], findings: tuple[FindingEntry, ...], suppressed: tuple[SuppressedEntry, ...]
) -> CheckReport:
    """The merged report; if a file was read in several states, that of the check counts."""
    sources = {path: text for report in reversed(reports) for path, text in (report.sources or {}).items()}
    files = sum(report.summary.files for report in reports if not report.probes)
    rules = [entry.rule for entry in findings]
    return replace(
        reports[0],
        findings=findings,
        crashes=tuple(dict.fromkeys(crash for report in reports for crash in report.crashes)),
        unjudged=tuple(dict.fromkeys(one for report in reports for one in report.unjudged)),
        summary=Summary(
            files or len(reports),
            len(findings),
            {level.value: sum(entry.level == level for entry in findings) for level in Level},
            {rule: rules.count(rule) for rule in sorted(set(rules))},
            sum(one.comment is not None for one in suppressed) or sum(one.summary.suppressed for one in reports),
            sum(report.summary.fixed for report in reports),
            sum(one.comment is None for one in suppressed) or sum(one.summary.known for one in reports),
        ),
        suppressed=suppressed,
        sources=dict(sorted(sources.items())),
    )


def _stronger(one: FindingEntry | None, other: FindingEntry) -> FindingEntry:
    """The first of two entries of a finding, with the stronger verdict."""
    if one is None:
        return other
    verdicts = [verdict for verdict in (one.verdict, other.verdict) if verdict]
    strongest = max(verdicts, key=lambda verdict: STRENGTH[verdict.outcome], default=None)
    return replace(one, verdict=strongest, fix=one.fix or other.fix)


def _in_order(findings: Iterable[FindingEntry]) -> tuple[FindingEntry, ...]:
    return tuple(_with_distinct_fingerprints(sorted(findings, key=_order)))


def _with_distinct_fingerprints(findings: Iterable[FindingEntry]) -> Iterator[FindingEntry]:
    """The findings, with distinct fingerprints."""
    seen: dict[str, int] = {}
    for entry in findings:
        seen[entry.fingerprint] = seen.get(entry.fingerprint, -1) + 1
        count = seen[entry.fingerprint]
        yield replace(entry, fingerprint=f"{entry.fingerprint}-{count}") if count else entry


def _order(entry: FindingEntry) -> tuple[str, int, int, str, str]:
    at = entry.location
    return at.path, at.file_line, at.file_column, entry.rule, entry.message


def _claim(entry: FindingEntry) -> Claim:
    at = entry.location
    return _file(at.path), entry.rule, entry.message, at.cell, at.line, at.column


def _file(path: str) -> str:
    return os.path.normcase(absolute(path))


def open_sources(report: CheckReport) -> dict[str, Source]:
    """The files of a report that are unchanged since then."""
    found: dict[str, Source] = {}
    for path, text in (report.sources or {}).items():
        try:
            source = read_file(path)
        except UnreadableError:
            continue
        if digest(source) == text:
            found[path] = source
    return found


def reopened(entries: Iterable[FindingEntry], sources: dict[str, Source]) -> list[Reported]:
    """Findings of a stored report; without the source they keep the file's line numbers."""
    return [_reported(entry, sources) for entry in entries]


def _reported(entry: FindingEntry, sources: dict[str, Source]) -> Reported:
    finding = Finding(
        entry.rule,
        entry.level,
        _location(entry.location, sources),
        entry.message,
        entry.why,
        entry.help,
        tuple(Related(_location(one.location, sources), one.note, one.role) for one in entry.related),
        entry.subject,
        claim=entry.claim,
    )
    verdict = entry.verdict
    return Reported(
        finding,
        Fix(entry.fix.title, (), entry.fix.safe) if entry.fix else None,
        Verdict(verdict.outcome, verdict.reason, verdict.measured) if verdict else None,
    )


def _location(at: LocationEntry, sources: dict[str, Source]) -> Location:
    source = sources.get(at.path)
    if source is None:
        return Location(at.path, at.file_line, at.file_column, at.file_end_line, at.file_end_column)
    location = Location(at.path, at.line, at.column, at.end_line, at.end_column)
    cells = source.notebook.cells if source.notebook else ()
    first = next((cell.first_line for cell in cells if cell.number == at.cell), 1)
    return replace(location, line=at.line + first - 1, end_line=at.end_line + first - 1)
