"""One line per finding, for editors, logs and grep."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lintrain.check.result import Reported
from lintrain.report.text.full import message_of
from lintrain.report.text.look import Look
from lintrain.source.written_places import FindSource, location_of


def concise(reported: Iterable[Reported], find_source: FindSource, look: Look) -> Iterator[str]:
    """The lines `path:line:column: level[rule] message`."""
    for one in reported:
        finding = one.finding
        where = look.paint(location_of(finding.location, find_source), bold=True)
        level = look.level(finding.level, f"{finding.level}[{finding.rule}]")
        verdict = f" ({look.outcome(one.verdict.outcome)})" if one.verdict else ""
        yield f"{where}: {level} {look.code(message_of(finding, find_source))}{verdict}"
