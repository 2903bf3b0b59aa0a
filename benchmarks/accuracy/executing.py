"""Every correct script run for real, and a sample of its mutants: whether the mistakes are what they are said to be."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

from benchmarks.accuracy.code import Code
from benchmarks.accuracy.mutants import Mutant, load_injections, mutants_of
from benchmarks.accuracy.running import Runner, doubts


@dataclass(frozen=True, slots=True)
class Execution:
    """What running one script and mutants of it gave."""

    ran: int
    troubles: tuple[str, ...]


def execute(scripts: Sequence[Path], only: Sequence[str] | None, *, everything: bool, jobs: int) -> bool:
    """Run every correct script and the mutants of the sample; whether all mistakes proved real."""
    executions: list[Execution] = []
    with ProcessPoolExecutor(jobs) as pool:
        for execution in pool.map(partial(execute_one, only=only, everything=everything), scripts):
            executions.append(execution)
            for trouble in execution.troubles:
                print(trouble, flush=True)
    ran = sum(execution.ran for execution in executions)
    doubtful = sum(len(execution.troubles) for execution in executions)
    print(f"{len(scripts)} scripts and {ran} mutants executed, {doubtful} in doubt")
    return not doubtful


def execute_one(path: Path, only: Sequence[str] | None, *, everything: bool) -> Execution:
    """Run one script as it is, then those of its mutants that are asked for."""
    code = Code.of(path)
    if error := runner().original(code).error:
        return Execution(0, (f"{path.name}: ends with {error[:300]}",))
    mutants = [mutant for mutant in mutants_of(code, load_injections()) if is_asked_for(mutant, only, everything)]
    doubted = {mutant: doubts(mutant, runner()) for mutant in mutants}
    troubles = (f"{mutant.injection.rule}: {mutant.name}: {doubt}" for mutant, doubt in doubted.items() if doubt)
    return Execution(len(mutants), tuple(troubles))


@cache
def runner() -> Runner:
    """The runner of this process; its server ends with it, when the pipe between them closes."""
    return Runner()


def is_asked_for(mutant: Mutant, only: Sequence[str] | None, everything: bool) -> bool:
    """Whether a mutant can be run, is of one of these rules, and in the sample."""
    injection = mutant.injection
    return not injection.not_run and (not only or injection.rule in only) and (everything or mutant.is_sampled)
