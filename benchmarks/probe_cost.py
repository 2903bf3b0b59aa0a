"""What `lintrain probe` costs beside the script's own imports: `python -m benchmarks.probe_cost [--rounds N]`.

The mended course script is probed on its tiny data and on 100,000 rows; the exit code is 1 when a bound is missed.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import ROOT, Command, Cost, interleaved, middle, print_table
from tools.build_fixtures import BUILT, offline_environment

SCRIPT = ROOT / "fixtures" / "course" / "mended.py"
MANY_ROWS = 100_000

MOST_SECONDS_BEYOND_IMPORTS = 3.0
MOST_TIMES_FOR_MANY_ROWS = 2.0


@dataclass(frozen=True, slots=True)
class ProbeCost:
    """Median wall seconds: the script's imports alone, a probe on tiny data, and one on 100,000 rows."""

    imports: float
    tiny: float
    many: float

    @property
    def misses(self) -> list[str]:
        """The bounds that were missed, in words."""
        beyond, times = self.tiny - self.imports, self.many / self.tiny
        missed: list[str] = []
        if beyond > MOST_SECONDS_BEYOND_IMPORTS:
            missed.append(f"{beyond:.1f} s beyond the script's imports, {MOST_SECONDS_BEYOND_IMPORTS} s at most")
        if times > MOST_TIMES_FOR_MANY_ROWS:
            missed.append(f"{times:.2f} times as long on {MANY_ROWS} rows, {MOST_TIMES_FOR_MANY_ROWS} at most")
        return missed


def imports_of(script: Path) -> str:
    """The import statements at the top of a script, as a program of their own."""
    statements = ast.parse(script.read_text()).body
    return "\n".join(ast.unparse(node) for node in statements if isinstance(node, ast.Import | ast.ImportFrom))


def measure_probe(script: Path, rounds: int) -> tuple[ProbeCost, list[Command], list[list[Cost]]]:
    """Run the three commands so many rounds, interleaved."""
    subprocess.run([sys.executable, "-m", "tools.build_fixtures"], cwd=ROOT, check=True)
    with tempfile.TemporaryDirectory(prefix="lintrain-probe-") as folder:
        large = Path(folder) / "assets"
        build = [sys.executable, "-m", "tools.build_fixtures", str(large), "--rows", str(MANY_ROWS)]
        subprocess.run(build, cwd=ROOT, check=True)
        commands = [
            Command("the script's imports", (sys.executable, "-c", imports_of(script)), Path(folder)),
            probe_command("probe, tiny data", script, BUILT, Path(folder)),
            probe_command(f"probe, {MANY_ROWS} rows", script, large, Path(folder)),
        ]
        costs = interleaved(commands, rounds)
    imports, tiny, many = (middle(mine).wall for mine in costs)
    return ProbeCost(imports, tiny, many), commands, costs


def probe_command(name: str, script: Path, assets: Path, folder: Path) -> Command:
    """`lintrain probe` of a script in a folder of its own, with the assets under the hub's names."""
    variables = offline_environment(assets) | {"PYTHONPATH": str(ROOT)}
    return Command(name, (sys.executable, "-m", "lintrain", "probe", "--quiet", str(script)), folder, variables)


def main() -> int:
    """Print the table and what was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script", nargs="?", type=Path, default=SCRIPT)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    cost, commands, costs = measure_probe(options.script.resolve(), options.rounds)
    print_table(commands, costs)
    print(f"\nbeyond the script's imports: {cost.tiny - cost.imports:.1f} s (at most {MOST_SECONDS_BEYOND_IMPORTS})")
    print(f"{MANY_ROWS} rows: {cost.many / cost.tiny:.2f} times as long (at most {MOST_TIMES_FOR_MANY_ROWS})")
    for miss in cost.misses:
        print(f"missed: {miss}")
    return 1 if cost.misses else 0


if __name__ == "__main__":
    sys.exit(main())
