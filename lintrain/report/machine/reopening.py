"""A stored report read again: who can show code opens the files, as long as they are as they were."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from lintrain.check.result import Reported
from lintrain.model.finding import Finding, Related
from lintrain.model.fixes import Fix
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.report.machine.document import CheckReport, FindingEntry, LocationEntry
from lintrain.report.machine.entries import digest
from lintrain.source.reading import UnreadableError, read_file
from lintrain.source.source import Source


def open_sources(report: CheckReport) -> dict[str, Source]:
    """The files of a report that still hold the text that was read then."""
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
    """Findings of a report as a run has them; in a file that is not there any more they have the lines of that file."""
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
