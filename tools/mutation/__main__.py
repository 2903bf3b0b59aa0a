"""Change the rules' code in small ways, one at a time, and see whether their tests notice.

    python -m tools.mutation [--quick] [--most N] [--seconds N] [rule …]

What is changed is what `check` and `fix` do; verdicts are tested on runs, which take too long for this. A mutant is
killed by its rule's page or samples, by the Good of any page or a correct script of the accuracy benchmark in which it
finds something, by a mistake of that benchmark, or by a test of the reader that names the rule: `--quick` leaves these
tests out, which take longest, and so kills a few less. What survives all of them is shown to the type checker, at once
at the end: a mutant that it complains of does not pass either, and is counted by itself.

Prints a line for each rule, with how many the tests killed and how many the types, and each survivor; the exit code is
1 where the share is too small. Which rule is tried goes to the standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from lintrain.rulebook import RuleFile, load_rules
from tools.mutation.operators import Mutant, mutants_of
from tools.mutation.swapping import can_swap, swapped
from tools.mutation.trials import TRIALS, Trial, killer_of
from tools.mutation.type_checks import mistyped

LEAST_KILLED = 0.85
TYPES = "types"
JUDGES = frozenset({"verify", "inspect"})


def chosen_mutants(rule: RuleFile, most: int) -> list[Mutant]:
    """At most so many mutants of a rule, the same ones every time, in the order of its text."""
    found = [
        each for each in mutants_of(rule.path.read_text(encoding="utf-8"), JUDGES) if can_swap(rule, each.function)
    ]
    ranked = sorted(found, key=lambda each: zlib.crc32(f"{rule.name} {each.line} {each.change}".encode()))[:most]
    return sorted(ranked, key=lambda each: each.line)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a rule's mutants: how many were killed by what, and who survived."""

    rule: RuleFile
    killers: Counter[str]
    survivors: list[Mutant]

    def __str__(self) -> str:
        total = self.killers.total() + len(self.survivors)
        killed = f"{self.killers.total() - self.killers[TYPES]:4} by tests {self.killers[TYPES]:4} by types"
        lines = [f"{self.rule.name:34} {killed} of {total:4}"]
        lines += [f"    {self.rule.path.name}:{mutant.line}: {mutant.change}" for mutant in self.survivors]
        return "\n".join(lines)


def try_rule(rule: RuleFile, most: int, trials: Mapping[str, Trial] = TRIALS) -> Outcome:
    """What its page, its samples and the tests say of a rule's mutants."""
    if killer := killer_of(rule, trials):
        raise RuntimeError(f"{rule.name}: its {killer} complain of it as it is")
    outcome = Outcome(rule, Counter(), [])
    for mutant in chosen_mutants(rule, most):
        with swapped(rule, mutant):
            killer = killer_of(rule, trials)
        if killer:
            outcome.killers[killer] += 1
        else:
            outcome.survivors.append(mutant)
    return outcome


def with_types(outcomes: Sequence[Outcome]) -> list[Outcome]:
    """The outcomes after the type checker has seen the survivors, all of them at once."""
    answers = iter(mistyped([(each.rule.path, mutant.tree) for each in outcomes for mutant in each.survivors]))
    seen: list[Outcome] = []
    for each in outcomes:
        survivors = [mutant for mutant in each.survivors if not next(answers)]
        killers = Counter(each.killers)
        killers[TYPES] = len(each.survivors) - len(survivors)
        seen.append(Outcome(each.rule, killers, survivors))
    return seen


def main(words: Sequence[str]) -> int:
    """Print the table; whether too few were killed as an exit code."""
    options = _read_options(words)
    trials = {name: trial for name, trial in TRIALS.items() if name != "tests" or not options.quick}
    end, outcomes = time.monotonic() + options.seconds, list[Outcome]()
    for rule in load_rules():
        if not rule.reads_text or (options.rules and not {rule.name, rule.stage} & {*options.rules}):
            continue
        if time.monotonic() > end:
            break
        print(f"{rule.name} …", file=sys.stderr, flush=True)
        outcomes.append(try_rule(rule, options.most, trials))
    outcomes = with_types(outcomes)
    print(*outcomes, sep="\n")
    killers = sum((each.killers for each in outcomes), Counter[str]())
    total = killers.total() + sum(len(each.survivors) for each in outcomes)
    killed = killers.total() / max(total, 1)
    print(f"{killed:.1%} of {total} killed: " + ", ".join(f"{many} by {name}" for name, many in killers.most_common()))
    return int(killed < LEAST_KILLED)


def _read_options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rules", nargs="*", help="names of rules, or of their folders; all where none is given")
    parser.add_argument("--most", type=int, default=25, help="mutants of one rule (25)")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no further rule after this time")
    parser.add_argument("--quick", action="store_true", help="leave out the tests of the reader, which take longest")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
