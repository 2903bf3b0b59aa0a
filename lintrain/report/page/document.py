"""The page of a probe: its conclusion, its runs, and its findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from lintrain.check.result import Reported
from lintrain.evidence.run import Evidence
from lintrain.report.page.charts import SIGNS, picture
from lintrain.report.page.facts import facts_of
from lintrain.report.page.findings import failure, findings
from lintrain.report.page.markup import Markup, joined, section, table, tag, whole_page, with_code
from lintrain.report.text.stage_numbers import numbers
from lintrain.runtime.parent.record import Record
from lintrain.source.source import FindSource
from lintrain.verdicts.conclusion import Conclusion

VERDICTS = {0: ("✓", "passed"), 1: ("✗", "failed")}


def page(record: Record, judged: Sequence[Reported], conclusion: Conclusion, find_source: FindSource) -> str:
    """The page as HTML."""
    return whole_page(
        f"{Path(record.script).name}: lintrain probe",
        tag("a", "skip to the findings", href="#findings", class_="skip"),
        _header(record, conclusion),
        tag(
            "main",
            list(_runs(record.runs, find_source)) or _nothing(record),
            joined(_notes("Blocked requests", record.ending.notes)),
            tag("section", tag("h2", "Findings"), findings(judged, find_source), id="findings"),
        ),
        tag("footer", tag("p", f"lintrain {record.lintrain}, {record.ending.seconds:.1f} s, {record.python}")),
    )


def _header(record: Record, conclusion: Conclusion) -> Markup:
    sign, kind = VERDICTS.get(conclusion.exit_code, ("?", "not-reached"))
    words = " ".join([record.script, *record.arguments])
    return tag(
        "header",
        tag("p", "lintrain probe", class_="where"),
        tag("h1", tag("code", words)),
        tag("p", tag("strong", f"{sign} "), with_code(conclusion.reason), class_=f"conclusion {kind}"),
    )


def _nothing(record: Record) -> Markup:
    """The output of the script if no training call was reached."""
    output = tag("pre", record.ending.output, tabindex="0") if record.ending.output else None
    return section("Last lines of the script's output", output) if output else joined()


def _runs(runs: Sequence[Evidence], find_source: FindSource) -> Iterator[Markup]:
    """Every run; of those that the probe went on after only the error."""
    for run, following in zip_longest(runs, runs[1:]):
        if following is not None and following.repairs and following.call_number == run.call_number:
            yield _failed_run(run, find_source)
        elif run is not None:
            yield _run(run, find_source)


def _failed_run(evidence: Evidence, find_source: FindSource) -> Markup:
    return tag("section", tag("h2", _title(evidence)), _repairs(evidence), failure(evidence, find_source))


def _repairs(evidence: Evidence) -> Markup:
    """The fixes with which a run was made, in memory only."""
    fixes = [f"line {each.location.line}: {each.text} (`{each.rule}`)" for each in evidence.repairs]
    return joined(_notes("Fixes that were tried, in memory only", fixes))


def _run(evidence: Evidence, find_source: FindSource) -> Markup:
    return tag(
        "section",
        tag("h2", _title(evidence)),
        tag("p", ", ".join(f"{name} {version}" for name, version in evidence.versions.items()), class_="where"),
        _repairs(evidence),
        picture(evidence),
        failure(evidence, find_source),
        section("Stages", _stages(evidence, find_source)),
        facts_of(evidence),
        _remarks(evidence),
    )


def _title(evidence: Evidence) -> str:
    what = evidence.model.name if evidence.model else Path(evidence.script).name
    under = f" under {evidence.trainer}" if evidence.trainer else ""
    fixed = f", with {len(evidence.repairs)} fix{'es' if len(evidence.repairs) > 1 else ''}" if evidence.repairs else ""
    call = f"training call {evidence.call_number}: " if evidence.call_number > 1 else ""
    return f"{call}{what}{under} on {evidence.device}{fixed}"


def _stages(evidence: Evidence, find_source: FindSource) -> Markup:
    rows = [
        (
            tag("span", f"{SIGNS[stage.status]} {stage.status}", class_=f"status {stage.status.replace(' ', '-')}"),
            stage.name,
            tag("span", f"{stage.seconds:.2f} s" if stage.seconds >= 0.005 else "", class_="number"),
            _measured(evidence, number, find_source),
        )
        for number, stage in enumerate(evidence.stages)
    ]
    return table(("", "stage", "time", "measured"), rows, caption="stages and their measurements", kind="words")


def _measured(evidence: Evidence, number: int, find_source: FindSource) -> str:
    stage = evidence.stages[number]
    if stage.failure:
        return f"{stage.failure.type}: {stage.failure.message}"
    return stage.reason or numbers(evidence, stage.name, find_source)


def _remarks(evidence: Evidence) -> Markup:
    return joined(_list(evidence))


def _list(evidence: Evidence) -> Iterator[Markup]:
    yield from _notes("Shortcuts that keep the probe fast", evidence.shortcuts)
    yield from _notes("Notes", evidence.notes)


def _notes(title: str, lines: Sequence[str]) -> Iterator[Markup]:
    if lines:
        yield section(title, tag("ul", (tag("li", with_code(line)) for line in lines)))
