"""Mended mutants of the sample under a probe: they run, and what was claimed of them is refuted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.accuracy.checking import project_of, request_of, rules, written
from benchmarks.accuracy.code import Code
from benchmarks.accuracy.executing import is_asked_for
from benchmarks.accuracy.fixing import own_finding
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from benchmarks.accuracy.probing import Prober
from lintrain.check.check_run import CheckRun
from lintrain.check.mending import mend
from lintrain.model.finding import Finding
from lintrain.model.location import Location
from lintrain.runtime.parent.record import EvidenceFileError, read_record
from lintrain.source.reading import read_bytes
from lintrain.source.writing import editable_text
from lintrain.verdicts.judging import judge
from tools.build_fixtures import build


@dataclass(frozen=True, slots=True)
class Refuting:
    """What a probe says of a mended mutant: the ruling on the claim that was made of it, and the reason."""

    name: str
    outcome: str
    reason: str


def refute_all(scripts: Sequence[Path], only: Sequence[str] | None, *, everything: bool, jobs: int) -> bool:
    """Probe the mended mutants of the sample; whether each runs and no claim is confirmed again."""
    build()
    with Prober(jobs) as prober, ThreadPoolExecutor(jobs) as pool:
        found: list[Refuting] = []
        for each in pool.map(partial(_of_script, prober, only=only, everything=everything), scripts):
            found += each
            for one in each:
                if one.outcome != "refuted":
                    print(f"{one.name}: {one.outcome}: {one.reason}", flush=True)
    outcomes = Counter(one.outcome for one in found)
    said = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    print(f"{len(found)} mended mutants probed: {said or 'none of the sample'}")
    return not outcomes["confirmed"] and not outcomes["fails"]


def _of_script(prober: Prober, path: Path, only: Sequence[str] | None, *, everything: bool) -> list[Refuting]:
    injections = tuple(each for each in load_injections() if not each.not_probed)
    if project_of(path):  # a claim about one of several files is not found again by its line alone
        return []
    mutants = [each for each in mutants_of(Code.of(path), injections) if is_asked_for(each, only, everything)]
    return [refuting for mutant in mutants for refuting in _of_mutant(prober, mutant)]


def _of_mutant(prober: Prober, mutant: Mutant) -> Iterator[Refuting]:
    mended = _mended(mutant)
    if mended is None:
        return
    finding, text = mended
    with TemporaryDirectory(prefix="lintrain-evidence-") as folder:
        evidence = Path(folder) / "evidence.json"
        document = prober.probe(mutant.script, text, evidence)
        if document["exit_code"] == 2:  # the script, or the probe of it, did not come to its training
            yield Refuting(mutant.name, "fails", str(document["reason"]))
            return
        try:
            record = read_record(evidence)
        except EvidenceFileError as error:
            yield Refuting(mutant.name, "fails", str(error))
            return
    ((_, verdict), *_) = judge(record.runs, [_moved(finding, mutant.text, text, record.runs[0].location.path)], rules())
    yield Refuting(mutant.name, verdict.outcome.value, verdict.reason)


def _mended(mutant: Mutant) -> tuple[Finding, str] | None:
    """The finding of a mutant and its text when all fixes are written; None where nothing mends it."""
    with written(mutant.script, mutant.text) as (folder, target):
        request = request_of(folder)
        outcome = CheckRun(request).check()
        _, own = own_finding(mutant, outcome)
        if own is None or own.fix is None:
            return None
        content = mend(request, outcome, unsafe=True).contents.get(str(target))
        return (own.finding, editable_text(read_bytes(str(target), content))) if content is not None else None


def _moved(finding: Finding, before: str, after: str, path: str) -> Finding:
    """The claim at the line that stands in the stead of its own."""
    location = finding.location
    line = location.line
    old, new = before.split("\n"), after.split("\n")
    for _, start, end, first, last in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if start <= location.line - 1 < end:
            line = max(min(first + location.line - start, last), 1)
    return replace(finding, location=Location(path, line, location.column, line, location.end_column))
