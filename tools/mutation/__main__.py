"""Change the code of rules or of the reader in small ways, one at a time, and see whether the tests notice.

    python -m tools.mutation [--quick] [--most N] [--seconds N] [rule …]
    python -m tools.mutation --reader [--most N] [--seconds N] [file …]

What is changed is what `check` and `fix` do; verdicts are tested on runs, which take too long for this. A mutant is
killed by its rule's page or samples, by the Good of any page or a correct script of the accuracy benchmark in which it
finds something, by a mistake of that benchmark, or by a test of the reader or of what runs show that names the rule:
`--quick` leaves these tests out, which take longest, and so kills a few less. What survives all of them is shown to the
type checker, at once at the end: a mutant that it complains of does not pass either, and is counted by itself.

With `--reader` files of lintrain/interpreter are changed in place of rules, by their names without `.py`: those that
read what every script has, where none is named. Such a mutant is killed by a test of the reader, a sample, a fixture
or an example of a page, of all those that run the changed function, the quickest first, for `--seconds` at most.

Prints a line for each rule or file, with how many the tests killed and how many the types, and each survivor; the exit
code is 1 where the share is too small. What is tried goes to the standard error.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from lintrain.rulebook import RuleFile, load_rules
from tools.mutation.outcome import MutationResult, chosen_mutants, report
from tools.mutation.reading import named_files, tests_of_reading, try_reader
from tools.mutation.swapping import loaded_rule, swapped
from tools.mutation.trials import TRIALS, Trial, killer_of

SECONDS = 20.0
"""How long the tests of one mutant of the reader may take."""


def try_rule(rule: RuleFile, most: int, trials: Mapping[str, Trial] = TRIALS) -> MutationResult:
    """What its page, its samples and the tests say of a rule's mutants."""
    if killer := killer_of(rule, trials):
        raise RuntimeError(f"{rule.name}: its {killer} complain of it as it is")
    code = loaded_rule(rule)
    outcome = MutationResult(rule.name, code, Counter(), [])
    for mutant in chosen_mutants(rule.name, code, most):
        with swapped(code, mutant):
            killer = killer_of(rule, trials)
        if killer:
            outcome.killers[killer] += 1
        else:
            outcome.survivors.append(mutant)
    return outcome


def main(words: Sequence[str]) -> int:
    """Print the table; whether too few were killed as an exit code."""
    options = _read_options(words)
    if options.reader:
        files, seconds = named_files(options.names), options.seconds or SECONDS
        return report(try_reader(files, options.most, seconds, tests_of_reading()))
    trials = {name: trial for name, trial in TRIALS.items() if name != "tests" or not options.quick}
    end, outcomes = time.monotonic() + (options.seconds or float("inf")), list[MutationResult]()
    for rule in load_rules():
        if not rule.reads_text or (options.names and not {rule.name, rule.stage} & {*options.names}):
            continue
        if time.monotonic() > end:
            break
        print(f"{rule.name} …", file=sys.stderr, flush=True)
        outcomes.append(try_rule(rule, options.most, trials))
    return report(outcomes)


def _read_options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="names of rules, or of their folders; all where none is given")
    parser.add_argument(
        "--reader", action="store_true", help="change files of lintrain/interpreter, which the names choose"
    )
    parser.add_argument("--most", type=int, default=25, help="mutants of one rule or file (25)")
    parser.add_argument("--seconds", type=float, help="start no further rule after this time; of the reader, see above")
    parser.add_argument("--quick", action="store_true", help="leave out the tests of the reader, which take longest")
    return parser.parse_args(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
