"""What `lintrain probe` costs beside the script itself: `python -m benchmarks.probe_cost [--rounds N] [--only WORD]`.

Each script is probed, and run with one training step; then a script that tokenizes 100,000 rows is probed,
and run up to the end of its first step. Pairs of runs are interleaved after one that does not count, ratios are medians
over the pairs, and the exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.many_rows import CASES as MANY_CASES
from benchmarks.many_rows import REVIEWS
from benchmarks.measure import ROOT, Command, Cost, interleaved, middle, paired_ratio
from benchmarks.one_step import CASES, Case
from tools.build_fixtures import BUILT, offline_environment

MOST_TIMES_ONE_STEP = 1.3
MOST_TIMES_FIRST_STEP = 0.2


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """A probe and the script that it is compared with, run by run, and how many times as long the probe may take."""

    name: str
    script: tuple[Cost, ...]
    probe: tuple[Cost, ...]
    most: float = MOST_TIMES_ONE_STEP

    @property
    def cpu(self) -> float:
        """How many times the script's CPU seconds the probe takes, all of its processes together."""
        return paired_ratio(self.probe, self.script, "cpu")

    @property
    def wall(self) -> float:
        """How many times the script's wall seconds the probe takes."""
        return paired_ratio(self.probe, self.script)

    @property
    def misses(self) -> list[str]:
        """The bounds that were missed, in words."""
        ratios = (("wall", self.wall), ("CPU", self.cpu))
        return [
            f"{self.name}: {ratio:.2f} times the script's {what} seconds, {self.most:g} at most"
            for what, ratio in ratios
            if ratio > self.most
        ]

    @property
    def row(self) -> str:
        """A line of the table, medians in seconds."""
        script, probe = middle(self.script), middle(self.probe)
        cells = (script.wall, probe.wall, self.wall, script.cpu, probe.cpu, self.cpu)
        return f"| {self.name} | {' | '.join(f'{cell:.2f}' for cell in cells)} | {self.most:g} |"


HEAD = """| script | wall s | probe | ratio | CPU s | probe | ratio | at most |
|---|---|---|---|---|---|---|---|"""


def measure_case(case: Case, rounds: int, assets: Path = BUILT, most: float = MOST_TIMES_ONE_STEP) -> ProbeCost:
    """A script with one step and the probe of the script as it is, interleaved, each in a folder of its own.

    What lies beside the assets is there for both. The libraries' default of several threads for a tokenizer holds.
    """
    variables = {**offline_environment(assets), "TOKENIZERS_PARALLELISM": "true", "PYTHONPATH": str(ROOT)}
    with _folders(assets.parent / REVIEWS) as (here, there):
        (here / case.script.name).write_text(case.with_one_step)
        (there / case.script.name).write_text(case.script.read_text())
        words = (sys.executable, "-m", "lintrain", "probe", "--quiet", "--no-cache", case.script.name)
        commands = [
            Command(case.name, (sys.executable, case.script.name), here, variables),
            Command(f"probe of {case.name}", words, there, variables),
        ]
        script, probe = interleaved(commands, rounds)
    return ProbeCost(case.name, tuple(script), tuple(probe), most)


@contextmanager
def _folders(data: Path) -> Generator[tuple[Path, Path]]:
    with tempfile.TemporaryDirectory(prefix="lintrain-cost-") as folder:
        both = Path(folder) / "script", Path(folder) / "probe"
        for one in both:
            one.mkdir()
            if data.is_dir():
                (one / data.name).symlink_to(data)
        yield both


def measure_many_rows(rounds: int, cases: Sequence[Case]) -> Iterator[ProbeCost]:
    """Scripts that tokenize 100,000 rows: until their first step, and the probe."""
    with tempfile.TemporaryDirectory(prefix="lintrain-cost-") as folder:
        build = [sys.executable, "-m", "benchmarks.many_rows", folder]
        subprocess.run(build, cwd=ROOT, check=True, stderr=subprocess.DEVNULL)
        for case in cases:
            yield measure_case(case, rounds, Path(folder) / "assets", MOST_TIMES_FIRST_STEP)


def measure_all(rounds: int, only: Sequence[str]) -> Iterator[ProbeCost]:
    """Every case whose name has one of the words in it, one after the other; all without words."""
    subprocess.run([sys.executable, "-m", "tools.build_fixtures"], cwd=ROOT, check=True)
    yield from (measure_case(case, rounds) for case in chosen(CASES, only))
    if cases := chosen(MANY_CASES, only):
        yield from measure_many_rows(rounds, cases)


def chosen(cases: Sequence[Case], only: Sequence[str]) -> list[Case]:
    """The cases whose name has one of the words in it; all without words."""
    return [case for case in cases if not only or any(word in case.name for word in only)]


def main() -> int:
    """Print the table and what was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], metavar="WORD", help="scripts with this in their name")
    options = parser.parse_args()
    print(HEAD, flush=True)
    misses: list[str] = []
    for cost in measure_all(options.rounds, options.only):
        print(cost.row, flush=True)
        misses += cost.misses
    for miss in misses:
        print(f"missed: {miss}")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
