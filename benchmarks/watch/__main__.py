"""`python -m benchmarks.watch`: failures that a watch finds, sound runs that it leaves alone, what it costs."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import lintrain
from benchmarks.watch import failing, failing_later, sound, sound_later, tasks
from benchmarks.watch.cost import show_cost
from benchmarks.watch.parts import Watch, torch
from lintrain.callbacks.own_loop import LOOPS
from lintrain.callbacks.reporting import MistakeWarning

HALVES = {"design": (0,), "measure": (1,), "later": (), "tasks": (), "all": (0, 1)}
"""Which of two runs in a row belong to a half; what was written later, and the other tasks, are parts of their own."""


def _of(half: str, runs: Sequence[Any], **parts: Sequence[Any]) -> list[Any]:
    chosen = [each for number, each in enumerate(runs) if number % 2 in HALVES[half]]
    return [*chosen, *(each for name, part in parts.items() if half in (name, "all") for each in part)]


def signs_of(run: Callable[[Watch], None], seed: int) -> list[str]:
    """What a watched run shows, in one line each."""
    torch.manual_seed(seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with suppress(ValueError):  # a policy of NaN: torch's distributions refuse it, one step after the loss
            run(lintrain.watch)
        LOOPS.finish()
    return [str(each.message).splitlines()[0] for each in caught if issubclass(each.category, MistakeWarning)]


def _kind(sign: str) -> str:
    """The kind of a sign; none for what a callback judges of the first steps."""
    return sign.partition("[")[2].partition("]")[0]


def judge_failing(half: str, *, details: bool) -> tuple[int, int]:
    """How many of the failing runs are found, and how many there are."""
    runs = _of(half, failing.RUNS, later=failing_later.RUNS, tasks=tasks.FAILING)
    found = 0
    for run, kinds in runs:
        signs = signs_of(run, 0)
        is_found = bool(kinds & {_kind(sign) for sign in signs})
        found += is_found
        if details:
            print(f"{'found' if is_found else 'MISSED'} {run.__name__}", *signs, sep="\n    ")
    return found, len(runs)


def judge_sound(half: str, *, seeds: int, details: bool) -> tuple[int, int]:
    """How many of the sound runs stay silent, and how many there are."""
    runs = _of(half, sound.RUNS, later=sound_later.RUNS, tasks=tasks.SOUND)
    silent = 0
    for run in runs:
        signs = [sign for seed in range(seeds) for sign in signs_of(run, seed)]
        silent += not signs
        if details:
            print(f"{'silent' if not signs else 'ALARM'} {run.__name__}", *signs, sep="\n    ")
    return silent, len(runs)


def main() -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--half", choices=HALVES, default="all")
    parser.add_argument("--details", action="store_true", help="name the runs of the half")
    parser.add_argument("--seeds", type=int, default=1, help="seeds of each sound run")
    parser.add_argument("--cost", action="store_true", help="measure time and memory instead")
    parser.add_argument("--pairs", type=int, default=5, help="pairs of runs for the cost")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="where the run for the cost trains")
    given = parser.parse_args()
    if given.cost:
        return show_cost(given.pairs, given.device)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        found, failures = judge_failing(given.half, details=given.details)
        silent, sounds = judge_sound(given.half, seeds=given.seeds, details=given.details)
        os.chdir("/")
    print(f"{given.half}: {found} of {failures} late failures found, {silent} of {sounds} sound runs silent")
    return int(found < failures or silent < sounds)


if __name__ == "__main__":
    sys.exit(main())
