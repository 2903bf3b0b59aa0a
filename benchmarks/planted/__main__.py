"""Plant mistakes in clones of public code and count which are reported.

    python -m benchmarks.planted CLONES… [--half work|measure] [--operator NAME] [--missed] [--most N] [--json FILE]

CLONES are folders that hold clones as `owner/name` or `owner+name`; nothing in them is changed or run. The digest of a
repository's name puts it into one of two halves: misses of `work` may be opened while lintrain is changed, of `measure`
only the counts. `--operator` takes the name of an operator or of a group of them, and may be repeated. `--most` is the
number of places of one operator in each half, sampled over all repositories. `--missed` lists the places of `work` that
were not reported, `--json` writes one line for each place.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TextIO

from benchmarks.planted.clones import Clone, clones_in
from benchmarks.planted.counting import Checker, Counted, path_of
from benchmarks.planted.planting import Place, load_operators, places_in, planted_at
from benchmarks.planted.tables import Row, table
from benchmarks.sight.clones import MEASURE, WORK


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit code is 2 if no clone or no operator is found."""
    options = _parser().parse_args(arguments)
    clones = clones_in([Path(folder) for folder in options.clones], options.half)
    names = _chosen(options.operator)
    if not clones or not names:
        print("no clone in these folders" if names else "no operator of this name", file=sys.stderr)
        return 2
    with ExitStack() as open_files:
        out = open_files.enter_context(Path(options.json).open("w", encoding="utf-8")) if options.json else None
        rows = _counted(clones, names, options.most, options.jobs, out)
    print(table(rows, load_operators()))
    if options.missed:
        for row in sorted(rows, key=lambda row: (row.operator, row.place)):
            if not row.is_reported and row.half == WORK:
                print(f"{row.operator}: {row.place}{''.join(f'; {other}' for other in row.others)}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.planted", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("clones", nargs="+")
    parser.add_argument("--half", choices=(WORK, MEASURE), default="")
    parser.add_argument("--operator", action="append", default=[])
    parser.add_argument("--missed", action="store_true")
    parser.add_argument("--most", type=int, default=0)
    parser.add_argument("--json")
    parser.add_argument("--jobs", type=int, default=1)
    return parser


def _chosen(wanted: Sequence[str]) -> frozenset[str]:
    """The names of the operators: all, or those that are wanted by name or group."""
    return frozenset(
        operator.name for operator in load_operators() if not wanted or {operator.name, operator.group} & set(wanted)
    )


def _counted(clones: Sequence[Clone], names: frozenset[str], most: int, jobs: int, out: TextIO | None) -> list[Row]:
    """What became of the sampled mistakes in all clones."""
    rows: list[Row] = []
    with ProcessPoolExecutor(jobs) as pool:
        found = list(pool.map(partial(_places_of, names=names), clones))
        chosen = _sampled(clones, found, most)
        print(f"{sum(map(len, chosen))} places", file=sys.stderr)
        for number, counted in enumerate(pool.map(_rows_of, clones, chosen), start=1):
            rows += counted
            if out is not None:
                out.writelines(json.dumps(row.plain()) + "\n" for row in counted)
                out.flush()
            print(f"{number} of {len(clones)} repositories, {len(rows)} places", file=sys.stderr)
    return rows


def _places_of(clone: Clone, names: frozenset[str]) -> list[Place]:
    return places_in(clone, tuple(operator for operator in load_operators() if operator.name in names))


def _sampled(clones: Sequence[Clone], found: Sequence[Sequence[Place]], most: int) -> list[list[Place]]:
    """The first places of each operator and half, in the order of their digests."""
    by_kind: dict[tuple[str, str], list[Place]] = {}
    for clone, places in zip(clones, found, strict=True):
        for place in places:
            by_kind.setdefault((place.operator, clone.half), []).append(place)
    chosen = {place for places in by_kind.values() for place in sorted(places)[: most or None]}
    return [[place for place in places if place in chosen] for places in found]


def _rows_of(clone: Clone, places: Sequence[Place]) -> list[Row]:
    """What became of the mistakes planted in one clone."""
    checker = Checker(clone)
    return [_row(counted) for counted in map(checker.count, planted_at(clone, places))]


def _row(counted: Counted) -> Row:
    planted = counted.planted
    return Row(
        operator=planted.operator.name,
        half=planted.clone.half,
        place=planted.place,
        named=tuple(sorted({finding.rule for finding in counted.named})),
        others=tuple(_described(counted)),
        vanished=counted.vanished,
        is_exhausted=counted.is_exhausted,
    )


def _described(counted: Counted) -> Iterator[str]:
    clone = counted.planted.clone
    for finding in counted.others:
        yield f"{finding.rule} {path_of(finding, clone)}:{finding.location.line}"


if __name__ == "__main__":
    sys.exit(main())
