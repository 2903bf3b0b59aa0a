"""The report of a probe in every format.

The closing line of a report, and the counts by rule.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from lintrain._version import __version__
from lintrain.model.level import Level
from lintrain.report.text.style import Style
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import plain
from lintrain.settings.settings import FOR_PEOPLE
from lintrain.verdicts.judgement import Judgement

if TYPE_CHECKING:
    from lintrain.check.result import Reported
    from lintrain.report.machine.document import CheckReport


def judgement_in_format(judgement: Judgement, name: str, style: Style) -> str:
    """The report in a format."""
    match name:
        case "full":
            return judgement_text(judgement, style)
        case "json":
            return judgement_json(judgement)
        case "html":
            return judgement_page(judgement)
        case name if name in FOR_PEOPLE:
            return _list(judgement, name, style)
        case _:
            from lintrain.report.machine.choice import program_text

            report, sources = check_report(judgement), judgement.sources
            return program_text(name, report, sources.get, load_rules(), judgement.documentation)


def judgement_text(judgement: Judgement, style: Style) -> str:
    """The full report for a terminal."""
    from lintrain.report.text.findings import full
    from lintrain.report.text.stages import device_lines, failure_lines, note_lines, run_lines
    from lintrain.report.text.style import printable

    record, find_source = judgement.record, judgement.sources.get
    blocks = ["\n".join(run_lines(run, style, find_source)) for run in record.runs]
    if devices := list(device_lines(record.runs)):
        blocks.append("\n".join(f"  {line}" for line in devices))
    if notes := list(note_lines(record.ending.notes, style)):
        blocks.append("\n".join(notes))
    blocks += ["\n".join(failure_lines(run, style, find_source)) for run in record.runs if run.failure]
    blocks += full(judgement.judged, find_source, style)
    return style.writable("\n\n".join([*blocks, printable(judgement.conclusion.reason)])) + "\n"


def judgement_page(judgement: Judgement) -> str:
    """The report as an HTML page."""
    from lintrain.report.page.document import page

    return page(judgement.record, judgement.judged, judgement.conclusion, judgement.sources.get)


def judgement_json(judgement: Judgement) -> str:
    """The evidence and the report as JSON."""
    from lintrain.report.machine.document import FORMAT

    report = check_report(judgement)
    document: dict[str, Any] = {  # Any: JSON
        "format": FORMAT,
        "lintrain": __version__,
        "exit_code": judgement.conclusion.exit_code,
        "reason": judgement.conclusion.reason,
        "findings": [dataclasses.asdict(entry) for entry in report.findings],
        "sources": report.sources,
        "probe": {**dataclasses.asdict(judgement.record), "findings": []},
    }
    return json.dumps(plain(document), indent=2, ensure_ascii=False) + "\n"


def check_report(judgement: Judgement) -> CheckReport:
    """Findings and verdicts as the JSON report of a check."""
    from lintrain.report.machine.document import ProbeEntry
    from lintrain.report.machine.entries import finding_entries, report_of

    record, conclusion, sources = judgement.record, judgement.conclusion, judgement.sources
    probe = ProbeEntry(record.script, conclusion.exit_code, conclusion.reason)
    report = report_of(finding_entries(judgement.judged, sources.get), sources.get, 1, probes=[probe])
    texts = {record.script: record.script_sha256, **(report.sources or {})}
    return dataclasses.replace(report, sources=texts)


def _list(judgement: Judgement, name: str, style: Style) -> str:
    from lintrain.report.text.findings import people_blocks
    from lintrain.report.text.style import printable

    blocks, between = people_blocks(name, judgement.judged, judgement.sources.get, style)
    return between.join([*blocks, printable(judgement.conclusion.reason)]) + "\n"


def summary(reported: Sequence[Reported], files: int, fixed: int = 0) -> str:
    """The number of findings by level, of files, of fixable findings, and of findings `fixed` now."""
    done = f"{count(fixed, 'finding')} fixed; " if fixed else ""
    if not reported:
        return f"{done}no findings {'left ' if fixed else ''}in {count(files, 'file')}"
    levels = Counter(one.finding.level for one in reported)
    parts = [count(levels[level], level.value) for level in Level if levels[level]]
    touched = len({one.finding.location.path for one in reported})
    where = count(touched, "file") if touched == files else f"{touched} of {count(files, 'file')}"
    return f"{done}{count(len(reported), 'finding')} ({', '.join(parts)}) in {where}{_fixable(reported)}"


def _fixable(reported: Sequence[Reported]) -> str:
    safe = sum(1 for one in reported if one.fix and one.fix.safe)
    unsafe = sum(1 for one in reported if one.fix and not one.fix.safe)
    parts = [f"{safe} with `--fix`"] if safe else []
    if unsafe:
        parts.append(f"{unsafe} with `--fix --unsafe-fixes`")
    return f"; fixable: {', '.join(parts)}" if parts else ""


def statistics(reported: Sequence[Reported], style: Style) -> Iterator[str]:
    """A line per rule with its count, level and name; the most frequent first."""
    counts = Counter((one.finding.rule, one.finding.level) for one in reported)
    digits = max((len(str(number)) for number in counts.values()), default=1)
    for (rule, level), number in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        yield f"{number:>{digits}}  {style.level(level, f'{level.value:<7}')}  {rule}"


def statistics_json(reported: Sequence[Reported]) -> str:
    """The counts as JSON; `fixable` is the number of findings with a fix, safe or unsafe."""
    counts = Counter((one.finding.rule, one.finding.level) for one in reported)
    fixable = Counter((one.finding.rule, one.finding.level) for one in reported if one.fix)
    entries = [
        {"rule": key[0], "level": key[1].value, "count": number, "fixable": fixable[key]}
        for key, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    import json

    return json.dumps(entries, indent=2)


def shown_fixes(fixed: Mapping[tuple[str, str], int]) -> Iterator[str]:
    """The number of fixed findings by file and rule."""
    digits = max((len(str(number)) for number in fixed.values()), default=1)
    for path, rules in groupby(sorted(fixed), key=lambda each: each[0]):
        yield f"{path}:"
        yield from (f"  {fixed[path, rule]:>{digits}}  {rule}" for _, rule in rules)


def count(number: int, thing: str) -> str:
    """A number and a noun, in the plural unless the number is 1."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
