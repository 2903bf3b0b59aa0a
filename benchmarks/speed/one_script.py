"""How quick `lintrain check` is on one script: beside `astroid.parse` of it, and with torch installed or not."""

from __future__ import annotations

import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

from benchmarks.light import make_light_environment
from benchmarks.measure import ROOT, Command, Cost, interleaved, middle, paired_ratio
from benchmarks.speed.bounds import Bound

SCRIPT = ROOT / "fixtures" / "speed" / "functions_150.py"
"""Sets no attribute: at every `x.y = …` astroid reads installed libraries for half a minute, which would flatter us."""

PARSE = "import astroid, sys; astroid.parse(open(sys.argv[1]).read())"

PLAIN = "import os\n\nprint(os.getcwd())\n"

MOST_TIMES_ASTROID = 1.5
MOST_PLAIN = 60.0
MOST_WITH_TORCH = 1.1


@dataclass(frozen=True, slots=True)
class Speed:
    """Medians of paired runs: how many times the cost of astroid's parse, and of a machine without torch."""

    times_astroid: float
    time_with_torch: float
    memory_with_torch: float

    plain: float
    """CPU milliseconds of a file that holds no run, in a fresh process."""

    @property
    def bounds(self) -> tuple[Bound, ...]:
        """These beside what they have to reach."""
        return (
            Bound("one script against astroid.parse", self.times_astroid, most=MOST_TIMES_ASTROID),
            Bound("one script that holds no run", self.plain, "ms", most=MOST_PLAIN),
            Bound("with torch installed against without, CPU", self.time_with_torch, most=MOST_WITH_TORCH),
            Bound("with torch installed against without, memory", self.memory_with_torch, most=MOST_WITH_TORCH),
        )


def measure_speed(script: Path, rounds: int) -> tuple[Speed, list[Command], list[list[Cost]]]:
    """Run the three commands so many rounds, interleaved."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    with tempfile.TemporaryDirectory(prefix="lintrain-speed-") as folder:
        light = make_light_environment(Path(folder) / "venv", project["dependencies"])
        commands = [check_command("lintrain check, torch installed", sys.executable, script)]
        commands.append(check_command("lintrain check, no torch", str(light), script))
        plain = Path(folder) / "plain.py"
        plain.write_text(PLAIN)
        commands.append(check_command("lintrain check, no run in the file", sys.executable, plain))
        commands.append(Command("astroid.parse", (sys.executable, "-c", PARSE, str(script))))
        costs = interleaved(commands, rounds)
    here, bare, without_run, parse = costs
    speed = Speed(
        times_astroid=paired_ratio(here, parse, "cpu"),
        time_with_torch=paired_ratio(here, bare, "cpu"),
        memory_with_torch=paired_ratio(here, bare, "peak"),
        plain=1000 * middle(without_run).cpu,
    )
    return speed, commands, costs


def check_command(name: str, python: str, script: Path) -> Command:
    """`lintrain check` of one script, whatever it finds."""
    return Command(name, (python, "-m", "lintrain", "check", "--isolated", "--no-cache", str(script)), codes=(0, 1))
