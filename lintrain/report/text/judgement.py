"""The report of a probe in every format."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, cast

from lintrain._version import __version__
from lintrain.evidence.run import Evidence
from lintrain.report.text.style import Style
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import plain
from lintrain.settings.settings import FOR_PEOPLE
from lintrain.text import for_terminal
from lintrain.verdicts.endings.explaining import explain
from lintrain.verdicts.judgement import Judgement
from lintrain.verdicts.resting import RESTING

if TYPE_CHECKING:
    from lintrain.report.machine.document import CheckReport


def judgement_in_format(judgement: Judgement, name: str, style: Style, *, with_calls: bool = False) -> str:
    """The report in a format; with calls of tools as the next steps of an agent, or with commands."""
    match name:
        case "full":
            return judgement_text(judgement, style)
        case "json":
            return judgement_json(judgement)
        case "html":
            return judgement_page(judgement)
        case "agent":
            from lintrain.report.machine.agent import CALLS, COMMANDS, agent_judgement

            steps = CALLS if with_calls else COMMANDS
            return for_terminal(agent_judgement(judgement, check_report(judgement), steps))
        case name if name in FOR_PEOPLE:
            return _list(judgement, name, style)
        case _:
            from lintrain.report.machine.choice import program_text

            report, sources = check_report(judgement), judgement.sources
            return program_text(name, report, sources.get, load_rules(), judgement.documentation)


def judgement_text(judgement: Judgement, style: Style) -> str:
    """The full report for a terminal: what failed and what is confirmed, the runs, and then the other findings."""
    from lintrain.report.text.findings import full

    find_source = judgement.sources.get
    found = full(judgement.judged, find_source, style)
    confirmed = list(islice(found, sum(one.is_confirmed for one in judgement.judged)))
    runs = [*_run_blocks(judgement, style), *found, *_asking(judgement, style)]
    blocks = [*_failures(judgement, style), *confirmed, *runs]
    return style.writable("\n\n".join([*blocks, _closing(judgement)])) + "\n"


def _asking(judgement: Judgement, style: Style) -> list[str]:
    """What a question to others needs, where nothing explains why the training fails."""
    from lintrain.report.text.causes import asking_for_help
    from lintrain.report.text.stages import note_lines

    error = next((run.failure for run in judgement.record.runs if run.failure), None)
    text = asking_for_help(error, judgement.record.script) if error and judgement.conclusion.is_unexplained else ""
    return ["\n".join(note_lines([text], style))] if text else []


def _closing(judgement: Judgement) -> str:
    """The conclusion, marked where nothing is wrong."""
    from lintrain.report.text.style import printable

    conclusion = judgement.conclusion
    return f"{'' if conclusion.exit_code else 'ok: '}{printable(conclusion.reason)}"


def _run_blocks(judgement: Judgement, style: Style) -> list[str]:
    """The runs with their stages, each note once; what devices and the whole probe say."""
    from lintrain.report.text.stages import attempt_lines, device_lines, note_lines, run_lines

    record, find_source, known = judgement.record, judgement.sources.get, set[str]()
    blocks = list[str]()
    for group in attempts_of(record.runs):
        lines = (
            attempt_lines(group, style, find_source, known)
            if len(group) > 1
            else run_lines(group[0], style, find_source, known)
        )
        blocks.append("\n".join(lines))
        known.update(note for run in group for note in (*run.shortcuts, *run.notes))
    if resting := sorted({one.rule for one, verdict in judgement.pairs if verdict.reason.startswith(RESTING)}):
        text = f"verdicts that rest on stand-ins, and are left open: {', '.join(resting)}"
        blocks.append("\n".join(note_lines([text], style)))
    if devices := list(device_lines(record.runs)):
        blocks.append("\n".join(f"  {line}" for line in devices))
    if notes := list(note_lines(record.ending.notes, style)):
        blocks.append("\n".join(notes))
    return blocks


def _failures(judgement: Judgement, style: Style) -> list[str]:
    from lintrain.report.text.stages import failure_lines

    return [
        "\n".join(failure_lines(run, style, judgement.sources.get, is_brief=run not in (group[0], group[-1])))
        for group in attempts_of(judgement.record.runs)
        for run in _failing_otherwise(group)
    ]


def _failing_otherwise(runs: Sequence[Evidence]) -> list[Evidence]:
    """The runs that fail, each error once: a repair may be about something else than what fails first."""
    found: dict[object, Evidence] = {}
    for run in runs:
        if run.failure is not None:
            found.setdefault((run.failure.type, run.failure.message, run.failure.location), run)
    return list(found.values())


def attempts_of(runs: Sequence[Evidence]) -> list[list[Evidence]]:
    """The runs in groups: one on a device, with those that went on after its failing stage."""
    groups: list[list[Evidence]] = []
    for run in runs:
        if run.repairs and groups and groups[-1][-1].call_number == run.call_number:
            groups[-1].append(run)
        else:
            groups.append([run])
    return groups


def judgement_page(judgement: Judgement) -> str:
    """The report as an HTML page."""
    from lintrain.report.page.document import page

    return page(judgement.record, judgement.judged, judgement.conclusion, judgement.sources.get)


def judgement_json(judgement: Judgement) -> str:
    """The evidence and the report as JSON."""
    from lintrain.report.machine.compact import compact_finding, without_nulls
    from lintrain.report.machine.document import FORMAT, whys_of, written_json

    report = check_report(judgement)
    whys = whys_of(load_rules(), report.named)
    explanation = _explanation(judgement)
    document: dict[str, Any] = {  # Any: JSON
        "format": FORMAT,
        "lintrain": __version__,
        "exit_code": judgement.conclusion.exit_code,
        "reason": judgement.conclusion.reason,
        **({"explanation": explanation} if explanation else {}),
        "sources": report.sources,
        "probe": without_nulls({**dataclasses.asdict(judgement.record), "findings": []}),
        "findings": [compact_finding(dataclasses.asdict(entry), whys) for entry in report.findings],
    }
    return written_json(cast("dict[str, Any]", plain(document))) + "\n"


def _explanation(judgement: Judgement) -> dict[str, Any] | None:
    """What is known of the error that the script ends with; None if it ends with none."""
    error = next((run.failure for run in judgement.record.runs if run.failure), None)
    return dataclasses.asdict(explain(error)) if error else None


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

    blocks, between = people_blocks(name, judgement.judged, judgement.sources.get, style)
    return between.join([*blocks, _closing(judgement)]) + "\n"
