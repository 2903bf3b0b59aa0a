"""What lintrain finds in the samples of PYSIASSIST: `python -m benchmarks.pysiassist CLONE [--half HALF] [--missed]`.

CLONE is a clone of Hong-Shuo/PYSIASSIST. Its samples are checked as they are stored, pieces of scripts as people paste
them, and compared with the judgements in `samples.csv`. Of the half `measure` only sums are printed. The exit code is 1
when less than 75 % of the visible mistakes are found, or a finding in a sample that is labelled correct is false.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.pysiassist.checking import check_codes, read_codes
from benchmarks.pysiassist.counting import Outcome, Sums, all_sums, judge_all
from benchmarks.pysiassist.samples import JUDGEMENTS, read_samples

LEAST_FOUND = 0.75
HALVES = ("work", "measure")
SHOWN = "work"
"""The half whose samples may be named."""


def main(arguments: Sequence[str] | None = None, table: Path = JUDGEMENTS) -> int:
    """Print the sums, and on request the misses."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clone", type=Path)
    parser.add_argument("--half", choices=HALVES, help="only these samples")
    parser.add_argument(
        "--missed", action="store_true", help="also list what is missed and what is false in the half work"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    given = parser.parse_args(arguments)
    samples = [sample for sample in read_samples(table) if given.half in (None, sample.half)]
    outcomes = judge_all(samples, check_codes(read_codes(given.clone, samples)))
    sums = all_sums(outcomes)
    listed = [outcome for outcome in outcomes if given.missed and outcome.sample.half == SHOWN]
    if given.json:
        print(json.dumps({"sums": [_plain(line) for line in sums], "samples": [_entry(each) for each in listed]}))
    else:
        print_sums(sums)
        print_missed(listed)
    return 0 if all(holds(line) for line in sums) else 1


def holds(sums: Sums) -> bool:
    """Whether the bounds hold for a line of the result."""
    return sums.share >= LEAST_FOUND if sums.label == "mistake" else not sums.false


def _plain(sums: Sums) -> dict[str, Any]:  # Any: what JSON holds
    return {**asdict(sums), "share": round(sums.share, 3)}


def _entry(outcome: Outcome) -> dict[str, Any]:  # Any: as above
    return {
        "path": outcome.sample.path,
        "visible": outcome.sample.visible,
        "found": outcome.is_found,
        "false": [asdict(each) for each in outcome.false],
        "about_the_text": [asdict(each) for each in outcome.about_the_text],
    }


def print_sums(lines: Iterable[Sums]) -> None:
    """One line for each half and label."""
    print("half     labelled  samples  visible  found   share  false  names, syntax")
    for line in lines:
        share = f"{line.share:.1%}" if line.visible else "-"
        print(
            f"{line.half:8} {line.label:9} {line.samples:7} {line.visible:8} {line.found:6} {share:>7} "
            f"{line.false:6} {line.about_the_text:14}"
        )


def print_missed(outcomes: Iterable[Outcome]) -> None:
    """One line for each visible mistake that is missed and each finding that is false."""
    for outcome in outcomes:
        sample = outcome.sample
        if outcome.is_missed:
            print(f"missed: {sample.path}:{sample.line}: {sample.rule}: {sample.why}")
        for each in outcome.false:
            print(f"false: {sample.path}:{each.line}: {each.rule}: {each.message}")


if __name__ == "__main__":
    sys.exit(main())
