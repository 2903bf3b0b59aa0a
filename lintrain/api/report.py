"""The result of a probe inside a program: for a terminal, a notebook, a test, a program."""

from __future__ import annotations

import io
import sys
from typing import TextIO

from lintrain.evidence.run import Evidence
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.verdict import Outcome, Verdict
from lintrain.report.text.judgement import judgement_json, judgement_text
from lintrain.report.text.style import style_of
from lintrain.text.shown import for_terminal
from lintrain.verdicts.judgement import Judgement


class MistakesError(Exception):
    """A probe confirmed mistakes, or a stage of training fails; `report` has everything.

    The text of the error is the report as `print` shows it.
    """

    def __init__(self, report: Report) -> None:
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
