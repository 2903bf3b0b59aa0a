"""What runs show with no help from the text: every script is probed, and its evidence judged without any finding."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.accuracy.code import Code
from benchmarks.accuracy.executing import is_asked_for
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from benchmarks.accuracy.probing import Prober
from lintrain.model.finding import Finding
from lintrain.model.verdict import Outcome
from lintrain.rulebook import RuleFile, load_rules
from lintrain.runtime.parent.record import EvidenceFileError, read_record
from lintrain.verdicts.judging import judge
from tools.build_fixtures import build

LEAST_CONFIRMED = 0.90

CONFIRMED, MISPLACED, OTHERWISE, MISSED = "confirmed", "misplaced", "by another rule", "missed"


@dataclass(frozen=True, slots=True)
class Alone:
    """What a run of one script showed: what it holds against the script as it is, and the outcome of each mutant."""

    name: str
    false: tuple[str, ...]
    outcomes: tuple[tuple[Mutant, str, str], ...]


@cache
def _rules() -> tuple[RuleFile, ...]:
    return tuple(load_rules())


def probe_all_alone(scripts: Sequence[Path], only: Sequence[str] | None, *, everything: bool, jobs: int) -> bool:
    """Probe every correct script and its mutants; whether enough is confirmed, and nothing in a correct script."""
    build()
    by_rule: dict[str, Counter[str]] = defaultdict(Counter)
    false = 0
    with Prober(jobs) as prober, ThreadPoolExecutor(jobs) as pool:
        for alone in pool.map(partial(_of_script, prober, only=only, everything=everything), scripts):
            false += len(alone.false)
            for said in alone.false:
                print(f"{alone.name}: falsely confirmed: {said}", flush=True)
            for mutant, outcome, reason in alone.outcomes:
                by_rule[mutant.injection.rule][outcome] += 1
                if outcome != CONFIRMED:
                    print(f"{mutant.name}: {mutant.injection.rule}: {outcome}: {reason}", flush=True)
    for rule, outcomes in sorted(by_rule.items()):
        said = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.most_common())
        print(f"{rule:34} {outcomes.total():5}  {said}")
    total, confirmed = sum(each.total() for each in by_rule.values()), sum(each[CONFIRMED] for each in by_rule.values())
    print(f"{len(scripts)} correct scripts: {false} false confirmations; {confirmed} of {total} mutants confirmed")
    return not false and confirmed >= LEAST_CONFIRMED * total


def _of_script(prober: Prober, path: Path, only: Sequence[str] | None, *, everything: bool) -> Alone:
    code = Code.of(path)
    injections = tuple(each for each in load_injections() if not each.not_probed)
    mutants = [mutant for mutant in mutants_of(code, injections) if is_asked_for(mutant, only, everything)]
    false, _ = _shown(prober, code, code.text)
    said = tuple(f"{finding.location.line}: {finding.rule}: {finding.message}" for finding in false)
    return Alone(path.name, said, tuple((mutant, *_outcome(prober, mutant)) for mutant in mutants))


def _outcome(prober: Prober, mutant: Mutant) -> tuple[str, str]:
    shown, reason = _shown(prober, mutant.script, mutant.text)
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


def _shown(prober: Prober, code: Code, text: str) -> tuple[list[Finding], str]:
    """The findings that the evidence of a run confirms by itself, and how the probe ended."""
    with TemporaryDirectory(prefix="lintrain-alone-") as folder:
        evidence = Path(folder) / "evidence.json"
        document = prober.probe(code, text, evidence)
        try:
            record = read_record(evidence)
        except EvidenceFileError as error:
            return [], str(error)
    judged = judge(record.runs, [], _rules())
    return [finding for finding, verdict in judged if verdict.outcome is Outcome.CONFIRMED], str(document["reason"])
