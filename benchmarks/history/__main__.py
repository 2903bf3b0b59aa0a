"""How many mistakes that people fixed are reported before the fix and no longer after: `python -m benchmarks.history`.

`python -m benchmarks.history [CLONES]` reads clones from a folder that holds them as `owner/name`, by default from
`clones` beside the repository. Of the measuring half only sums are printed, so that nobody works on its rows. The exit
code is 1 when a clone lacks a commit or a bound is missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.history.judging import Outcome, judge
from benchmarks.history.table import Half, read_fixes

CLONES = Path(__file__).parents[2].parent / "clones"
LEAST_REPORTED = 0.75
LEAST_SILENT = 0.98
MOST_APART = 0.10
ALL = "all"


@dataclass(frozen=True, slots=True)
class Sums:
    """How many fixes there are, and how many of them lintrain reports before and not after."""

    fixes: int
    reported: int
    silent: int

    @property
    def shares(self) -> tuple[float, float]:
        """The shares of `reported` and `silent`; 1 where there is no fix."""
        fixes = self.fixes or 1
        return (self.reported / fixes, self.silent / fixes) if self.fixes else (1.0, 1.0)


def sums_of(outcomes: Sequence[Outcome]) -> Sums:
    """The sums over some fixes."""
    reported = sum(outcome.reported for outcome in outcomes)
    silent = sum(outcome.silent for outcome in outcomes)
    return Sums(len(outcomes), reported, silent)


def main() -> int:
    """Print the sums of both halves, then those of each kind of the working half."""
    given = _arguments()
    halves = tuple(Half) if given.half == ALL else (Half(given.half),)
    fixes = [fix for fix in read_fixes(tables=given.tables) if fix.half in halves]
    with ThreadPoolExecutor(given.jobs) as pool:
        outcomes = list(pool.map(partial(judge, clones=given.clones), fixes))
    halved = {half: [outcome for outcome in outcomes if outcome.fix.half is half] for half in halves}
    sums = {half.value: sums_of(some) for half, some in halved.items()}
    work = halved.get(Half.WORK, [])
    print(as_json(sums, work) if given.json else as_tables(sums, work))
    if given.missed:
        print("\n".join(missed(work)))
    troubles = [outcome.trouble for outcome in outcomes if outcome.trouble]
    for trouble in troubles:
        print(f"trouble: {trouble}", file=sys.stderr)
    return 1 if troubles or not holds(tuple(sums.values())) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path, nargs="?", default=CLONES)
    parser.add_argument("--half", choices=(*Half, ALL), default=ALL)
    parser.add_argument("--tables", default="a-z", help="the letters of the tables to read: `c`, `ab`")
    parser.add_argument("--json", action="store_true", help="print the sums and the working half's rows as JSON")
    parser.add_argument("--missed", action="store_true", help="list what the working half misses")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args()


def holds(sums: Sequence[Sums]) -> bool:
    """Whether each half keeps its bounds and the halves are close to each other."""
    reported = [some.shares[0] for some in sums]
    silent = [some.shares[1] for some in sums]
    enough = min(reported) >= LEAST_REPORTED and min(silent) >= LEAST_SILENT
    return enough and max(reported) - min(reported) <= MOST_APART


def by_kind(outcomes: Sequence[Outcome]) -> dict[str, Sums]:
    """The sums of each kind, in alphabetical order."""
    kinds = sorted({outcome.fix.kind for outcome in outcomes})
    return {kind: sums_of([outcome for outcome in outcomes if outcome.fix.kind == kind]) for kind in kinds}


def as_tables(sums: dict[str, Sums], work: Sequence[Outcome]) -> str:
    """One line on each half, then one on each kind of the working half."""
    lines = [_head("half"), *(_line(name, some) for name, some in sums.items())]
    if work:
        lines += ["", _head("kind"), *(_line(name, some) for name, some in by_kind(work).items())]
    return "\n".join(lines)


def _head(first: str) -> str:
    return f"{first:14} {'fixes':>6} {'reported before':>18} {'silent after':>18}"


def _line(name: str, sums: Sums) -> str:
    reported, silent = sums.shares
    return f"{name:14} {sums.fixes:6} {sums.reported:9} ({reported:6.1%}) {sums.silent:9} ({silent:6.1%})"


def as_json(sums: dict[str, Sums], work: Sequence[Outcome]) -> str:
    """The sums, those of the kinds, and what became of each row of the working half."""
    kinds = {kind: _as_numbers(some) for kind, some in by_kind(work).items()}
    halves = {half: _as_numbers(some) for half, some in sums.items()}
    return json.dumps({"halves": halves, "kinds": kinds, "fixes": [_as_row(outcome) for outcome in work]}, indent=2)


def _as_row(outcome: Outcome) -> dict[str, str | bool]:
    return {
        "repository": outcome.fix.repository,
        "commit": outcome.fix.commit,
        "kind": outcome.fix.kind,
        "reported": outcome.reported,
        "silent": outcome.silent,
    }


def _as_numbers(sums: Sums) -> dict[str, int]:
    return {"fixes": sums.fixes, "reported": sums.reported, "silent": sums.silent}


def missed(outcomes: Sequence[Outcome]) -> list[str]:
    """A line on each fix that is not reported before, or still reported after."""
    wrong = (outcome for outcome in outcomes if not (outcome.reported and outcome.silent))
    return [_told(outcome) for outcome in wrong]


def _told(outcome: Outcome) -> str:
    fix = outcome.fix
    place = fix.places[0]
    what = "not reported" if not outcome.reported else "still reported after the fix"
    rules = ", ".join(sorted(fix.rules))
    return f"{fix.repository}@{fix.commit} {place.file}:{place.line}: {rules}: {what}: {fix.why}"


if __name__ == "__main__":
    sys.exit(main())
