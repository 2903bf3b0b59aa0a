"""Findings as the diagnostics of an editor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lsprotocol import types as lsp

from lintrain.builtin import UNUSED_SUPPRESSION
from lintrain.check.result import Reported, Unjudged
from lintrain.model.finding import Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.report.text.pages import address_of
from lintrain.server.checking import Checked
from lintrain.server.documents import OpenDocuments
from lintrain.server.open_text import TextRange
from lintrain.server.positions import Units, lsp_range, uri_of
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import shown

SOURCE = "lintrain"
NOT_JUDGED = "not-judged"

SEVERITIES: Mapping[Level, lsp.DiagnosticSeverity] = {
    Level.ERROR: lsp.DiagnosticSeverity.Error,
    Level.WARNING: lsp.DiagnosticSeverity.Warning,
    Level.NOTE: lsp.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class Viewer:
    """How a client shows findings: its open documents, its column units, and whether it shows related locations."""

    documents: OpenDocuments
    units: Units
    shows_related: bool

    def locate(self, checked: Checked, location: Location) -> TextRange | None:
        """A location in the client's units; None if the source is not available."""
        source = checked.source_of(location.path)
        if document := self.documents.at(location.path):
            return document.locate(source, location, self.units)
        if source is None:
            return None
        in_file = source.location_in_file(location)
        lines = source.file_text.split("\n")
        ends = (in_file.line, in_file.column), (in_file.end_line, in_file.end_column)
        return TextRange(uri_of(location.path), lsp_range(lines, *ends, self.units))

    def diagnostics(self, checked: Checked, reported: Iterator[Reported]) -> Iterator[tuple[str, lsp.Diagnostic]]:
        """Each finding as a diagnostic, with the URI of its text."""
        for one in reported:
            at = self.locate(checked, one.finding.location)
            if at is not None:
                yield at.uri, self._diagnostic(checked, one, at.range)

    def not_judged(self, checked: Checked) -> Iterator[tuple[str, lsp.Diagnostic]]:
        """Diagnostics about files that were not checked completely, because their budget was used up."""
        for path, line in Unjudged.grouped(checked.outcome.unjudged):
            at = self.locate(checked, Location(path, 1, 1, 1, 2))
            where = at.range if at else lsp_range([""], (1, 1), (1, 1), self.units)
            level = lsp.DiagnosticSeverity.Information
            yield (
                at.uri if at else uri_of(path),
                lsp.Diagnostic(range=where, message=shown(line), severity=level, code=NOT_JUDGED, source=SOURCE),
            )

    def _diagnostic(self, checked: Checked, one: Reported, where: lsp.Range) -> lsp.Diagnostic:
        finding = one.finding
        related = [each for why in finding.related if (each := self._related(checked, why))]
        is_unused = finding.rule == UNUSED_SUPPRESSION.name
        address = address_of(finding.rule, checked.documentation)
        return lsp.Diagnostic(
            range=where,
            message="\n".join(message_lines(one)),
            severity=severity_of(one),
            code=finding.rule,
            code_description=lsp.CodeDescription(href=address) if address else None,
            source=SOURCE,
            tags=[lsp.DiagnosticTag.Unnecessary] if is_unused else None,
            related_information=related if related and self.shows_related else None,
        )

    def _related(self, checked: Checked, reason: Related) -> lsp.DiagnosticRelatedInformation | None:
        at = self.locate(checked, reason.location)
        if at is None or not reason.note:
            return None
        return lsp.DiagnosticRelatedInformation(location=lsp.Location(uri=at.uri, range=at.range), message=reason.note)


def severity_of(one: Reported) -> lsp.DiagnosticSeverity:
    """The severity of a finding; a refuted one is a hint."""
    if one.verdict and one.verdict.outcome is Outcome.REFUTED:
        return lsp.DiagnosticSeverity.Hint
    return SEVERITIES[one.finding.level]


def message_lines(one: Reported) -> Iterator[str]:
    """The message, the verdict of a probe, and the fix."""
    yield one.finding.message
    if one.verdict:
        yield f"{one.verdict.outcome.value} by a probe: {one.verdict.reason}"
    if one.finding.help:
        yield f"help: {one.finding.help}"
