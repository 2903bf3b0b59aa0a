"""Change the rules' code in small ways, one at a time, and see whether their tests notice.

    python -m tools.mutation [--quick] [--most N] [--seconds N] [rule …]

What is changed is what `check` and `fix` do; verdicts are tested on runs, which take too long for this. A mutant is
killed by its rule's page or samples, by the Good of any page or a correct script of the accuracy benchmark in which it
finds something, by a mistake of that benchmark, or by a test of the reader that names the rule: `--quick` leaves these
tests out, which take longest, and so kills a few less.

Prints a line for each rule, with the share killed, and each survivor; the exit code is 1 where the share is too small.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

from lintrain.rulebook import RuleFile, load_rules
from tools.mutation.operators import Mutant, mutants_of
from tools.mutation.swapping import can_swap, swapped
from tools.mutation.trials import TRIALS, Trial, killer_of

LEAST_KILLED = 0.85
JUDGES = frozenset({"verify", "inspect"})


def chosen_mutants(rule: RuleFile, most: int) -> list[Mutant]:
    """At most so many mutants of a rule, the same ones every time, in the order of its text."""
    found = [
        each for each in mutants_of(rule.path.read_text(encoding="utf-8"), JUDGES) if can_swap(rule, each.function)
    ]
    ranked = sorted(found, key=lambda each: zlib.crc32(f"{rule.name} {each.line} {each.change}".encode()))[:most]
    return sorted(ranked, key=lambda each: each.line)


def try_rule(rule: RuleFile, most: int, trials: Mapping[str, Trial] = TRIALS) -> tuple[Counter[str], list[Mutant]]:
    """How many of its mutants were killed by what ("" by nothing), and the survivors."""
    if killer := killer_of(rule, trials):
        raise RuntimeError(f"{rule.name}: its {killer} complain of it as it is")
    killers, survivors = Counter[str](), list[Mutant]()
    for mutant in chosen_mutants(rule, most):
        with swapped(rule, mutant):
            killer = killer_of(rule, trials)
        killers[killer] += 1
        if not killer:
            survivors.append(mutant)
    return killers, survivors


def main(words: Sequence[str]) -> int:
    """Print the table; whether too few were killed as an exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", help="names of rules, or of their folders; all where none is given")
    parser.add_argument("--most", type=int, default=25, help="mutants of one rule (25)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further rule after this time")
    parser.add_argument("--quick", action="store_true", help="leave out the tests of the reader, which take longest")
    options = parser.parse_args(words)
    trials = {name: trial for name, trial in TRIALS.items() if name != "tests" or not options.quick}
    end, total = time.monotonic() + options.seconds, Counter[str]()
    for rule in load_rules():
        if not rule.reads_text or (options.rules and not {rule.name, rule.stage} & {*options.rules}):
            continue
        if time.monotonic() > end:
            break
        killers, survivors = try_rule(rule, options.most, trials)
        total += killers
        print(f"{rule.name:34} {killers.total() - killers['']:4} of {killers.total():4} killed", flush=True)
        for mutant in survivors:
            print(f"    {rule.path.name}:{mutant.line}: {mutant.change}", flush=True)
    killed = 1 - total[""] / max(total.total(), 1)
    print(f"{killed:.1%} of {total.total()} killed: " + ", ".join(f"{total[name]} by {name}" for name in total if name))
    return int(killed < LEAST_KILLED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
