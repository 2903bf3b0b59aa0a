"""Findings and their verdicts, each with its code.

The page of a check: the number of findings per rule, and each finding with its code, by file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from lintrain._version import __version__
from lintrain.check.fixing import TextEdits
from lintrain.check.result import Reported
from lintrain.evidence.run import Evidence
from lintrain.model.finding import Finding
from lintrain.model.verdict import Measured, Verdict
from lintrain.report.changed_lines import ChangedLine, changed_lines
from lintrain.report.machine.document import ProbeEntry
from lintrain.report.page.files import Files
from lintrain.report.page.markup import Markup, joined, table, tag, whole_page, with_code
from lintrain.report.text.causes import cause_lines
from lintrain.report.text.findings import fix_text_of, message_of
from lintrain.report.text.frame import Row, rows_of
from lintrain.report.text.style import printable, window
from lintrain.source.source import FindSource, line_of, location_of
from lintrain.text import shown

LONGEST_CODE = 400
"""Columns of code that are shown; of a longer line, the part around the location."""
MOST_CHANGED = 40
"""Lines of a diff."""

SHOWN_LINES = 8
"""Lines of an error's text that are not folded."""

KINDS = {"-": "goes", "+": "comes"}
SIGNS = {"confirmed": "✗", "refuted": "✓", "inconclusive": "?", "error": "✗", "warning": "!", "note": "·"}


def findings(judged: Sequence[Reported], find_source: FindSource, files: Files, first: int = 1) -> Markup:
    """All findings in the order in which they were judged, numbered from `first`; refuted ones are folded."""
    if not judged:
        return tag("p", "No findings.")
    edits = TextEdits()
    numbered = enumerate(judged, start=first)
    return joined(_finding(one, find_source, files, edits, number) for number, one in numbered)


def _finding(one: Reported, find_source: FindSource, files: Files, edits: TextEdits, number: int) -> Markup:
    finding, verdict = one.finding, one.verdict
    badge = verdict.outcome.value if verdict else finding.level.value
    sign = tag("span", f"{SIGNS[badge]} {badge}", class_=f"badge {badge}")
    return tag(
        "details",
        tag("summary", tag("h3", sign, " ", with_code(message_of(finding, find_source)))),
        tag(
            "p",
            files.link(finding.location, location_of(finding.location, find_source)),
            f" · {finding.level.value} " if verdict else " · ",
            tag("code", finding.rule),
            class_="where",
        ),
        _frame(finding, find_source),
        tag("dl", _remarks(one, verdict)),
        _change(one, find_source, edits),
        class_=f"finding {badge}",
        id=f"finding-{number}",
        open=badge != "refuted",
    )


def _change(one: Reported, find_source: FindSource, edits: TextEdits) -> Markup | None:
    """The fix as a diff; its new lines can be copied."""
    source = find_source(one.finding.location.path)
    if one.fix is None or source is None or source.notebook is not None:
        return None
    spans = [
        ((edit.location.line, edit.location.column, edit.location.end_line, edit.location.end_column), edit.text)
        for edit in edits(source, one.fix)
    ]
    lines = list(changed_lines(source.file_text, spans))[:MOST_CHANGED]
    if not lines:
        return None
    rows = [
        (tag("span", f"{line.sign}{line.number} ", class_=f"gutter {KINDS[line.sign]}-sign"), _changed(line), "\n")
        for line in lines
    ]
    copy = tag("button", "copy", type="button", class_="copy", hidden=True, aria_label="copy the new lines")
    return tag("div", copy, tag("pre", rows, class_="frame", tabindex="0"), class_="change")


def _changed(line: ChangedLine) -> Markup:
    return tag("span", printable(line.text.rstrip("\r")), class_=KINDS[line.sign])


def _remarks(one: Reported, verdict: Verdict | None) -> Iterator[Markup]:
    if verdict is not None:
        yield _remark("probe", verdict.reason)
        if verdict.measured:
            yield joined(tag("dt", "measured"), tag("dd", _measured(verdict.measured)))
    if one.finding.why:
        yield _remark("why", one.finding.why)
    if fix_text := fix_text_of(one):
        yield _remark("fix", fix_text)


def _remark(name: str, text: str) -> Markup:
    return joined(tag("dt", name), tag("dd", with_code(text)))


def _measured(measured: Mapping[str, Measured]) -> Markup:
    return joined(
        tag("span", tag("code", name), f" {_short(value)}", class_="number") for name, value in measured.items()
    )


def _short(value: Measured) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 200 else text[:200] + "…"


def _frame(finding: Finding, find_source: FindSource) -> Markup | None:
    rows = rows_of(finding, find_source)
    return tag("pre", _lines(rows), class_="frame", tabindex="0") if rows else None


