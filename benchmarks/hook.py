"""What a commit of one script waits for: the hook under the real pre-commit and prek, `python -m benchmarks.hook`.

The hook is installed once, from this checkout's last commit and the package index, as users get it. The bound is on CPU
seconds, which are those that pass on an idle machine: what else runs does not count. Each run finds it changed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.measure import ROOT, Command, Cost, cost_of

MOST_SECONDS = 0.4
ROUNDS = 15
SCRIPT = ROOT / "fixtures" / "speed" / "reviews.py"
RUNNERS = ("pre-commit", "prek")
CONFIGURATION = "repos:\n  - repo: {root}\n    rev: {revision}\n    hooks:\n      - id: lintrain\n"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the first run took, and the runs after it."""

    runner: str
    first: Cost
    later: tuple[Cost, ...]

    @property
    def seconds(self) -> float:
        """CPU seconds of the median run after the first."""
        return median(cost.cpu for cost in self.later)

    def __str__(self) -> str:
        wall = median(cost.wall for cost in self.later)
        return (
            f"{self.runner}: first {self.first.wall:.1f} s; then {self.seconds:.2f} s of CPU, {wall:.2f} s by the clock"
        )


def measure(runner: str, folder: Path, rounds: int = ROUNDS) -> Waiting:
    """Run the hook on one file in a new repository, again and again."""
    program = Path(sys.executable).parent / runner
    revision = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True)
    (folder / ".pre-commit-config.yaml").write_text(
        CONFIGURATION.format(root=ROOT.as_posix(), revision=revision.stdout.strip())
    )
    shutil.copy(SCRIPT, folder / "train.py")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *words], cwd=folder, check=True)
    locations = {"PRE_COMMIT_HOME": str(folder / ".git/pc"), "PREK_HOME": str(folder / ".git/prek"), "PYTHONPATH": ""}
    command = Command(runner, [str(program), "run", "--files", "train.py"], folder, locations, (0, 1))
    first = cost_of(command)
    cost_of(command)
    return Waiting(runner, first, tuple(_changed_and_checked(command, folder, number) for number in range(rounds)))


def _changed_and_checked(command: Command, folder: Path, number: int) -> Cost:
    """What the hook costs on a file that it has not seen: of one that did not change, it would know the answer."""
    (folder / "train.py").write_text(f"{SCRIPT.read_text()}# change {number}\n")
    return cost_of(command)


def measured() -> Iterator[Waiting]:
    """Every runner, each in a repository of its own."""
    for runner in RUNNERS:
        with tempfile.TemporaryDirectory() as folder:
            yield measure(runner, Path(folder))


def main() -> int:
    """Print a line for each runner; 1 when one is over the bound."""
    slow = False
    for waiting in measured():
        print(waiting)
        slow |= waiting.seconds > MOST_SECONDS
    return int(slow)


if __name__ == "__main__":
    sys.exit(main())
