"""A judged record: every finding with its verdict, and the conclusion.

The fix of a finding that only a run shows: the run provides the location, and the text the code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.check.one_file import first_paragraph
from lintrain.check.result import Reported
from lintrain.model.finding import Finding
from lintrain.model.verdict import Outcome
from lintrain.runtime.parent.record import Record
from lintrain.source.nodes import callee_in
from lintrain.source.source import Source, line_of
from lintrain.source.writing import editable_text
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.verdicts.conclusion import Conclusion, conclude
from lintrain.verdicts.judging import Judged, judge
from lintrain.verdicts.static_findings import StaticFindings

if TYPE_CHECKING:
    from lintrain.model.fixes import Fix
    from lintrain.rule import Rule
    from lintrain.rulebook import RuleFile


ORDER = {Outcome.CONFIRMED: 0, Outcome.INCONCLUSIVE: 1, Outcome.REFUTED: 2}


@dataclass(frozen=True, slots=True)
class Judgement:
    """A record with the verdict of every finding, confirmed ones first, and the conclusion."""

    record: Record
    judged: tuple[Reported, ...]
    conclusion: Conclusion
    sources: dict[str, Source]
    documentation: str | None = None

    @property
    def pairs(self) -> Iterator[Judged]:
        """Every finding with its verdict."""
        return ((one.finding, one.verdict) for one in self.judged if one.verdict)


def judge_record(record: Record, static: StaticFindings) -> Judgement:
    """Judge a record with the current rules; findings that a comment suppresses are left out."""
    known = {id(one.finding): one for one in static.reported}
    rules = {rule.name: rule for rule in static.rules}
    judged = judge(record.runs, [one.finding for one in static.reported], static.rules)
    enabled = [(finding, verdict) for finding, verdict in judged if not static.is_suppressed(finding)]
    sources = _sources(record, static)
    reported: list[Reported] = []
    failed = [crash.rule for crash in static.crashes]
    for finding, verdict in _ordered(enabled):
        own, shown = known.get(id(finding)), static.selection.leveled(_with_why(finding, rules))
        is_seen = own is None and verdict.outcome is Outcome.CONFIRMED
        try:
            seen = (
                probed_fix(rules[finding.rule].rule, finding, sources.get(finding.location.path)) if is_seen else None
            )
        except Exception:  # noqa: BLE001 - the finding stays; the conclusion names the rule that failed
            seen = None
            failed.append(finding.rule)
        reported.append(Reported(shown, own.fix if own else seen, verdict, is_measured=own is None))
    conclusion = conclude(record, enabled, lambda location: line_of(location, sources.get), failed)
    return Judgement(record, tuple(reported), conclusion, sources, static.documentation)


def _ordered(judged: Sequence[Judged]) -> list[Judged]:
    return sorted(judged, key=lambda one: (ORDER[one[1].outcome], one[0].location, one[0].rule))


def _with_why(finding: Finding, rules: dict[str, RuleFile]) -> Finding:
    if finding.why or finding.rule not in rules:
        return finding
    return dataclasses.replace(finding, why=first_paragraph(rules[finding.rule].manual.why))


def _sources(record: Record, static: StaticFindings) -> dict[str, Source]:
    """The sources of the code that is shown; the script also under its name in the evidence."""
    sources = dict(static.sources)
    script = sources.get(record.script)
    for run in record.runs:
        for location in (run.call, run.construction, run.failure.location if run.failure else None):
            if (
                location is not None
                and script is not None
                and Path(location.path).absolute() == Path(record.script).absolute()
            ):
                sources.setdefault(location.path, script)
    return sources


def probed_fix(rule: Rule, finding: Finding, source: Source | None) -> Fix | None:
    """The fix of such a finding, if it is at a call and the edit can be applied; it is always unsafe.

    The run took one path through the script, and other paths to the same location may be correct.
    """
    if source is None or finding.location.end_line > len(source.lines):
        return None
    at_call = replace(rule.restored(finding), code=source.code(finding.location))
    if callee_in(at_call) is None:
        return None
    fix = rule.fix(at_call)
    return replace(fix, safe=False) if fix and _can_be_written(fix, source) else None


def _can_be_written(fix: Fix, source: Source) -> bool:
    from lintrain.fix import FixError, apply

    try:
        return apply(editable_text(source), [fix]) != editable_text(source)
    except FixError:
        return False
