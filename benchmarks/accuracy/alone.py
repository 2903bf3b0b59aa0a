"""What runs show with no help from the text: every script is probed, and its evidence judged without any finding.

The report of the same probe says what it shows together with the text.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.accuracy.code import Code
from benchmarks.accuracy.executing import is_asked_for
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from benchmarks.accuracy.probing import Prober, outcome_in
from lintrain.model.finding import Finding
from lintrain.model.verdict import Outcome
from lintrain.rulebook import RuleFile, load_rules
from lintrain.runtime.parent.record import EvidenceFileError, read_record
from lintrain.verdicts.judging import judge
from tools.build_fixtures import build

LEAST_CONFIRMED = 0.90
LEAST_TOGETHER = 0.97
"""Of the mutants: those that runs alone confirm, and those that they confirm together with the text."""

CONFIRMED, MISPLACED, OTHERWISE, MISSED = "confirmed", "misplaced", "by another rule", "missed"


@dataclass(frozen=True, slots=True)
class Shown:
    """What the run of a mutant showed alone and together with the text, each with the reason."""

    mutant: Mutant
    alone: tuple[str, str]
    together: tuple[str, str]


@dataclass(frozen=True, slots=True)
class OfScript:
    """What a run holds against a script as it is, alone and together with the text, and its mutants."""

    name: str
    false: tuple[str, ...]
    mutants: tuple[Shown, ...]


@cache
def _rules() -> tuple[RuleFile, ...]:
    return tuple(load_rules())


def probe_all_alone(scripts: Sequence[Path], only: Sequence[str] | None, *, everything: bool, jobs: int) -> bool:
    """Probe every correct script and its mutants; whether enough is confirmed, and nothing in a correct script."""
    build()
    by_rule: dict[str, Counter[str]] = defaultdict(Counter)
    together = Counter[str]()
    false = 0
    with Prober(jobs) as prober, ThreadPoolExecutor(jobs) as pool:
        for script in pool.map(partial(_of_script, prober, only=only, everything=everything), scripts):
            false += len(script.false)
            for said in script.false:
                print(f"{script.name}: falsely confirmed: {said}", flush=True)
            for shown in script.mutants:
                by_rule[shown.mutant.injection.rule][shown.alone[0]] += 1
                together[shown.together[0]] += 1
                _print_one(shown)
    for rule, outcomes in sorted(by_rule.items()):
        said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
        print(f"{rule:34} {outcomes.total():5}  {said}")
    total, confirmed = sum(each.total() for each in by_rule.values()), sum(each[CONFIRMED] for each in by_rule.values())
    said = ", ".join(f"{number} {outcome}" for outcome, number in together.most_common())
    print(f"{len(scripts)} correct scripts: {false} false confirmations; {confirmed} of {total} mutants confirmed")
    print(f"together with the text: {said or 'no mutants'}")
    is_enough = confirmed >= LEAST_CONFIRMED * total and together[CONFIRMED] >= LEAST_TOGETHER * total
    return is_enough and not false and not together["refuted"]


def _print_one(shown: Shown) -> None:
    name = f"{shown.mutant.name}: {shown.mutant.injection.rule}"
    for how, (outcome, reason) in (("", shown.alone), ("together with the text: ", shown.together)):
        if outcome != CONFIRMED:
            print(f"{name}: {how}{outcome}: {reason}", flush=True)


def _of_script(prober: Prober, path: Path, only: Sequence[str] | None, *, everything: bool) -> OfScript:
    code = Code.of(path)
    injections = tuple(each for each in load_injections() if not each.not_probed)
    mutants = [mutant for mutant in mutants_of(code, injections) if is_asked_for(mutant, only, everything)]
    shown, document = _probed(prober, code, code.text)
    said = {f"{finding.location.line}: {finding.rule}: {finding.message}" for finding in shown}
    found = [each for each in document["findings"] if each["verdict"]["outcome"] == CONFIRMED]
    said |= {f"{each['location']['line']}: {each['rule']}: {each['message']}" for each in found}
    return OfScript(path.name, tuple(sorted(said)), tuple(_of_mutant(prober, mutant) for mutant in mutants))


def _of_mutant(prober: Prober, mutant: Mutant) -> Shown:
    shown, document = _probed(prober, mutant.script, mutant.text, mutant.injection.also)
    return Shown(mutant, _outcome(mutant, shown, str(document["reason"])), outcome_in(document, mutant))


def _outcome(mutant: Mutant, shown: Sequence[Finding], reason: str) -> tuple[str, str]:
    own = [finding for finding in shown if finding.rule == mutant.injection.rule]
    if any(_is_at(finding, mutant) for finding in own):
        return CONFIRMED, ""
    said = ", ".join(f"{finding.location.line}: {finding.rule}" for finding in shown)
    if own:
        return MISPLACED, f"{said}, expected at {mutant.lines}"
    return (OTHERWISE, said) if shown else (MISSED, reason)


def _is_at(finding: Finding, mutant: Mutant) -> bool:
    """Whether a finding is at the statement that carries the mistake: a call may have its argument further down."""
    name = Path(mutant.script.path).with_suffix(".py").name
    place = finding.location
    return Path(place.path).name == name and any(place.line <= line <= place.end_line for line in mutant.lines)


def _probed(prober: Prober, code: Code, text: str, also: str = "") -> tuple[list[Finding], Any]:  # Any: what JSON holds
    """The findings that the evidence of a run confirms by itself, and the report of the probe."""
    with TemporaryDirectory(prefix="lintrain-alone-") as folder:
        evidence = Path(folder) / "evidence.json"
        document = prober.probe(code, text, evidence, also)
        try:
            record = read_record(evidence)
        except EvidenceFileError as error:
            return [], {**document, "reason": str(error)}
    judged = judge(record.runs, [], _rules())
    return [finding for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED], document
