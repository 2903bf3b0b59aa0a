"""How quick lintrain is: `python -m benchmarks.speed [FOLDER] [--tools BIN] [--rounds N] [--part NAME …]`.

FOLDER holds public training code (clones); without one the installed libraries of training are read, which anyone has.
The parts: one `script` (beside `astroid.parse`, and in an environment without torch), the whole `tree` (cold, warm,
the floor, ruff), the tree after the `change` of one file, a `sample` that the slower linters of `--tools` read too
(`pip install torchfix fixit pylint semgrep` into an environment: its `bin`), the `notebooks` alone, and `growth`: 1,000
to 1,000,000 lines, with `--plot FILE` as a picture. All are medians over rounds, ratios over pairs; the exit code is 1
when a bound is missed.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.measure import print_table
from benchmarks.speed.bounds import Bound, conclude
from benchmarks.speed.corpus import Corpus, installed_code, read_corpus
from benchmarks.speed.growth import measure_growth
from benchmarks.speed.one_script import SCRIPT, measure_speed
from benchmarks.speed.trees import measure_change, measure_notebooks, measure_sample, measure_tree

PARTS = ("script", "tree", "change", "sample", "notebooks", "growth")


def main() -> int:
    """Measure the parts and print what they came to."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--tools", type=Path, help="where the programs of other linters lie")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--part", action="append", choices=PARTS, help="only these")
    parser.add_argument("--plot", type=Path, help="where the picture of the growth is written")
    given = parser.parse_args()
    parts: Sequence[str] = given.part or PARTS
    with tempfile.TemporaryDirectory(prefix="lintrain-speed-") as work:
        return conclude(measure(parts, given, Path(work)))


def measure(parts: Sequence[str], given: argparse.Namespace, work: Path) -> Iterator[Bound]:
    """The bounds of the parts that are asked for, measured one after the other."""
    if "script" in parts:
        yield from measure_script(given.rounds)
    if set(parts) == {"script"}:
        return
    corpus = corpus_of(given.folder, work)
    if "tree" in parts:
        yield from measure_tree(corpus, given.rounds, work)
    if "change" in parts:
        yield from measure_change(corpus, given.rounds, work)
    if "sample" in parts:
        yield from measure_sample(corpus, given.tools.absolute() if given.tools else None, given.rounds, work)
    if "notebooks" in parts:
        yield from measure_notebooks(corpus, given.rounds, work)
    if "growth" in parts:
        yield from measure_growth(corpus, given.rounds, work, given.plot)


def measure_script(rounds: int) -> Iterator[Bound]:
    """One script in a fresh process."""
    speed, commands, costs = measure_speed(SCRIPT, rounds)
    print(f"{SCRIPT.name}")
    print_table(commands, costs)
    yield from speed.bounds


def corpus_of(folder: Path | None, work: Path) -> Corpus:
    """The folder's code, or that of the installed libraries."""
    if folder:
        return read_corpus(folder.resolve())
    libraries = work / "libraries"
    libraries.mkdir()
    return read_corpus(installed_code(libraries))


if __name__ == "__main__":
    sys.exit(main())
