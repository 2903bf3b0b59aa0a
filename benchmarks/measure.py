"""Commands timed side by side: paired and interleaved, so that a busy machine slows all of them alike."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
Quantity = Literal["wall", "cpu", "peak"]
"""What is compared: wall seconds, CPU seconds, or peak memory."""

KIBIBYTE = 1024


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run of a command took: wall and CPU seconds (its children counted in), peak memory in MiB."""

    wall: float
    cpu: float
    peak: float


@dataclass(frozen=True, slots=True)
class Command:
    """A command under the name that tables give it; `codes` are the exit codes that mean it went well.

    The file that it `changes` has one line more before each run.
    """

    name: str
    arguments: Sequence[str]
    folder: Path = ROOT
    variables: Mapping[str, str] | None = None
    codes: tuple[int, ...] = (0,)
    changes: Path | None = None


def cost_of(command: Command) -> Cost:
    """Run a command once; raises RuntimeError with what it said when it ends with another code than expected."""
    variables = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONDONTWRITEBYTECODE": "", **(command.variables or {})}
    if command.changes:
        with command.changes.open("a") as file:
            file.write("# changed\n")
    started = time.perf_counter()
    process = subprocess.Popen(
        command.arguments, cwd=command.folder, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    with process.stderr:
        said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in command.codes:
        raise RuntimeError(f"{command.name} ended with {process.returncode}: {said.decode(errors='replace')[-2000:]}")
    bytes_per_unit = 1 if sys.platform == "darwin" else KIBIBYTE
    peak = usage.ru_maxrss * bytes_per_unit / KIBIBYTE**2
    return Cost(wall, usage.ru_utime + usage.ru_stime, peak)


def interleaved(commands: Sequence[Command], rounds: int) -> list[list[Cost]]:
    """The costs of each command over so many rounds, one run of each per round, after a round that is not counted."""
    costs: list[list[Cost]] = [[] for _ in commands]
    for command in commands:
        cost_of(command)
    for _ in range(rounds):
        for command, mine in zip(commands, costs, strict=True):
            mine.append(cost_of(command))
    return costs


def middle(costs: Sequence[Cost]) -> Cost:
    """The median of each quantity."""
    wall, cpu, peak = zip(*((cost.wall, cost.cpu, cost.peak) for cost in costs), strict=True)
    return Cost(median(wall), median(cpu), median(peak))


def paired_ratio(costs: Sequence[Cost], others: Sequence[Cost], quantity: Quantity = "wall") -> float:
    """The median over the rounds of how many times more the first took than the second."""
    return median(_of(one, quantity) / _of(other, quantity) for one, other in zip(costs, others, strict=True))


def _of(cost: Cost, quantity: Quantity) -> float:
    return {"wall": cost.wall, "cpu": cost.cpu, "peak": cost.peak}[quantity]


def print_table(commands: Sequence[Command], costs: Sequence[Sequence[Cost]]) -> None:
    """One line per command: medians of wall, CPU and peak memory."""
    width = max(len(command.name) for command in commands)
    print(f"{'':{width}}  {'wall s':>8}  {'CPU s':>8}  {'peak MiB':>9}")
    for command, mine in zip(commands, costs, strict=True):
        cost = middle(mine)
        print(f"{command.name:{width}}  {cost.wall:8.3f}  {cost.cpu:8.3f}  {cost.peak:9.1f}")
