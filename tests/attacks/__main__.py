"""Run the attacks on lintrain's promises, each in a folder of its own.

    python -m tests.attacks [--list] [WORD ...]

A word chooses attacks whose name, module or promise contains it; with none, all are run. Prints a line for each attack,
and a last one with the numbers; ends with 1 if a promise did not hold.
"""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.attacks.attack import Attack, NotPossibleError, all_attacks

HELD, NOT_POSSIBLE, BROKEN = "held", "not possible here", "BROKEN"


def main(words: Sequence[str]) -> int:
    """Run the chosen attacks, and give the number of promises that did not hold."""
    chosen = [each for each in all_attacks().values() if not words or any(_contains(each, word) for word in words)]
    outcomes = {HELD: 0, NOT_POSSIBLE: 0, BROKEN: 0}
    for each in chosen:
        started = time.monotonic()
        outcome, why = carry_out(each)
        outcomes[outcome] += 1
        sys.stdout.write(f"{outcome:8} {each.promise}  {each.name}  {time.monotonic() - started:.1f} s\n{why}")
        sys.stdout.flush()
    numbers = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.items())
    sys.stdout.write(f"{len(chosen)} attacks: {numbers}\n")
    return outcomes[BROKEN]


def carry_out(each: Attack) -> tuple[str, str]:
    """Run one attack, and give the outcome with the text that explains it."""
    with tempfile.TemporaryDirectory(prefix="lintrain-attack-", ignore_cleanup_errors=True) as folder:
        try:
            each.run(Path(folder).resolve())
        except NotPossibleError as reason:
            return NOT_POSSIBLE, f"  {reason}\n"
        except Exception:  # noqa: BLE001 - whatever an attack raises, the others are run
            return BROKEN, traceback.format_exc()
    return HELD, ""


def _contains(each: Attack, word: str) -> bool:
    return word in each.name or word in each.module or word in each.promise


def list_attacks() -> None:
    """Print every attack with the promise that it is made on."""
    for each in all_attacks().values():
        sys.stdout.write(f"{each.promise}  {each.name}{'  (slow)' if each.is_slow else ''}\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        list_attacks()
    else:
        sys.exit(bool(main(sys.argv[1:])))
