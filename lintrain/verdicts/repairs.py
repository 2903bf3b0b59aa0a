"""Which fixes a probe tries after a failing stage: those of the findings that its runs confirm so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from lintrain._version import __version__
from lintrain.check.result import Reported
from lintrain.evidence.run import Evidence, Repair
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.verdict import Outcome
from lintrain.runtime.parent.going_on import RepairedText
from lintrain.runtime.parent.record import SCHEMA, Record
from lintrain.source.source import Source
from lintrain.source.writing import editable_text
from lintrain.verdicts.judgement import judge_record
from lintrain.verdicts.static_findings import StaticFindings


class Repairs:
    """Chooses the repairs of one script; every fix is written to the text as it is in the file, with those before it.

    `checked` gives the findings of the script's text.
    """

    def __init__(self, script: str, checked: Callable[[], StaticFindings]) -> None:
        self._script, self._checked = script, checked
        self._chosen: list[Reported] = []

    def __call__(self, runs: Sequence[Evidence]) -> RepairedText | None:
        """The text with the fixes of all that is confirmed; None if no fix is new."""
        static = self._checked()
        source = static.sources.get(self._script)
        # The lines of a notebook are those of its cells, which start elsewhere after an edit.
        if source is None or source.notebook is not None:
            return None
        known = {_claim(one) for one in self._chosen}
        new = [one for one in _confirmed(self._script, runs, static) if _claim(one) not in known]
        before = len(self._chosen)
        for one in new:
            if _written(source, [*self._chosen, one]) != _written(source, self._chosen):
                self._chosen.append(one)
        if len(self._chosen) == before or (text := _written(source, self._chosen)) is None:
            return None
        repairs = tuple(_repair(one) for one in self._chosen)
        return RepairedText(text, original_lines(editable_text(source), text), repairs)


def _confirmed(script: str, runs: Sequence[Evidence], static: StaticFindings) -> list[Reported]:
    """The confirmed findings in the script's own file that have a fix."""
    ending = Ending(EndingKind.MEASURED)
    record = Record(SCHEMA, __version__, script, "", "", ending, tuple(runs))
    return [
        one
        for one in judge_record(record, static).judged
        if one.fix and one.verdict and one.verdict.outcome is Outcome.CONFIRMED and one.finding.location.path == script
    ]


def _claim(one: Reported) -> tuple[str, object]:
    return one.finding.rule, one.finding.location


def _repair(one: Reported) -> Repair:
    return Repair(one.finding.rule, one.fix.title if one.fix else "", one.finding.location)


def _written(source: Source, chosen: Sequence[Reported]) -> str | None:
    """The text with the fixes of these findings; None if they cannot be written."""
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
