"""Which fixes a probe tries after a failing stage: those of the findings that its runs confirm so far."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher

from lintrain._version import __version__
from lintrain.check.result import Reported
from lintrain.evidence.run import Evidence, Repair
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.rulebook import RuleFileError
from lintrain.runtime.parent.going_on import RepairedText
from lintrain.runtime.parent.record import SCHEMA, Record
from lintrain.settings.settings import UsageError
from lintrain.source.discovery import MissingPathError
from lintrain.source.source import Source
from lintrain.source.writing import editable_text
from lintrain.verdicts.judgement import judge_record
from lintrain.verdicts.judging import judge
from lintrain.verdicts.static_findings import StaticFindings

Claim = tuple[str, Location]
"""The rule and the location of a finding."""


class Repairs:
    """Chooses the repairs of one script; every fix is written to the text as it is in the file, with those before it.

    `checked` gives the findings of the script's text.
    """

    def __init__(self, script: str, checked: Callable[[], StaticFindings]) -> None:
        self._script, self._checked = script, checked
        self._chosen: list[Reported] = []
        self._rejected: set[Claim] = set()
        self._is_one_at_a_time = False

    def __call__(self, runs: Sequence[Evidence]) -> RepairedText | None:
        """The text with the fixes of all that is confirmed; None if no fix is new."""
        try:
            static = self._checked()
        except (UsageError, MissingPathError, RuleFileError):
            return None  # raised again where the findings are needed
        source = static.sources.get(self._script)
        # The lines of a notebook are those of its cells, which start elsewhere after an edit.
        if source is None or source.notebook is not None:
            return None
        self._keep_what_helped(runs[-1].repairs)
        if not self._add(self._candidates(runs, static), source):
            return None
        text = text_with(source, self._chosen) or source.text
        repairs = tuple(_repair(one) for one in self._chosen)
        return RepairedText(text, original_lines(editable_text(source), text), repairs)

    def held(self, runs: Sequence[Evidence]) -> list[Reported]:
        """The findings whose fixes the last run was made with, and which it no longer confirms."""
        made_with = {(repair.rule, repair.location) for repair in runs[-1].repairs} if runs else set[Claim]()
        shown = set(self._still_shown(runs[-1:])) if made_with else set[Claim]()
        return [one for one in self._chosen if _claim(one) in made_with - shown]

    def source(self) -> Source | None:
        """The script as it was checked."""
        return self._checked().sources.get(self._script)

    def _still_shown(self, runs: Sequence[Evidence]) -> Iterator[Claim]:
        rules = self._checked().rules
        # As if nothing had been repaired: the run then decides about every finding.
        plain = [dataclasses.replace(run, repairs=()) for run in runs]
        for finding, verdict in judge(plain, [one.finding for one in self._chosen], rules):
            if verdict.outcome is Outcome.CONFIRMED:
                yield finding.rule, finding.location

    def _keep_what_helped(self, repairs: tuple[Repair, ...]) -> None:
        """Take back the fixes that did not bring the script further: of several, each gets a run of its own."""
        helped = {(repair.rule, repair.location) for repair in repairs}
        rejected = [_claim(one) for one in self._chosen if _claim(one) not in helped]
        self._chosen = [one for one in self._chosen if _claim(one) in helped]
        if len(rejected) == 1:
            self._rejected.update(rejected)
        self._is_one_at_a_time |= len(rejected) > 1

    def _candidates(self, runs: Sequence[Evidence], static: StaticFindings) -> list[Reported]:
        known = {*map(_claim, self._chosen), *self._rejected}
        confirmed = [one for one in _confirmed(self._script, runs, static) if _claim(one) not in known]
        new = [one for one in confirmed if _had_been_reached(one, runs[-1])]
        return new[:1] if self._is_one_at_a_time else new

    def _add(self, candidates: Sequence[Reported], source: Source) -> bool:
        """Add the fixes that can be written; whether there is one."""
        before = len(self._chosen)
        for one in candidates:
            text = text_with(source, [*self._chosen, one])
            if text is not None and text != text_with(source, self._chosen):
                self._chosen.append(one)
            else:
                self._rejected.add(_claim(one))
        return len(self._chosen) > before


def _had_been_reached(one: Reported, run: Evidence) -> bool:
    """Whether its line came before the error: no fix of a line behind it can bring the script further."""
    reached = run.failure.reached if run.failure else None
    finding = one.finding.location
    return reached is None or reached.path != finding.path or finding.line <= reached.end_line


def _confirmed(script: str, runs: Sequence[Evidence], static: StaticFindings) -> list[Reported]:
    """The confirmed findings in the script's own file that have a fix."""
    ending = Ending(EndingKind.MEASURED)
    record = Record(SCHEMA, __version__, script, "", "", ending, tuple(runs))
    return [
        one
        for one in judge_record(record, static).judged
        if one.fix and one.verdict and one.verdict.outcome is Outcome.CONFIRMED and one.finding.location.path == script
    ]


def _claim(one: Reported) -> Claim:
    return one.finding.rule, one.finding.location


def _repair(one: Reported) -> Repair:
    return Repair(one.finding.rule, one.fix.title if one.fix else "", one.finding.location)


def text_with(source: Source, chosen: Sequence[Reported]) -> str | None:
    """The editable text with the fixes of these findings; None if they cannot be written."""
    from lintrain.fix import FixError, apply

    try:
        return apply(editable_text(source), [one.fix for one in chosen if one.fix])
    except FixError:
        return None


def original_lines(before: str, after: str) -> tuple[int, ...]:
    """For each line of a repaired text the number that it has in the text before; a new line has that of the next."""
    old, new = _lines(before), _lines(after)
    numbers: list[int] = []
    for _, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        numbers += [min(start + offset, max(start, end - 1)) + 1 for offset in range(last - first)]
    # A text may end with new lines only.
    return tuple(min(number, max(1, len(old))) for number in numbers) or (1,)


def _lines(text: str) -> list[str]:
    return re.split(r"\r\n|\r|\n", text)
