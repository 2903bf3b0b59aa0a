"""What became of the findings that were judged in fresh repositories: `python -m benchmarks.fresh CLONES`.

CLONES is a folder that holds clones as `owner/name`; those of `repositories.csv` are checked, with `--draw 2` and so
on those of a later draw, at the commits that it names. For each half and kind the command prints how many of the true,
debatable and false findings of `findings.csv` are still given, and how many findings nobody has judged; then how many
of the mistakes of `read.csv`, which a reviewer found, are reported. `--new FILE` writes the findings of the first half
that nobody has judged, ready to be filled in. The exit code is 1 when a clone is missing or at another commit, a file
crashes or runs out of its budget, or the share of true findings of a half is below the bound.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from benchmarks.fresh.table import (
    DEBATABLE,
    FALSE,
    FINDINGS,
    READ,
    TRUE,
    VERDICTS,
    draw,
    draws,
    is_about_versions,
    judgements_of,
    read_mistakes,
    tally,
)
from benchmarks.real_code import Judgement, Reading, commit_of, read_clone, write_new
from benchmarks.sight.clones import MEASURE, WORK, Repository, read_repositories

LEVELS = ("error", "warning", "note")
LEAST_TRUE = {"training": 0.95, "versions": 0.97}
KINDS: dict[str, Callable[[str], bool]] = {
    "training": lambda rule: not is_about_versions(rule),
    "versions": is_about_versions,
}


def read_repository(clones: Path, repository: Repository) -> Reading:
    """The findings of one clone; a trouble if it is not at the commit of the table."""
    folder = clones / repository.name
    found = commit_of(folder) if folder.is_dir() else ""
    if found != repository.commit:
        trouble = f"{repository.name}: at {found or 'no commit'}, not {repository.commit}"
        return Reading(repository.name, 0, (), (trouble,))
    return read_clone(clones, repository.name, ("--no-cache",), LEVELS)


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the clones, then print a table of each half."""
    given = _arguments(arguments)
    tables = draw(given.draw)
    repositories = [each for each in read_repositories(tables.repositories) if given.half in {"", each.half}]
    with ThreadPoolExecutor(given.jobs) as pool:
        readings = dict(zip(repositories, pool.map(partial(read_repository, given.clones), repositories), strict=True))
    halves = {half: [readings[each] for each in repositories if each.half == half] for half in (WORK, MEASURE)}
    kept = [print_half(half, some, tables.findings) for half, some in halves.items() if some]
    for half in WORK, MEASURE:
        print_read(half, halves[half], tables.read)
    if given.new:
        write_new(given.new, unjudged_in(halves[WORK], tables.findings))
    troubles = [trouble for reading in readings.values() for trouble in reading.troubles]
    for trouble in troubles:
        print(f"trouble: {trouble}", file=sys.stderr)
    return 0 if all(kept) and not troubles else 1


def _arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("--draw", type=int, choices=draws(), default=1, help="which draw of repositories")
    parser.add_argument("--half", choices=(WORK, MEASURE), default="", help="only the clones of this half")
    parser.add_argument("--new", type=Path, help="write the working half's findings without a judgement there")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(arguments)


def found_in(readings: Sequence[Reading]) -> list[Judgement]:
    """The findings of several clones, without what they say."""
    return [row for reading in readings for row, _ in reading.found]


def unjudged_in(readings: Sequence[Reading], table: Path = FINDINGS) -> list[tuple[Judgement, str]]:
    """The findings about training that nobody has judged, with what they say."""
    known = {each.claim for each in judgements_of((reading.repository for reading in readings), table)}
    rows = [(row, message) for reading in readings for row, message in reading.found]
    return [(row, message) for row, message in rows if row.claim not in known and not is_about_versions(row.rule)]


def print_half(half: str, readings: Sequence[Reading], table: Path = FINDINGS) -> bool:
    """One line on each kind of finding of a half; returns whether the shares of true ones keep their bounds."""
    judged, found = judgements_of((reading.repository for reading in readings), table), found_in(readings)
    print(f"{half}: {len(readings)} repositories, {sum(reading.files for reading in readings)} files")
    print(f"{'kind':10} {TRUE:>12} {DEBATABLE:>12} {FALSE:>12} {'share true':>12} {'unjudged':>9}")
    shares = {kind: _print_kind(kind, judged, found) for kind in KINDS}
    return all(share >= LEAST_TRUE[kind] for kind, share in shares.items())


def _print_kind(kind: str, judged: Sequence[Judgement], found: Sequence[Judgement]) -> float:
    counted = tally(*([each for each in some if KINDS[kind](each.rule)] for some in (judged, found)))
    kept = " ".join(f"{f'{counted.given[each]} of {counted.judged[each]}':>12}" for each in VERDICTS)
    print(f"{kind:10} {kept} {counted.share:12.1%} {counted.unjudged:9}")
    return counted.share


def print_read(half: str, readings: Sequence[Reading], table: Path = READ) -> None:
    """How many mistakes that a reviewer saw in the clones of a half are reported."""
    names, found = {reading.repository for reading in readings}, found_in(readings)
    mistakes = [each for each in read_mistakes(table) if each.repository in names]
    if mistakes:
        reported = sum(mistake.is_found(found) for mistake in mistakes)
        print(f"{half}, read by a reviewer: {reported} of {len(mistakes)} mistakes are reported")


if __name__ == "__main__":
    sys.exit(main())