def _lines(rows: Sequence[Row]) -> Iterator[Markup]:
    gutter = max(len(row.label) for row in rows)
    above = rows[0].group if len({row.group for row in rows}) == 1 else ""
    for row in rows:
        if row.group != above:
            yield tag("span", f"{shown(row.group or row.location.path)}\n", class_="group")
            above = row.group
        yield joined(tag("span", f"{row.label:>{gutter}} ", class_="gutter"), _code(row), "\n")
        for note in row.notes:
            yield tag("span", f"{' ' * gutter} {note}\n", class_="note")


def _code(row: Row) -> Markup:
    start, end = row.span
    code, moved = window(printable(row.code), start, end, LONGEST_CODE)
    start, end = start - moved, end - moved
    kind = "finding-mark" if row.is_finding else "reason-mark"
    return joined(code[:start], tag("mark", code[start:end], class_=kind), code[end:])


def failure(evidence: Evidence, find_source: FindSource) -> Markup | None:
    """The error of the failed stage: the user's line, the error, and the traceback."""
    stage = evidence.failed_stage
    error = evidence.failure
    if stage is None or error is None:
        return None
    about = f" ({stage.reason})" if stage.reason else ""
    where = line_of(error.location, find_source) if error.location else None
    causes = list(cause_lines(error))
    return tag(
        "section",
        tag("h3", with_code(f"✗ the {stage.name} stage failed{about}")),
        tag("p", tag("code", where), class_="where") if where else None,
        tag("pre", tag("code", error.code), tabindex="0") if error.code else None,
        _message(f"{error.type}: {error.message}"),
        tag("ul", *(tag("li", f"{label}: ", with_code(text)) for label, text in causes)) if causes else None,
        tag("details", tag("summary", "traceback"), tag("pre", "\n".join(error.frames), tabindex="0"))
        if error.frames
        else None,
        class_="failure",
    )


def _message(text: str) -> Markup:
    """The text of an error; of one with many lines, such as a printed tensor, the rest is folded."""
    lines = text.splitlines()
    first, rest = "\n".join(lines[:SHOWN_LINES]), "\n".join(lines[SHOWN_LINES:])
    return joined(
        tag("pre", first, class_="error", tabindex="0"),
        tag("details", tag("summary", "the rest of the message"), tag("pre", rest, tabindex="0")) if rest else None,
    )


def checked_page(
    reported: Sequence[Reported],
    find_source: FindSource,
    closing: str,
    probes: Sequence[ProbeEntry] = (),
    unjudged: Sequence[str] = (),
) -> str:
    """The page as HTML; `closing` is the closing line of the report, `unjudged` are lines about incomplete checks."""
    in_order = sorted(reported, key=lambda one: one.finding.location.path)
    files = Files(in_order, find_source)
    return whole_page(
        "lintrain check",
        tag("a", "skip to the findings", href="#findings", class_="skip"),
        tag(
            "header",
            tag("p", "lintrain check", class_="where"),
            tag("h1", closing.partition(";")[0]),
            [_probe(probe) for probe in probes],
            [tag("p", with_code(shown(line)), class_="conclusion not-reached") for line in unjudged],
        ),
        tag(
            "main",
            files.overview(),
            tag("div", fold_button(reported), _by_file(in_order, find_source, files), id="findings"),
            _rules(reported) if reported else None,
            files.listings(),
        ),
        tag("footer", tag("p", f"lintrain {__version__}")),
    )


def fold_button(judged: Sequence[Reported]) -> Markup | None:
    """Folds all findings, or unfolds them, if there are several."""
    return tag("button", "fold all", type="button", id="fold", hidden=True) if len(judged) > 1 else None


def _by_file(in_order: Sequence[Reported], find_source: FindSource, files: Files) -> Iterator[Markup]:
    """The findings under the names of their files."""
    first = 1
    for path, group in groupby(in_order, key=lambda one: one.finding.location.path):
        found = list(group)
        title = tag("h2", tag("code", shown(path)), id=files.name(path))
        yield tag("section", title, findings(found, find_source, files, first))
        first += len(found)


def _probe(probe: ProbeEntry) -> Markup:
    kind = {0: "passed", 1: "failed"}.get(probe.exit_code, "not-reached")
    return tag("p", tag("code", probe.script), " ", with_code(probe.reason), class_=f"conclusion {kind}")


def _rules(reported: Sequence[Reported]) -> Markup:
    counts = Counter((one.finding.rule, one.finding.level) for one in reported)
    rows = [
        (tag("code", rule), level.value, tag("span", str(number), class_="number"))
        for (rule, level), number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    ]
    return table(("rule", "level", "findings"), rows, caption="number of findings per rule")
