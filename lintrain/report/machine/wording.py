"""Text for formats that have no field for a value."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.check.result import Unjudged
from lintrain.model.verdict import Outcome
from lintrain.report.machine.document import CheckReport, FindingEntry, LocationEntry
from lintrain.report.text.columns import printable

NO_CHARACTERS: dict[int, str] = dict.fromkeys((0xFFFE, 0xFFFF), "\ufffd")
"""Characters that XML cannot contain."""


def message_of(entry: FindingEntry) -> str:
    """The message on one line, with the cell of a notebook and the outcome of a probe."""
    outcome = entry.verdict.outcome if entry.verdict else Outcome.INCONCLUSIVE
    verdict = "" if outcome is Outcome.INCONCLUSIVE else f" ({outcome.value} by a probe)"
    return f"{one_line(entry.message)}{cell_of(entry.location)}{verdict}"


def cell_of(at: LocationEntry) -> str:
    """The cell of a notebook and the line in it, in brackets; empty for a script."""
    return f" (cell {at.cell}, line {at.line})" if at.cell is not None else ""


def remarks_of(entry: FindingEntry) -> Iterator[str]:
    """The verdict, the consequence and the fix of a finding."""
    if entry.verdict:
        yield f"probe: {entry.verdict.outcome.value}, {one_line(entry.verdict.reason)}"
    if entry.why:
        yield f"why: {one_line(entry.why)}"
    fix = entry.help or (entry.fix.title if entry.fix else "")
    if fix:
        yield f"fix: {one_line(fix)}"


def one_line(text: str) -> str:
    """A text without line breaks, control characters and characters that cannot be encoded."""
    return printable(" ".join(text.splitlines())).translate(NO_CHARACTERS).encode("utf-8", "replace").decode()


def unjudged_files(report: CheckReport) -> Iterator[tuple[str, str]]:
    """The files that were not checked completely, each with a line about it."""
    return Unjudged.grouped(Unjudged(one.path, one.rule, one.reason) for one in report.unjudged)
