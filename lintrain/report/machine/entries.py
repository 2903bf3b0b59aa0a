"""The JSON report of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256

from lintrain._version import __version__
from lintrain.check.fixing import TextEdit, TextEdits
from lintrain.check.result import CheckResult, Crash, Reported
from lintrain.model.claims import plain_claim
from lintrain.model.finding import Finding
from lintrain.model.fixes import Fix
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.report.machine.document import (
    FORMAT,
    CheckReport,
    CrashEntry,
    EditEntry,
    FindingEntry,
    FixEntry,
    LocationEntry,
    ProbeEntry,
    RelatedEntry,
    Summary,
    SuppressedEntry,
    UnjudgedEntry,
    VerdictEntry,
)
from lintrain.report.machine.wording import from_root
from lintrain.source.source import FindSource, Source
from lintrain.source.suppression import Suppression

FINGERPRINT = 32
"""Digits of a fingerprint: 128 bits."""

EditsOf = Callable[[Source, Fix], Sequence[TextEdit]]


def no_edits(_source: Source, _fix: Fix) -> tuple[TextEdit, ...]:
    """No edits, for formats that cannot contain them: computing them takes time."""
    return ()


def check_report(
    outcome: CheckResult, find_source: FindSource, fixed: int = 0, edits_of: EditsOf | None = None
) -> CheckReport:
    """The report of a run in which `fixed` findings were fixed."""
    silenced = [one for file in outcome.files for one in file.silenced]
    known = [one for file in outcome.files for one in file.known]
    hidden = [*(one.reported for one in silenced), *known]
    entries = finding_entries([*outcome.reported, *hidden], find_source, edits_of)
    found = len(outcome.reported)
    comments: list[Suppression | None] = [*(one.comment for one in silenced), *(None for _ in known)]
    suppressed = tuple(
        _suppressed_entry(entry, comment, find_source) for entry, comment in zip(entries[found:], comments, strict=True)
    )
    crashes = tuple(_crash_entry(crash) for crash in outcome.crashes)
    report = report_of(entries[:found], find_source, len(outcome.files), crashes, suppressed, fixed=fixed)
    return replace(report, unjudged=tuple(UnjudgedEntry(one.path, one.rule, one.spent) for one in outcome.unjudged))


def report_of(
    findings: Sequence[FindingEntry],
    find_source: FindSource,
    files: int,
    crashes: Sequence[CrashEntry] = (),
    suppressed: Sequence[SuppressedEntry] = (),
    probes: Sequence[ProbeEntry] = (),
    fixed: int = 0,
) -> CheckReport:
    """A report of these findings, with its counts."""
    entries = (*findings, *(one.finding for one in suppressed))
    return CheckReport(
        FORMAT,
        __version__,
        tuple(findings),
        tuple(crashes),
        Summary(
            files,
            len(findings),
            {level.value: sum(one.level == level for one in findings) for level in Level},
            dict(sorted(Counter(one.rule for one in findings).items())),
            sum(one.comment is not None for one in suppressed),
            fixed,
            sum(one.comment is None for one in suppressed),
        ),
        tuple(suppressed),
        _digests(entries, find_source),
        tuple(probes),
    )


def finding_entries(
    reported: Iterable[Reported], find_source: FindSource, edits_of: EditsOf | None = None
) -> list[FindingEntry]:
    """Findings as JSON entries, each with a distinct fingerprint."""
    listed = list(reported)
    edits = _edits_by_file(listed, find_source, edits_of or TextEdits())
    fingerprints = _Fingerprints()
    entries: list[FindingEntry] = []
    for number, one in enumerate(listed):
        source = find_source(one.finding.location.path)
        fingerprint = fingerprints.next_of(one.finding, source)
        entries.append(_finding_entry(one, find_source, edits.get(number, ()), fingerprint))
    return entries


def _edits_by_file(
    reported: Sequence[Reported], find_source: FindSource, find_edits: EditsOf
) -> dict[int, Sequence[TextEdit]]:
    """The edits of each finding with a fix, by its number."""
    # File by file, so that each is parsed once: suppressed findings come after all others.
    fixed = [(one.finding.location.path, number, one.fix) for number, one in enumerate(reported) if one.fix is not None]
    sources = {path: find_source(path) for path, *_ in fixed}
    found: dict[int, Sequence[TextEdit]] = {}
    for path, number, fix in sorted(fixed, key=lambda each: each[0]):
        if (source := sources[path]) is not None:
            found[number] = find_edits(source, fix)
    return found


class _Fingerprints:
    """Identifies findings across runs, without line numbers and messages, which may change."""

    def __init__(self) -> None:
        self._seen = Counter[bytes]()
        self._code: dict[tuple[str, int], str] = {}

    def next_of(self, finding: Finding, source: Source | None) -> str:
        """The fingerprint of a finding; findings on equal code get distinct ones."""
        code = self._code_at(finding.location, source) if source else ""
        claim = "\0".join((from_root(finding.location.path), finding.rule, finding.subject or "", code))
        hashed = sha256(claim.encode("utf-8", "replace"))
        known = hashed.digest()
        hashed.update(f"\0{self._seen[known]}".encode())
        self._seen[known] += 1
        return hashed.hexdigest()[:FINGERPRINT]

    def _code_at(self, location: Location, source: Source) -> str:
        """The code of a line with normalized spaces, cached for lines with many findings."""
        at = location.path, location.line
        if at not in self._code:
            self._code[at] = " ".join(source.shown_line(location.line).split())
        return self._code[at]


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "replace")).hexdigest()


def _finding_entry(one: Reported, find_source: FindSource, edits: Sequence[TextEdit], fingerprint: str) -> FindingEntry:
    finding = one.finding
    return FindingEntry(
        finding.rule,
        finding.level,
        finding.message,
        location_entry(finding.location, find_source),
        finding.why,
        finding.help,
        tuple(
            RelatedEntry(location_entry(reason.location, find_source), reason.note, reason.role)
            for reason in finding.related
        ),
        finding.subject,
        plain_claim(finding.claim),
        _fix_entry(one.fix, edits),
        _verdict_entry(one.verdict),
        fingerprint,
    )


def location_entry(location: Location, find_source: FindSource) -> LocationEntry:
    """A location as a JSON entry."""
    source = find_source(location.path)
    if source is None:
        span = (location.line, location.column, location.end_line, location.end_column)
        return LocationEntry(location.path, None, *span, *span)
    at, there = source.locate(location), source.location_in_file(location)
    end_line = at.line + location.end_line - location.line
    in_file = (there.line, there.column, there.end_line, there.end_column)
    return LocationEntry(location.path, at.cell, at.line, at.column, end_line, location.end_column, *in_file)


def _fix_entry(fix: Fix | None, edits: Iterable[TextEdit]) -> FixEntry | None:
    entries = tuple(_edit_entry(edit.location, edit.text) for edit in edits)
    return FixEntry(fix.title, fix.safe, entries) if fix else None


def _edit_entry(location: Location, text: str) -> EditEntry:
    return EditEntry(location.line, location.column, location.end_line, location.end_column, text)


def _verdict_entry(verdict: Verdict | None) -> VerdictEntry | None:
    return VerdictEntry(verdict.outcome, verdict.reason, verdict.measured) if verdict else None


def _suppressed_entry(entry: FindingEntry, comment: Suppression | None, find_source: FindSource) -> SuppressedEntry:
    if comment is None:
        return SuppressedEntry(entry, None, "recorded in the baseline")
    return SuppressedEntry(entry, location_entry(comment.location, find_source), comment.reason)


def _crash_entry(crash: Crash) -> CrashEntry:
    return CrashEntry(crash.path, crash.rule, crash.error)


def _digests(entries: Iterable[FindingEntry], find_source: FindSource) -> Mapping[str, str]:
    paths = sorted({at.path for entry in entries for at in _locations(entry)})
    sources = ((path, find_source(path)) for path in paths)
    return {path: digest(source) for path, source in sources if source}


def _locations(entry: FindingEntry) -> Iterator[LocationEntry]:
    yield entry.location
    yield from (reason.location for reason in entry.related)


def digest(source: Source) -> str:
    """The SHA-256 of a file's text with line feeds as line ends."""
    return _hash(source.file_text)
