"""Findings in the three formats for a terminal: full, concise and grouped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from lintrain.check.result import Reported
from lintrain.model.finding import Finding
from lintrain.model.fixes import Fix
from lintrain.report.text.frame import frame, gutter_of
from lintrain.report.text.style import Style, columns, printable, wrap
from lintrain.source.source import FindSource, location_of
from lintrain.text import shown

if TYPE_CHECKING:
    from lintrain.check.result import Reported
    from lintrain.report.text.style import Style
    from lintrain.source.source import FindSource


def full(reported: Iterable[Reported], find_source: FindSource, style: Style) -> Iterator[str]:
    """The blocks of a full report; a repeated `why` is shown once."""
    explained: set[str] = set()
    for one in reported:
        yield "\n".join(full_finding(one, find_source, style, with_why=one.finding.why not in explained))
        explained.add(one.finding.why)


def full_finding(one: Reported, find_source: FindSource, style: Style, *, with_why: bool = True) -> Iterator[str]:
    """The lines of one finding."""
    yield from _header(one.finding, find_source, style)
    yield from frame(one.finding, find_source, style)
    indent = gutter_of(one.finding, find_source) + 1
    if one.finding.why and with_why:
        yield from _remark("why", printable(one.finding.why), indent, style)
    fix = fix_text_of(one)
    if fix:
        yield from _remark("fix", printable(fix), indent, style)
    if one.verdict:
        outcome, reason = one.verdict.outcome, printable(one.verdict.reason)
        lines = _remark("probe", f"{outcome.value} {style.dot} {reason}", indent, style)
        yield next(lines).replace(outcome.value, style.outcome(outcome), 1)
        yield from lines


def message_of(finding: Finding, find_source: FindSource) -> str:
    """The message of a finding; in a notebook with the line of the .ipynb file, which editors need."""
    source = find_source(finding.location.path)
    message = printable(finding.message)
    if source is None or source.notebook is None:
        return message
    return f"{message} (file line {source.location_in_file(finding.location).line})"


def fix_text_of(one: Reported) -> str:
    """How to fix a finding, and with which option; empty if unknown."""
    if one.fix is None:
        return one.finding.help
    where = "in an editor after a probe" if one.is_measured else f"with {_option(one.fix)}"
    return f"{one.finding.help or one.fix.title} (fixable {where})"


def _option(fix: Fix) -> str:
    return "`--fix`" if fix.safe else "`--fix --unsafe-fixes`"


def _header(finding: Finding, find_source: FindSource, style: Style) -> Iterator[str]:
    where = location_of(finding.location, find_source)
    plain = f"{where}: {finding.level}[{finding.rule}] "
    level = style.level(finding.level, f"{finding.level}[{finding.rule}]")
    first, *rest = wrap(message_of(finding, find_source), columns(plain), 4, style.width)
    yield f"{style.paint(where, bold=True)}: {level} {style.code(first)}"
    for line in rest:
        yield " " * 4 + style.code(line)


def _remark(label: str, text: str, indent: int, style: Style) -> Iterator[str]:
    start = indent + len(label) + 4
    first, *rest = wrap(text, start, start, style.width)
    yield f"{' ' * indent}{style.paint('=', 'blue', bold=True)} {style.paint(label, bold=True)}: {style.code(first)}"
    for line in rest:
        yield " " * start + style.code(line)


def concise(reported: Iterable[Reported], find_source: FindSource, style: Style) -> Iterator[str]:
    """The lines `path:line:column: level[rule] message`."""
    for one in reported:
        finding = one.finding
        where = style.paint(location_of(finding.location, find_source), bold=True)
        level = style.level(finding.level, f"{finding.level}[{finding.rule}]")
        verdict = f" ({style.outcome(one.verdict.outcome)})" if one.verdict else ""
        yield f"{where}: {level} {style.code(message_of(finding, find_source))}{verdict}"


def grouped(reported: Iterable[Reported], find_source: FindSource, style: Style) -> Iterator[str]:
    """A block for each file: its name, and an aligned line for each finding."""
    in_order = sorted(reported, key=lambda one: one.finding.location.path)
    for path, group in groupby(in_order, key=lambda one: one.finding.location.path):
        found = [(location_of(one.finding.location, find_source).removeprefix(f"{shown(path)}:"), one) for one in group]
        width = max(len(where) for where, _ in found)
        lines = (f"  {where:<{width}}  {_grouped_line(one, find_source, style)}" for where, one in found)
        yield "\n".join([f"{style.paint(shown(path), bold=True)}:", *lines])


def _grouped_line(one: Reported, find_source: FindSource, style: Style) -> str:
    finding = one.finding
    level = style.level(finding.level, f"{finding.level}[{finding.rule}]")
    verdict = f" ({style.outcome(one.verdict.outcome)})" if one.verdict else ""
    return f"{level} {style.code(message_of(finding, find_source))}{verdict}"


def people_blocks(
    name: str, reported: Sequence[Reported], find_source: FindSource, style: Style
) -> tuple[Iterator[str], str]:
    """The blocks of a format, and the separator between them."""
    if not reported:
        return iter(()), ""
    match name:
        case "full":
            from lintrain.report.text.findings import full

            return full(reported, find_source, style), "\n\n"
        case "grouped":
            from lintrain.report.text.findings import grouped

            return grouped(reported, find_source, style), "\n\n"
        case _:
            from lintrain.report.text.findings import concise

            return concise(reported, find_source, style), "\n"
