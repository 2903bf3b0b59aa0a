"""The page of a probe: its conclusion, its runs, and its findings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path

from lintrain.check.result import Reported
from lintrain.evidence.run import Evidence
from lintrain.report.page.charts import SIGNS, picture
from lintrain.report.page.facts import facts_of
from lintrain.report.page.files import Files
from lintrain.report.page.findings import failure, findings, fold_button
from lintrain.report.page.markup import Markup, Piece, joined, section, table, tag, whole_page, with_code
from lintrain.report.page.rows import rows_of
from lintrain.report.text.stage_numbers import details_below, numbers
from lintrain.runtime.parent.record import Record
from lintrain.source.source import FindSource
from lintrain.verdicts.conclusion import Conclusion

VERDICTS = {0: ("✓", "passed"), 1: ("✗", "failed")}


def page(record: Record, judged: Sequence[Reported], conclusion: Conclusion, find_source: FindSource) -> str:
    """The page as HTML: the pictures and what failed, the findings, the rows, and then what each stage measured."""
    files = Files(judged, find_source, [record.script])
    return whole_page(
        f"{Path(record.script).name}: lintrain probe",
        tag("a", "skip to the findings", href="#findings", class_="skip"),
        _header(record, conclusion),
        tag(
            "main",
            list(_pictures(record.runs, find_source)) or _nothing(record),
            files.overview(),
            tag(
                "section",
                fold_button(judged),
                tag("h2", "Findings"),
                findings(judged, find_source, files),
                id="findings",
            ),
            list(_earlier(record.runs, find_source)),
            list(_looks(record.runs)),
            list(_measurements(record.runs, find_source)),
            joined(_notes("Blocked requests", record.ending.notes)),
            files.listings(),
        ),
        tag("footer", tag("p", f"lintrain {record.lintrain}, {record.ending.seconds:.1f} s, {record.python}")),
    )


def _header(record: Record, conclusion: Conclusion) -> Markup:
    sign, kind = VERDICTS.get(conclusion.exit_code, ("?", "not-reached"))
    script = Path(record.script)
    # Editors name scripts by their whole path, which would be the largest text of the page.
    name, folder = (script.name, f" in {script.parent}") if script.is_absolute() else (record.script, "")
    words = " ".join([name, *record.arguments])
    return tag(
        "header",
        tag("p", f"lintrain probe{folder}", class_="where"),
        tag("h1", tag("code", words)),
        tag("p", tag("strong", f"{sign} "), with_code(conclusion.reason), class_=f"conclusion {kind}"),
    )


def _nothing(record: Record) -> Markup:
    """The output of the script if no training call was reached."""
    output = tag("pre", record.ending.output, tabindex="0") if record.ending.output else None
    return section("Last lines of the script's output", output) if output else joined()


def _pictures(runs: Sequence[Evidence], find_source: FindSource) -> Iterator[Markup]:
    """Every run that the probe did not go on after, as a picture, with its error."""
    for number, run in _numbered(runs, is_whole=True):
        yield _run(run, find_source, picture(run, f"run-{number}"))


def _earlier(runs: Sequence[Evidence], find_source: FindSource) -> Iterator[Markup]:
    """The errors of the runs that the probe went on after with a fix."""
    for _, run in _numbered(runs, is_whole=False):
        yield _run(run, find_source)


def _run(run: Evidence, find_source: FindSource, drawn: Markup | None = None) -> Markup:
    versions = ", ".join(f"{name} {version}" for name, version in run.versions.items())
    return tag(
        "section",
        tag("h2", _title(run) if drawn else f"Before: {_title(run)}"),
        tag("p", versions, class_="where") if drawn else None,
        _repairs(run),
        drawn,
        failure(run, find_source),
    )


def _numbered(runs: Sequence[Evidence], *, is_whole: bool) -> Iterator[tuple[int, Evidence]]:
    """The runs that came furthest, or the others, by number."""
    whole = _whole(runs)
    return ((number, run) for number, run in enumerate(runs, start=1) if (run in whole) is is_whole)


def _whole(runs: Sequence[Evidence]) -> list[Evidence]:
    """The runs after which the probe did not go on with a fix: they have come furthest."""
    return [
        run
        for run, following in zip_longest(runs, runs[1:])
        if run is not None
        and not (following is not None and following.repairs and following.call_number == run.call_number)
    ]


def _repairs(evidence: Evidence) -> Markup:
    """The fixes with which a run was made, in memory only."""
    fixes = [f"line {each.location.line}: {each.text} (`{each.rule}`)" for each in evidence.repairs]
    return joined(_notes("Fixes that were tried, in memory only", fixes))


def _looks(runs: Sequence[Evidence]) -> Iterator[Markup]:
    """The rows as the model gets them, of each run that has some."""
    for run in _whole(runs):
        if shown := joined(rows_of(run)):
            yield tag("section", tag("h2", _named("Rows", run, runs)), shown)


def _measurements(runs: Sequence[Evidence], find_source: FindSource) -> Iterator[Markup]:
    """What each stage measured, with its charts."""
    for number, run in _numbered(runs, is_whole=True):
        yield tag(
            "section",
            tag("h2", _named("Stages", run, runs)),
            _stages(run, find_source, f"run-{number}"),
            facts_of(run),
            _remarks(run),
        )


def _named(heading: str, run: Evidence, runs: Sequence[Evidence]) -> str:
    return heading if len(_whole(runs)) == 1 else f"{heading}: {_title(run)}"


def _title(evidence: Evidence) -> str:
    what = evidence.model.name if evidence.model else Path(evidence.script).name
    under = f" under {evidence.trainer}" if evidence.trainer else ""
    fixed = f", with {len(evidence.repairs)} fix{'es' if len(evidence.repairs) > 1 else ''}" if evidence.repairs else ""
    call = f"training call {evidence.call_number}: " if evidence.call_number > 1 else ""
    return f"{call}{what}{under} on {evidence.device}{fixed}"


def _stages(evidence: Evidence, find_source: FindSource, prefix: str) -> Markup:
    rows = [
        (
            tag("span", f"{SIGNS[stage.status]} {stage.status}", class_=f"status {stage.status.replace(' ', '-')}"),
            tag("span", stage.name, id=f"{prefix}-{stage.name}"),
            tag("span", f"{stage.seconds:.2f} s" if stage.seconds >= 0.005 else "", class_="number"),
            _measured(evidence, number, find_source),
        )
        for number, stage in enumerate(evidence.stages)
    ]
    return table(("", "stage", "time", "measured"), rows, caption="stages and their measurements", kind="words")


def _measured(evidence: Evidence, number: int, find_source: FindSource) -> Piece:
    stage = evidence.stages[number]
    if stage.failure:
        return f"{stage.failure.type}: {stage.failure.message}"
    if stage.reason:
        return stage.reason
    details = (f"{about}: {text}" if about else text for about, text in details_below(evidence, stage.name))
    return [
        numbers(evidence, stage.name, find_source),
        [tag("div", with_code(line), class_="aside") for line in details],
    ]


def _remarks(evidence: Evidence) -> Markup:
    return joined(_list(evidence))


def _list(evidence: Evidence) -> Iterator[Markup]:
    yield from _notes("Stand-ins", [f"{each.name} → {each.by}" for each in evidence.stand_ins])
    yield from _notes("Shortcuts that keep the probe fast", evidence.shortcuts)
    yield from _notes("Notes", evidence.notes)


def _notes(title: str, lines: Sequence[str]) -> Iterator[Markup]:
    if lines:
        yield section(title, tag("ul", (tag("li", with_code(line)) for line in lines)))
