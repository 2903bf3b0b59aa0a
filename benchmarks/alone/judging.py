"""What the run of each version shows by itself: `lintrain probe`, its evidence judged without what the text shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.accuracy.probing import Prober, probe_in
from benchmarks.alone.building import ENTRY, Written, write
from benchmarks.alone.recipes import Recipe
from lintrain.model.finding import Finding
from lintrain.model.verdict import Outcome
from lintrain.rulebook import RuleFile, load_rules
from lintrain.runtime.parent.record import EvidenceFileError, read_record
from lintrain.verdicts.judging import judge


class Result(StrEnum):
    """What a run showed of the mistake."""

    CONFIRMED = "confirmed"
    MISPLACED = "misplaced"
    OTHERWISE = "by another rule"
    MISSED = "missed"


@dataclass(frozen=True, slots=True)
class Shown:
    """What a run confirms: `rule`, `path`, `line`, `message`."""

    findings: tuple[Finding, ...]
    reason: str

    def listed(self) -> str:
        """The findings in one line."""
        return ", ".join(f"{each.location.path}:{each.location.line}: {each.rule}" for each in self.findings)


@dataclass(frozen=True, slots=True)
class Judged:
    """What both runs of a recipe showed; `false` is what was confirmed in the fixed twin."""

    recipe: Recipe
    result: Result
    said: str
    false: tuple[str, ...]
    twin: str


def judge_recipe(prober: Prober, recipe: Recipe, clones: Path) -> Judged:
    """Probe the version with the mistake and the fixed twin."""
    written, shown = _probe(prober, recipe, clones, fixed=False)
    result = result_of(recipe, written, shown)
    _, twin = _probe(prober, recipe, clones, fixed=True)
    false = tuple(
        f"{each.location.path}:{each.location.line}: {each.rule}: {each.message}"
        for each in twin.findings
        if each.rule not in recipe.true
    )
    return Judged(recipe, result, shown.listed() or shown.reason, false, twin.reason)


def result_of(recipe: Recipe, written: Mapping[str, Written], shown: Shown) -> Result:
    """Whether one of the right rules is confirmed at a place of the mistake."""
    own = [each for each in shown.findings if each.rule in recipe.rules]
    if any(_is_right(recipe, written, finding) for finding in own):
        return Result.CONFIRMED
    if own:
        return Result.MISPLACED
    others = [each for each in shown.findings if each.rule not in recipe.true]
    return Result.OTHERWISE if others else Result.MISSED


def _is_right(recipe: Recipe, written: Mapping[str, Written], finding: Finding) -> bool:
    place = finding.location
    file = written.get(place.path)
    spans = [span for span in recipe.places if (span.file or ENTRY) == place.path]
    return file is not None and file.is_right(place.line, place.end_line, spans)


@cache
def _rules() -> tuple[RuleFile, ...]:
    return tuple(load_rules())


def _probe(prober: Prober, recipe: Recipe, clones: Path, *, fixed: bool) -> tuple[dict[str, Written], Shown]:
    with TemporaryDirectory(prefix="lintrain-alone-") as kept, TemporaryDirectory(prefix="lintrain-code-") as made:
        folder, evidence = Path(made), Path(kept, "evidence.json")
        written = write(recipe, clones, folder, fixed=fixed)
        with prober.python() as python:
            document = probe_in(folder, Path(ENTRY), python, evidence)
        try:
            runs = read_record(evidence).runs
        except EvidenceFileError as error:
            return written, Shown((), str(error))
        judged = judge(runs, [], _rules())
        found = tuple(finding for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED)
        return written, Shown(found, str(document["reason"]))
