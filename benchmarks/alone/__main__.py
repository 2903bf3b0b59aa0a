"""What runs of code of others show by themselves: `python -m benchmarks.alone CLONES [--half HALF] [--missed]`.

CLONES holds the clones of public repositories, `owner/name`. Each recipe of `recipes/` completes one piece of public
code so that it runs here; `lintrain probe` runs it, with its mistake and fixed, and the evidence is judged without what
the text shows. Of the half `measure` only sums are printed. The exit code is 1 when less than 75 % of the mistakes are
confirmed at their place, or something in a fixed twin is.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.accuracy.probing import Prober
from benchmarks.alone.judging import Judged, Result, judge_recipe
from benchmarks.alone.recipes import Half, read_recipes
from tools.build_fixtures import build

LEAST_CONFIRMED = 0.75


def main(arguments: Sequence[str] | None = None) -> int:
    """Probe what is asked for and print the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--half", choices=list(Half), type=Half, help="only these")
    parser.add_argument("--only", help="only recipes whose name contains this text")
    parser.add_argument("--missed", action="store_true", help="also list what is missed or false in the half work")
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args(arguments)
    recipes = [
        recipe for recipe in read_recipes() if given.half in (None, recipe.half) and (given.only or "") in recipe.name
    ]
    build()
    judged: list[Judged] = []
    with Prober(given.jobs) as prober, ThreadPoolExecutor(given.jobs) as pool:
        for each in pool.map(partial(judge_recipe, prober, clones=given.clones), recipes):
            judged.append(each)
            if given.missed and each.recipe.half is Half.WORK:
                print_one(each)
    print_sums(judged)
    return 0 if holds(judged) else 1


def print_one(judged: Judged) -> None:
    """One line for a mistake that is not confirmed, and one for each finding in its twin."""
    if judged.result is not Result.CONFIRMED:
        wanted = " ".join(sorted(judged.recipe.rules))
        print(f"{judged.result}: {judged.recipe.name}: {wanted}: {judged.said}", flush=True)
    for said in judged.false:
        print(f"false: {judged.recipe.name}: {said}", flush=True)


def holds(judged: Sequence[Judged]) -> bool:
    """Whether the bounds hold."""
    return _confirmed(judged) >= LEAST_CONFIRMED * len(judged) and not any(each.false for each in judged)


def print_sums(judged: Sequence[Judged]) -> None:
    """One line for each half and each kind of source, and one for all."""
    print("half     source   pieces  confirmed   share  misplaced  otherwise  missed  twins with findings")
    for half in (*Half, None):
        inside = [each for each in judged if half in (None, each.recipe.half)]
        for kind in (*sorted({_kind(each) for each in inside}), None):
            _print_line(half or "both", kind or "all", [each for each in inside if kind in (None, _kind(each))])


def _print_line(half: str, kind: str, judged: Sequence[Judged]) -> None:
    if judged:
        counts = {result: sum(each.result is result for each in judged) for result in Result}
        print(
            f"{half:8} {kind:8} {len(judged):6} {_confirmed(judged):10} {_confirmed(judged) / len(judged):7.1%} "
            f"{counts[Result.MISPLACED]:10} {counts[Result.OTHERWISE]:10} {counts[Result.MISSED]:7} "
            f"{sum(bool(each.false) for each in judged):9}"
        )


def _confirmed(judged: Iterable[Judged]) -> int:
    return sum(each.result is Result.CONFIRMED for each in judged)


def _kind(judged: Judged) -> str:
    return judged.recipe.name.partition("/")[0]


if __name__ == "__main__":
    sys.exit(main())
