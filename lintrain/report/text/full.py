"""The report for a person at a terminal: every finding with its code, its reasons, its cure and its verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from lintrain.check.result import Reported
from lintrain.model.finding import Finding
from lintrain.model.fixes import Fix
from lintrain.report.text.columns import columns, printable, wrap
from lintrain.report.text.frame import frame, gutter_of
from lintrain.report.text.look import Look
from lintrain.source.written_places import FindSource, location_of


def full(reported: Iterable[Reported], find_source: FindSource, look: Look) -> Iterator[str]:
    """The blocks of a full report; why a mistake hurts is said once, at the first finding that it explains."""
    explained: set[str] = set()
    for one in reported:
        yield "\n".join(full_finding(one, find_source, look, with_why=one.finding.why not in explained))
        explained.add(one.finding.why)


def full_finding(one: Reported, find_source: FindSource, look: Look, *, with_why: bool = True) -> Iterator[str]:
    """The lines of one finding."""
    yield from _header(one.finding, find_source, look)
    yield from frame(one.finding, find_source, look)
    indent = gutter_of(one.finding, find_source) + 1
    if one.finding.why and with_why:
        yield from _remark("why", printable(one.finding.why), indent, look)
    cure = cure_of(one)
    if cure:
        yield from _remark("fix", printable(cure), indent, look)
    if one.verdict:
        outcome, reason = one.verdict.outcome, printable(one.verdict.reason)
        lines = _remark("probe", f"{outcome.value} {look.dot} {reason}", indent, look)
        yield next(lines).replace(outcome.value, look.outcome(outcome), 1)
        yield from lines


def message_of(finding: Finding, find_source: FindSource) -> str:
    """The message of a finding; in a notebook with the line of the .ipynb file, which an editor opens."""
    source = find_source(finding.location.path)
    message = printable(finding.message)
    if source is None or source.notebook is None:
        return message
    return f"{message} (line {source.location_in_file(finding.location).line} of the file)"


def cure_of(one: Reported) -> str:
    """What mends a finding, and which option writes it; empty where nothing is known to."""
    if one.fix is None:
        return one.finding.help
    who = "an editor offers it after a probe" if one.is_measured else f"{_option(one.fix)} writes it"
    return f"{one.finding.help or one.fix.title} ({who})"


def _option(fix: Fix) -> str:
    return "`--fix`" if fix.safe else "`--fix --unsafe-fixes`"


def _header(finding: Finding, find_source: FindSource, look: Look) -> Iterator[str]:
    where = location_of(finding.location, find_source)
    plain = f"{where}: {finding.level}[{finding.rule}] "
    level = look.level(finding.level, f"{finding.level}[{finding.rule}]")
    first, *rest = wrap(message_of(finding, find_source), columns(plain), 4, look.width)
    yield f"{look.paint(where, bold=True)}: {level} {look.code(first)}"
    for line in rest:
        yield " " * 4 + look.code(line)


def _remark(label: str, text: str, indent: int, look: Look) -> Iterator[str]:
    start = indent + len(label) + 4
    first, *rest = wrap(text, start, start, look.width)
    yield f"{' ' * indent}{look.paint('=', 'blue', bold=True)} {look.paint(label, bold=True)}: {look.code(first)}"
    for line in rest:
        yield " " * start + look.code(line)
