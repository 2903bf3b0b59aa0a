"""How often lintrain knows what rules ask for, in public training code: `python -m benchmarks.sight FOLDER …`.

A FOLDER holds clones as `owner/name`, and those of `repositories.csv` are read; a folder without any of them is read as
one clone. Every training script is read as `lintrain check` reads it. For each question the levels of what is known are
counted over locations (a call or a class) and as the mean over files, so that a large repository does not outweigh the
others. A location that several scripts reach counts once, with the reading that knows most of it. The second table
lists what makes the unknown values, by the number of files. The exit code is 1 if a script could not be read.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.sight.clones import MEASURE, WORK, Folder, folders_in
from benchmarks.sight.questions import QUESTIONS
from benchmarks.sight.readings import Answer, readings_of
from benchmarks.sight.summary import Clone, Maker, answers_of, makers_of, seconds_of, shares_of

CALLS = 30


def read_clone(folder: Folder) -> Clone:
    """Read every training script of a clone."""
    return Clone(folder.name, folder.half, tuple(readings_of(folder.path)), folder.trouble)


def read_clones(folders: Sequence[Folder], jobs: int) -> list[Clone]:
    """Read the clones by several processes; in this one if there is only one."""
    if len(folders) == 1:
        return [read_clone(folders[0])]
    with ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(read_clone, folders))


def troubles_of(clones: Sequence[Clone]) -> list[str]:
    """The scripts that could not be read, and the clones that are not at the commit of the table."""
    troubles = [f"{clone.name}: {clone.trouble}" for clone in clones if clone.trouble]
    readings = (reading for clone in clones for reading in clone.readings)
    return troubles + [f"{reading.path}: {reading.trouble}" for reading in readings if reading.trouble]


def document_of(clones: Sequence[Clone], calls: int) -> dict[str, Any]:
    """The measurement as plain data. Any: what JSON holds."""
    answers = answers_of(clones)
    makers = makers_of(answers)[:calls]
    return {
        "clones": len(clones),
        "seconds": asdict(seconds_of(clones)),
        "questions": {
            question.name: [asdict(share) for share in shares_of(question, answers)] for question in QUESTIONS
        },
        "calls": [{**asdict(maker), "example": _example_of(maker.example)} for maker in makers],
        "troubles": troubles_of(clones),
    }


def _example_of(answer: Answer) -> dict[str, Any]:
    made = answer.origin.location if answer.origin else None
    return {"location": str(answer.location), "code": answer.code[:100], "made": str(made or "")}


def print_report(clones: Sequence[Clone], calls: int) -> None:
    """The measurement as text."""
    answers, seconds = answers_of(clones), seconds_of(clones)
    print(f"{len(clones)} clones, {seconds.files} training scripts, {len(answers)} locations")
    print(f"\n{'question':36} {'locations':>9}   by level: share of locations / mean share over files")
    for question in QUESTIONS:
        shares = shares_of(question, answers)
        levels = (f"{share.level} {share.of_locations:.0%} / {share.of_files:.0%}" for share in shares)
        print(f"{question.name:36} {sum(share.locations for share in shares):9}   {', '.join(levels)}")
    print(f"\n{'files':>5} {'locations':>9}   what makes unknown values")
    for maker in makers_of(answers)[:calls]:
        print_maker(maker)
    print(
        f"\nCPU seconds: {seconds.total:.1f} for all, {seconds.median:.3f} in the median, "
        f"{seconds.p95:.3f} at p95, {seconds.most:.2f} at most"
    )
    for trouble in troubles_of(clones):
        print(f"trouble: {trouble}")


def print_maker(maker: Maker) -> None:
    """One line on what makes unknown values, and one on where."""
    questions = ", ".join(f"{question} {count}" for question, count in maker.questions.items())
    print(f"{maker.files:5} {maker.locations:9}   {maker.name}  [{maker.mechanism}; {questions}]")
    print(f"{'':18}{maker.example.location}: {maker.example.code[:70]}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Read the clones and print what is known."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--half", choices=(WORK, MEASURE), default="", help="only the clones of this half")
    parser.add_argument("--calls", type=int, default=CALLS, help="how many makers of unknown values are printed")
    parser.add_argument("--json", action="store_true", help="print a JSON document")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    folders = [folder for path in given.folders for folder in folders_in(path, given.half)]
    clones = read_clones(folders, given.jobs)
    if given.json:
        print(json.dumps(document_of(clones, given.calls), indent=2))
    else:
        print_report(clones, given.calls)
    return 1 if troubles_of(clones) else 0


if __name__ == "__main__":
    sys.exit(main())
