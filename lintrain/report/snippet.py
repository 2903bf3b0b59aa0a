"""A report as HTML for a notebook: no script, no request, readable on light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from lintrain.check.result import Reported
from lintrain.evidence.run import Evidence, RowValues, StageName
from lintrain.report.text.findings import fix_text_of
from lintrain.report.text.frame import frame
from lintrain.report.text.rows import rows_lines
from lintrain.report.text.stage_numbers import numbers
from lintrain.report.text.stages import failure_lines
from lintrain.report.text.style import Style
from lintrain.source.source import FindSource, location_of

COLOURS = {"confirmed": "#c62828", "failed": "#c62828", "refuted": "#2e7d32", "passed": "#2e7d32"}
OTHER = "#b26a00"
SIGNS = {"passed": "✓", "failed": "✗", "not reached": "·"}
PLAIN = Style()


def html_snippet(
    runs: Sequence[Evidence], judged: Sequence[Reported], find_source: FindSource, reason: str, *, is_ok: bool
) -> str:
    """The conclusion, what failed, confirmed findings, and the rows and stages of every run; the rest is folded."""
    parts = [f'<p style="margin:.3em 0">{_coloured(f"lintrain: {reason}", "passed" if is_ok else "failed")}</p>']
    parts += [_code(lines) for run in runs if (lines := [*failure_lines(run, PLAIN, find_source)])]
    confirmed = [one for one in judged if one.is_confirmed]
    others = [one for one in judged if not one.is_confirmed]
    parts += [_finding(one, find_source) for one in confirmed]
    for run in runs:
        parts += _stages(run, find_source)
    if others:
        inner = "".join(_finding(one, find_source) for one in others)
        parts.append(f"<details><summary>{len(others)} refuted or inconclusive</summary>{inner}</details>")
    return f'<div class="lintrain" style="max-width:60em">{"".join(parts)}</div>'


def _coloured(text: str, kind: str) -> str:
    return f'<b style="color:{COLOURS.get(kind, OTHER)}">{escape(text)}</b>'


def _stages(run: Evidence, find_source: FindSource) -> Iterator[str]:
    rows = "".join(_row(run, name, find_source) for name in (stage.name for stage in run.stages))
    yield from _rows(run)
    yield f'<table style="border-collapse:collapse;text-align:left">{rows}</table>'
    if notes := _listed([*run.shortcuts, *run.notes]):
        yield f"<details><summary>notes</summary>{notes}</details>"


def _listed(lines: Iterable[str]) -> str:
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def _rows(run: Evidence) -> Iterator[str]:
    """Rows of the batches, and small pictures of images."""
    lines = [*rows_lines(run, PLAIN)]
    if lines:
        pictures = "".join(_picture(values) for one in run.tables for row in one.rows for values in row.values)
        yield f"<details open><summary>rows</summary>{_code(lines)}{pictures}</details>"


def _picture(values: RowValues) -> str:
    if not values.picture:
        return ""
    source = f"data:image/png;base64,{escape(values.picture)}"
    return f'<img alt="{escape(values.name)}" src="{source}" style="min-width:64px;margin:0 .4em .4em 0">'


def _row(run: Evidence, name: StageName, find_source: FindSource) -> str:
    stage = run.stage(name)
    if stage is None:
        return ""
    text = numbers(run, name, find_source) if stage.status == "passed" else stage.reason
    if stage.failure is not None:
        text = f"{stage.failure.type}: {stage.failure.message}".partition("\n")[0]
    cells = (_coloured(SIGNS[stage.status], stage.status), escape(name), f"{stage.seconds:.2f} s", escape(text))
    return f"<tr>{''.join(_cell(cell) for cell in cells)}</tr>"


def _cell(content: str) -> str:
    return f'<td style="text-align:left;vertical-align:top;padding:0 .8em 0 0">{content}</td>'


def _finding(one: Reported, find_source: FindSource) -> str:
    finding, verdict = one.finding, one.verdict
    head = f"{location_of(finding.location, find_source)}: {finding.level.value}[{finding.rule}] {finding.message}"
    remarks = [("probe", f"{verdict.outcome.value} · {verdict.reason}")] if verdict else []
    remarks += [("why", finding.why), ("fix", fix_text_of(one))]
    body = "".join(f"<div><b>{name}</b>: {escape(text)}</div>" for name, text in remarks if text)
    outcome = verdict.outcome.value if verdict else ""
    return (
        f'<div style="margin:.6em 0">{_coloured(head, outcome)}{_code(frame(finding, find_source, PLAIN))}{body}</div>'
    )


def _code(lines: Sequence[str] | Iterator[str]) -> str:
    text = "\n".join(lines)
    return f'<pre style="margin:.2em 0;overflow-x:auto">{escape(text)}</pre>' if text else ""
