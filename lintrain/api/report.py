"""The result of a probe inside a program: for a terminal, a notebook, a test, a program.

Events of a session in this process, judged as the command line judges those of a child process.
"""

from __future__ import annotations

import dataclasses
import io
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from lintrain._version import __version__
from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.report.text.judgement import judgement_json, judgement_text
from lintrain.report.text.style import style_of
from lintrain.runtime.child.frames import called
from lintrain.runtime.in_process.session import InProcessSession
from lintrain.runtime.parent.events import Assembly
from lintrain.runtime.parent.record import SCHEMA, Record
from lintrain.source.source import Source
from lintrain.text import for_terminal
from lintrain.verdicts.judgement import Judgement, judge_record
from lintrain.verdicts.static_findings import StaticFindings, check_script, recorded_findings


class MistakesError(Exception):
    """A probe confirmed mistakes, a stage of training fails, or a watched run does; `report` has everything.

    The text of the error is the report as `print` shows it.
    """

    def __init__(self, report: Any) -> None:  # Any: a Report, or a RunReport, which is of the same form
        super().__init__(f"{report.reason}\n\n{report.text()}")
        self.report = report


class Report:
    """The stages, findings and verdicts of one probe.

    `print(report)` shows it in a terminal; in a notebook the last line of a cell shows it as HTML.
    """

    def __init__(self, judgement: Judgement) -> None:
        self._judgement = judgement

    @property
    def evidence(self) -> Evidence | None:
        """What was measured; None where no training was reached."""
        return self._judgement.record.runs[0] if self._judgement.record.runs else None

    @property
    def verdicts(self) -> tuple[tuple[Finding, Verdict], ...]:
        """Every finding with its verdict: confirmed first, then inconclusive, then refuted."""
        return tuple((one.finding, one.verdict) for one in self._judgement.judged if one.verdict is not None)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The confirmed findings, in this order; the others are among `verdicts`."""
        return tuple(finding for finding, verdict in self.verdicts if verdict.outcome is Outcome.CONFIRMED)

    @property
    def ok(self) -> bool:
        """Whether no mistake is confirmed, no stage fails, and everything could be judged; a note is not a mistake."""
        return self._judgement.conclusion.exit_code == 0

    @property
    def reason(self) -> str:
        """The conclusion in one line: "2 mistakes confirmed", "nothing confirmed"."""
        return self._judgement.conclusion.reason

    @property
    def exit_code(self) -> int:
        """The exit code that `lintrain probe` would return: 0 nothing confirmed, 1 mistakes confirmed, 3 could not
        judge.
        """
        return self._judgement.conclusion.exit_code

    def raise_if_confirmed(self) -> Report:
        """The report itself; raises MistakesError if a mistake (not a note) is confirmed or a stage fails."""
        if self.exit_code == 1:
            raise MistakesError(self)
        return self

    def text(self, stream: TextIO | None = None) -> str:
        """The whole report, as wide and as colored as a stream can show it; plain without a stream."""
        return for_terminal(judgement_text(self._judgement, style_of(io.StringIO() if stream is None else stream)))

    def to_json(self) -> str:
        """The whole report for programs, as `lintrain probe --json` writes it."""
        return judgement_json(self._judgement)

    def __str__(self) -> str:
        return self.text(sys.stdout).rstrip("\n")

    def __repr__(self) -> str:
        return f"<lintrain.Report: {self.reason}>"

    def _repr_html_(self) -> str:
        from lintrain.report.snippet import html_snippet

        judgement = self._judgement
        runs, sources = judgement.record.runs, judgement.sources
        return html_snippet(runs, judgement.judged, sources.get, self.reason, is_ok=self.ok)

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:  # noqa: ARG002 - IPython's own signature
        return {"text/plain": self.text(), "text/html": self._repr_html_()}


def mistakes(report: Report) -> tuple[Finding, ...]:
    """The confirmed findings that are more than notes."""
    return tuple(finding for finding in report.findings if finding.level is not Level.NOTE)


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What a report is about: the file whose text is judged with the run (None for the run alone), and which rules."""

    script: str | None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def judged(session: InProcessSession, question: Question) -> Report:
    """The report of what a session measured; raises UsageError for rules that do not exist."""
    record = _record(session)
    if question.script is not None:
        static = check_script(question.script, question.select, question.ignore)
        record = dataclasses.replace(record, findings=tuple(one.finding for one in static.reported))
    else:
        static = _without_text(record, question)
    return Report(judge_record(record, static))


def _record(session: InProcessSession) -> Record:
    assembly = Assembly()
    for event in session.events:
        assembly.add(event)
    end = assembly.end or {"kind": EndingKind.MEASURED, "reason": ""}
    ending = Ending(EndingKind(end["kind"]), end["reason"], session.elapsed())
    runs = (assembly.evidence(ending.reason or "it was not requested"),) if assembly.reached_a_run else ()
    return Record(SCHEMA, __version__, session.script, "", sys.executable, ending, runs)


def _without_text(record: Record, question: Question) -> StaticFindings:
    """No findings of the text; the code around the locations of the run is still shown."""
    static = recorded_findings(record, question.select, question.ignore)
    paths = {location.path for run in record.runs for location in _locations(run)}
    sources = {path: source for path in paths if (source := _source(path)) is not None}
    return dataclasses.replace(static, sources=sources)


def _locations(run: Evidence) -> Iterable[Location]:
    calls = run.loop.losses if run.loop else ()
    locations = (
        run.call,
        run.construction,
        run.failure.location if run.failure else None,
        *(call.location for call in calls),
    )
    return [location for location in locations if location is not None]


def _source(path: str) -> Source | None:
    """A file, or the cell of a notebook, as Python knows its lines."""
    lines = linecache.getlines(called(path) or path) or linecache.getlines(str(Path(path).absolute()))
    return Source(path, "".join(lines)) if lines else None
