"""How quick `lintrain check` is on one script: `python -m benchmarks.speed [SCRIPT] [--rounds N]`.

It is measured against `astroid.parse` of the same script in the same run, and in an environment with torch and
transformers against one without; the exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.light import make_light_environment
from benchmarks.measure import ROOT, Command, Cost, interleaved, paired_ratio, print_table

SCRIPT = ROOT / "fixtures" / "speed" / "functions_150.py"
"""Sets no attribute: at every `x.y = …` astroid reads installed libraries for half a minute, which would flatter us."""

PARSE = "import astroid, sys; astroid.parse(open(sys.argv[1]).read())"

MOST_TIMES_ASTROID = 2.5
MOST_WITH_TORCH = 1.1


@dataclass(frozen=True, slots=True)
class Speed:
    """Medians of paired runs: how many times the cost of astroid's parse, and of a machine without torch."""

    times_astroid: float
    time_with_torch: float
    memory_with_torch: float

    @property
    def misses(self) -> list[str]:
        """The bounds that were missed, in words."""
        bounds = (
            ("times astroid.parse", self.times_astroid, MOST_TIMES_ASTROID),
            ("times as long with torch installed", self.time_with_torch, MOST_WITH_TORCH),
            ("times the memory with torch installed", self.memory_with_torch, MOST_WITH_TORCH),
        )
        return [f"{value:.2f} {name}, {most} at most" for name, value, most in bounds if value > most]


def measure_speed(script: Path, rounds: int) -> tuple[Speed, list[Command], list[list[Cost]]]:
    """Run the three commands so many rounds, interleaved."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory(prefix="lintrain-speed-") as folder:
        light = make_light_environment(Path(folder) / "venv", project["dependencies"])
        commands = [check_command("lintrain check, torch installed", sys.executable, script)]
        commands.append(check_command("lintrain check, no torch", str(light), script))
        commands.append(Command("astroid.parse", (sys.executable, "-c", PARSE, str(script))))
        costs = interleaved(commands, rounds)
    here, bare, parse = costs
    speed = Speed(
        times_astroid=paired_ratio(here, parse),
        time_with_torch=paired_ratio(here, bare, "cpu"),
        memory_with_torch=paired_ratio(here, bare, "peak"),
    )
    return speed, commands, costs


def check_command(name: str, python: str, script: Path) -> Command:
    """`lintrain check` of one script, whatever it finds."""
    return Command(name, (python, "-m", "lintrain", "check", "--isolated", str(script)), codes=(0, 1))


def main() -> int:
    """Print the table and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", nargs="?", type=Path, default=SCRIPT)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    speed, commands, costs = measure_speed(options.script, options.rounds)
    print_table(commands, costs)
    print(f"\nagainst astroid.parse: {speed.times_astroid:.2f} times as long (at most {MOST_TIMES_ASTROID})")
    print(f"with torch installed: {speed.time_with_torch:.2f} times the CPU time, ", end="")
    print(f"{speed.memory_with_torch:.2f} times the memory (at most {MOST_WITH_TORCH})")
    for miss in speed.misses:
        print(f"missed: {miss}")
    return 1 if speed.misses else 0


if __name__ == "__main__":
    sys.exit(main())
