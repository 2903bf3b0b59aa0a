"""Every correct script probed, and a sample of its mutants: a probe confirms what is wrong, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.accuracy.checking import ENTRY, project_of, written
from benchmarks.accuracy.code import Code
from benchmarks.accuracy.executing import is_asked_for
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from benchmarks.accuracy.running import DATA, QUIET, ROOT
from tests.support.warm.starting import WarmPython
from tools.build_fixtures import build, offline_environment

MISSED = "missed"
"""Nothing was said of the mistake: neither the text nor the probe shows it."""


@dataclass(frozen=True, slots=True)
class Probing:
    """What a probe said: of a correct script what it confirmed (`false`), of each mutant its ruling and the reason."""

    name: str
    exit_code: int
    reason: str
    false: tuple[str, ...]
    outcomes: tuple[tuple[str, str, str], ...]


def probe_all(scripts: Sequence[Path], only: Sequence[str] | None, *, everything: bool, jobs: int) -> bool:
    """Probe every correct script and the mutants of the sample; whether no verdict is false."""
    build()
    probings: list[Probing] = []
    with Prober(jobs) as prober, ThreadPoolExecutor(jobs) as pool:
        for probing in pool.map(partial(probe_one, prober, only=only, everything=everything), scripts):
            probings.append(probing)
            print_one(probing)
    outcomes = Counter(outcome for probing in probings for _, outcome, _ in probing.outcomes)
    false = sum(len(probing.false) for probing in probings)
    unjudged = sum(probing.exit_code not in (0, 1) for probing in probings)
    said = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
    print(f"{len(scripts)} correct scripts probed: {false} false confirmations, {unjudged} not judged; mutants: {said}")
    return not false and not outcomes["refuted"]


def print_one(probing: Probing) -> None:
    """What came of one script, where it is not what one hopes for."""
    if probing.exit_code != 0:
        print(f"{probing.name}: exit code {probing.exit_code}: {probing.reason}", flush=True)
    for said in probing.false:
        print(f"{probing.name}: falsely confirmed: {said}", flush=True)
    for mutant, outcome, reason in probing.outcomes:
        if outcome != "confirmed":
            print(f"{mutant}: {outcome}: {reason}", flush=True)


class Prober:
    """Probes in Pythons that have the libraries imported, one for each job."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._open = ExitStack()
        self._free: SimpleQueue[WarmPython] = SimpleQueue()

    def __enter__(self) -> Prober:
        for _ in range(self._jobs):
            folder = self._open.enter_context(TemporaryDirectory(prefix="lintrain-warm-"))
            warm = WarmPython(Path(folder), "libraries", **offline_environment(), **QUIET, OMP_NUM_THREADS="1")
            self._open.callback(warm.stop)
            self._free.put(warm)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def probe(self, code: Code, text: str, evidence: Path | None = None, also: str = "") -> Any:  # Any: JSON
        """The report of `lintrain probe` on a script with this text, in a folder of its own; its evidence in a file."""
        if also:  # processes that are forked from one share its random numbers, and two runs would agree
            return probed(code, text, Path(sys.executable), evidence, also)
        with self.python() as program:
            return probed(code, text, program, evidence)

    @contextmanager
    def python(self) -> Generator[Path]:
        """One of the Pythons, for the time that it is used."""
        warm = self._free.get()
        try:
            yield warm.program
        finally:
            self._free.put(warm)


def probe_one(prober: Prober, path: Path, only: Sequence[str] | None, *, everything: bool) -> Probing:
    """Probe one script as it is, then those of its mutants that are asked for."""
    code = Code.of(path)
    document = prober.probe(code, code.text)
    confirmed = [one for one in document["findings"] if one["verdict"]["outcome"] == "confirmed"]
    injections = tuple(each for each in load_injections() if not each.not_probed)
    mutants = [mutant for mutant in mutants_of(code, injections) if is_asked_for(mutant, only, everything)]
    return Probing(
        path.name,
        document["exit_code"],
        document["reason"],
        tuple(f"{one['location']['line']}: {one['rule']}: {one['verdict']['reason']}" for one in confirmed),
        tuple((mutant.name, *outcome_of(prober, mutant)) for mutant in mutants),
    )


def outcome_of(prober: Prober, mutant: Mutant) -> tuple[str, str]:
    """What a probe of a mutant said of its mistake, and why."""
    return outcome_in(prober.probe(mutant.script, mutant.text, also=mutant.injection.also), mutant)


def outcome_in(document: Any, mutant: Mutant) -> tuple[str, str]:  # Any: what JSON holds
    """What a report of a probe says of the mistake of a mutant, and why."""
    name = Path(mutant.script.path).with_suffix(".py").name
    own = [
        one["verdict"]
        for one in document["findings"]
        if one["rule"] == mutant.injection.rule
        and one["location"]["line"] in mutant.lines
        and Path(one["location"]["path"]).name == name
    ]
    outcomes = {verdict["outcome"]: verdict["reason"] for verdict in own}
    for outcome in ("confirmed", "inconclusive", "refuted"):
        if outcome in outcomes:
            return outcome, outcomes[outcome]
    return MISSED, str(document["reason"])


def probed(code: Code, text: str, python: Path, evidence: Path | None = None, also: str = "") -> Any:  # Any: JSON
    """The report of `lintrain probe --python` on a script with this text, in a folder of its own."""
    path = Path(code.path)
    with written(code, text) as (folder, target):
        entry = folder / ENTRY if project_of(path) else target
        if target.suffix == ".ipynb":
            entry = target.with_suffix(".py")
            entry.write_text(text)
        shutil.copytree(DATA, folder, dirs_exist_ok=True)
        return probe_in(folder, entry.relative_to(folder), python, evidence, also)


def probe_in(folder: Path, entry: Path, python: Path, evidence: Path | None = None, also: str = "") -> Any:  # Any: JSON
    """The report of `lintrain probe --python` on a script of a folder; its evidence in a file."""
    kept = (*(("--evidence", str(evidence)) if evidence else ()), *(("--also", also) if also else ()))
    words = ("probe", "--json", "--no-cache", "--python", str(python), *kept)
    done = subprocess.run(
        [sys.executable, "-m", "lintrain", *words, str(entry)],
        cwd=folder,
        env={**os.environ, **offline_environment(), **QUIET, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if not done.stdout:
        raise RuntimeError(f"{entry.name}: {done.stderr[-500:]}")
    return json.loads(done.stdout)
