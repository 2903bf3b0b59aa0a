"""What lintrain says of training code that nobody here wrote: `python -m benchmarks.real_code CLONES [--new FILE]`.

CLONES is a folder that holds clones as `owner/name`. Every error and warning in them is compared with the judgements in
`real-code.csv`: made by opening the code; names and arguments that are gone by looking them up in the installed
packages, and code that does not parse by parsing it. The exit code is 1 when a file crashes or runs out of its
budget, a finding has no judgement, or the share of true findings is below the bound. `--new FILE` writes the findings
that have no judgement yet, ready to be filled in.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any

from lintrain.report.machine.compact import expanded_finding

JUDGEMENTS = Path(__file__).with_name("real-code.csv")
LEAST_TRUE = 0.95
JUDGED_LEVELS = ("error", "warning")
EXHAUSTED = "within the budget of one file"
QUESTION = (
    *("--isolated", "--no-respect-gitignore", "--exit-zero"),
    *("--verbose", "--output-format", "json"),
)


@dataclass(frozen=True, slots=True)
class Judgement:
    """One finding as it was judged: `verdict` is `true` or `false`, `why` says it in one line.

    In a notebook `line` counts the lines of the .ipynb file.
    """

    repository: str
    commit: str
    file: str
    line: int
    rule: str
    verdict: str = ""
    why: str = ""

    @property
    def claim(self) -> tuple[str, str, int, str]:
        """What is judged, whatever the verdict."""
        return self.repository, self.file, self.line, self.rule


@dataclass(frozen=True, slots=True)
class Reading:
    """What one clone gave: its files, its findings with what they say, and the troubles of reading it."""

    repository: str
    files: int
    found: tuple[tuple[Judgement, str], ...]
    troubles: tuple[str, ...]


def read_judgements(path: Path = JUDGEMENTS) -> list[Judgement]:
    """Every judgement of the table."""
    with path.open(newline="", encoding="utf-8") as table:
        return [_from_row(row) for row in csv.DictReader(table)]


def _from_row(row: dict[str, str]) -> Judgement:
    return Judgement(
        row["repository"], row["commit"], row["file"], int(row["line"]), row["rule"], row["verdict"], row["why"]
    )


def read_clone(
    clones: Path, repository: str, options: Sequence[str] = (), levels: Sequence[str] = JUDGED_LEVELS
) -> Reading:
    """Check every script and notebook of a clone, whatever its own configuration says."""
    folder = clones / repository
    command = [sys.executable, "-m", "lintrain", "check", *QUESTION, *options, "."]
    checked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if not checked.stdout:
        return Reading(repository, 0, (), (f"{repository}: {checked.stderr.strip()[-300:]}",))
    report: dict[str, Any] = json.loads(checked.stdout)  # Any: what JSON holds
    troubles = [
        f"{repository}/{crash['path']}: {crash['rule']}: {crash['error']}" for crash in report.get("crashes", ())
    ]
    troubles += [f"{repository}: {line}" for line in checked.stderr.splitlines() if EXHAUSTED in line]
    commit = commit_of(folder)
    found = tuple(
        (_judgement_of(entry, repository, commit), entry["message"])
        for entry in report["findings"]
        if entry["level"] in levels
    )
    return Reading(repository, report["summary"]["files"], found, tuple(troubles))


def _judgement_of(entry: dict[str, Any], repository: str, commit: str) -> Judgement:
    location = expanded_finding(entry, {})["location"]
    return Judgement(repository, commit, location["path"], location["file_line"], entry["rule"])


def commit_of(folder: Path) -> str:
    """The commit that a clone stands at, shortened."""
    told = subprocess.run(["git", "-C", str(folder), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return told.stdout.strip()[:12]


def clones_in(folder: Path) -> list[str]:
    """The clones of a folder as `owner/name`."""
    return sorted(f"{owner.name}/{name.name}" for owner in folder.iterdir() for name in owner.iterdir())


def write_new(path: Path, rows: Sequence[tuple[Judgement, str]]) -> None:
    """Write findings as rows of the table, with the message where the reason will stand."""
    with path.open("w", newline="", encoding="utf-8") as table:
        writer = csv.writer(table, lineterminator="\n")
        writer.writerow(field.name for field in fields(Judgement))
        for row, message in rows:
            writer.writerow([row.repository, row.commit, row.file, row.line, row.rule, "", message])


def main() -> int:
    """Print a line on each clone, then one on each rule."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clones", type=Path)
    parser.add_argument("repositories", nargs="*", help="owner/name; all clones by default")
    parser.add_argument("--new", type=Path, help="write the findings without a judgement there")
    parser.add_argument("--select", help="only these rules")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    judged = {judgement.claim: judgement for judgement in read_judgements()}
    extra = ["--select", given.select] if given.select else []
    with ThreadPoolExecutor(given.jobs) as pool:
        repositories = given.repositories or clones_in(given.clones)
        readings = list(pool.map(partial(read_clone, given.clones, options=extra), repositories))
    print_clones(readings, judged)
    unjudged = list(unjudged_in(readings, judged))
    share = print_rules(readings, judged)
    if given.new:
        write_new(given.new, unjudged)
    for trouble in (trouble for reading in readings for trouble in reading.troubles):
        print(f"trouble: {trouble}")
    troubled = any(reading.troubles for reading in readings)
    return 1 if troubled or unjudged or share < LEAST_TRUE else 0


def unjudged_in(
    readings: Sequence[Reading], judged: dict[tuple[str, str, int, str], Judgement]
) -> Iterator[tuple[Judgement, str]]:
    """The findings that the table says nothing of, at the commit that was judged or another."""
    for reading in readings:
        for row, message in reading.found:
            known = judged.get(row.claim)
            if known is None or known.commit != row.commit:
                yield row, message


def print_clones(readings: Sequence[Reading], judged: dict[tuple[str, str, int, str], Judgement]) -> None:
    """One line on each clone."""
    print(f"{'repository':46} {'files':>6} {'findings':>9} {'true':>6} {'false':>6} {'unjudged':>9}")
    for reading in readings:
        counts = Counter(_verdict(row, judged) for row, _ in reading.found)
        print(
            f"{reading.repository:46} {reading.files:6} {len(reading.found):9} {counts['true']:6} {counts['false']:6} "
            f"{counts['']:9}"
        )


def print_rules(readings: Sequence[Reading], judged: dict[tuple[str, str, int, str], Judgement]) -> float:
    """One line on each rule; returns the share of true findings among those that are judged."""
    verdicts = Counter((row.rule, _verdict(row, judged)) for reading in readings for row, _ in reading.found)
    print(f"\n{'rule':38} {'true':>6} {'false':>6} {'unjudged':>9}")
    for rule in sorted({rule for rule, _ in verdicts}):
        print(f"{rule:38} {verdicts[rule, 'true']:6} {verdicts[rule, 'false']:6} {verdicts[rule, '']:9}")
    true = sum(count for (_, verdict), count in verdicts.items() if verdict == "true")
    false = sum(count for (_, verdict), count in verdicts.items() if verdict == "false")
    share = true / (true + false) if true + false else 1.0
    print(f"\n{true} of {true + false} judged findings are true: {share:.1%}")
    return share


def _verdict(row: Judgement, judged: dict[tuple[str, str, int, str], Judgement]) -> str:
    known = judged.get(row.claim)
    return known.verdict if known and known.commit == row.commit else ""


if __name__ == "__main__":
    sys.exit(main())
