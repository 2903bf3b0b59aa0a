"""Give lintrain inputs that nobody would write.

    python -m tests.fuzz [--inputs 100000] [--seed 0] [--jobs 2] [--first 0]
    python -m tests.fuzz --only NUMBER [--seed 0]
    python -m tests.fuzz --tree FOLDER | stdlib | site-packages

Prints a line for each kind of fault, with the command that shows it again, keeps the smallest file that still fails in
`--keep`, and ends with the numbers; the exit code is 1 where there is a fault. Inputs change with the pages of rules.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections import Counter
from functools import partial
from pathlib import Path

from lintrain.check import one_file
from lintrain.check.result import Crash
from tests.fuzz import seeds
from tests.fuzz.inputs import Input, make_input
from tests.fuzz.running import Make, run
from tests.fuzz.trees import files_of, input_of
from tests.fuzz.trial import Result, rules, smaller, tried

PROGRESS = 5_000


class Count:
    """What all results come to."""

    def __init__(self) -> None:
        self.results = 0
        self.faults: dict[str, list[int]] = {}
        self.fired, self.refusals = Counter[str](), Counter[str]()
        self.read = self.exhausted = self.mended = self.unwritable = 0
        self.seconds, self.slowest = 0.0, (0.0, 0)

    def add(self, number: int, result: Result) -> None:
        """Count one result."""
        self.results += 1
        self.fired.update(result.rules)
        self.refusals.update([result.refusal.partition(" ")[0]] if result.refusal else [])
        self.read += result.was_read
        self.exhausted += result.is_exhausted
        self.mended += result.mended
        self.unwritable += result.unwritable
        self.seconds += result.seconds
        self.slowest = max(self.slowest, (round(result.seconds, 2), number))
        for fault in result.faults:
            self.faults.setdefault(fault, []).append(number)

    def numbers(self, count: int) -> dict[str, object]:
        """The numbers at the end."""
        silent = sorted({rule.name for rule in rules()} - set(self.fired))
        return {
            "inputs": self.results,
            "lost": count - self.results,
            "faults": sum(map(len, self.faults.values())),
            "kinds_of_faults": len(self.faults),
            "refused": self.refusals.total(),
            "read_by_the_rules": self.read,
            "out_of_steps": self.exhausted,
            "rules_heard": len({rule.name for rule in rules()} & set(self.fired)),
            "rules_silent": silent,
            "mended": self.mended,
            "fixes_not_writable": self.unwritable,
            "cpu_seconds": round(self.seconds, 1),
            "slowest": self.slowest,
        }


def fault_line(number: int, fault: str, again: str) -> str:
    """The line of a fault."""
    return json.dumps({"number": number, "fault": fault[:400], "again": again}, ensure_ascii=True) + "\n"


def go(make: Make, count: int, jobs: int, first: int, again: str, keep: Path) -> int:
    """Try the inputs, and tell of those that are faults; the number of these."""
    counted = Count()
    started = time.monotonic()
    for number, result in run(make, count, jobs, first):
        known = set(counted.faults)
        counted.add(number, result)
        if counted.results % PROGRESS == 0:
            sys.stderr.write(f"{counted.results} inputs, {len(counted.faults)} kinds of faults\n")
        for fault in result.faults:
            if fault not in known:
                sys.stdout.write(fault_line(number, fault, again.format(number)))
                sys.stdout.flush()
    for fault, numbers in counted.faults.items():
        if not fault.startswith(("the process", "no answer", "over")):
            keep_smallest(make(numbers[0]), numbers[0], fault, keep)
    closing = counted.numbers(count) | {"seconds": round(time.monotonic() - started, 1)}
    sys.stdout.write(json.dumps(closing) + "\n")
    return len(counted.faults)


def keep_smallest(given: Input, number: int, fault: str, keep: Path) -> None:
    """Write the smallest input with the same fault, up to its first colon."""
    kind = fault.split(":")[0]

    def fails(other: Input) -> bool:
        return any(each.startswith(kind) for each in tried(other, form=number).faults)

    if fails(given):
        folder = keep / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / given.name).write_bytes(smaller(given, fails).raw)
        (folder / "fault.txt").write_text(f"{fault}\n", encoding="utf-8", errors="replace")


def show(given: Input, number: int) -> int:
    """One input with what comes of it, and the way to the error in lintrain."""
    sys.stdout.buffer.write(given.raw)
    sys.stdout.flush()
    one_file.__dict__["Crash"] = _loud(Crash)
    result = tried(given, form=number)
    sys.stdout.write(f"\n{result}\n")
    return int(bool(result.faults))


def _loud(crash: type) -> object:
    def crashed(*told: str) -> object:
        traceback.print_exc()
        return crash(*told)

    return crashed


def main() -> int:
    """Do what the words ask for; the exit code."""
    words = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    words.add_argument("--inputs", type=int, default=100_000)
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--jobs", type=int, default=2)
    words.add_argument("--first", type=int, default=0)
    words.add_argument("--only", type=int)
    words.add_argument("--tree", action="append", default=[])
    words.add_argument("--keep", type=Path, default=seeds.ROOT / "build" / "fuzz")
    asked = words.parse_args()
    if asked.tree:
        files = files_of(asked.tree)
        again = "python -m tests.fuzz " + " ".join(f"--tree {tree}" for tree in asked.tree) + " --only {}"
        make, count = partial(input_of, files), len(files)
    else:
        again = f"python -m tests.fuzz --seed {asked.seed} --only {{}}"
        make, count = partial(make_input, asked.seed), asked.inputs
    if asked.only is not None:
        return show(make(asked.only), asked.only)
    make(0), tried(make(0))  # what all processes need is loaded once
    return int(go(make, count, asked.jobs, asked.first, again, asked.keep) > 0)


if __name__ == "__main__":
    sys.exit(main())
