"""Rewrite every script of the accuracy benchmark, with each mistake that fits into it, in every way there is.

    python -m tests.metamorphic [--way NAME] [--lost] [word …]

Words choose scripts whose path contains one of them. There are two kinds of ways. Some leave every finding as it is, on
its line: a line is printed for each script with a difference. Others write the same mistake in another form: they
should keep 95 % of the findings. The table has, for each way, the mutants that it fits, the findings that it keeps and
their share. `--lost` lists the findings that are lost.

What cannot be seen any more is in `known.toml`, what is rightly new in `expected.toml`, and what the forms lose and
gain today in `today.toml`. The exit code is 1 if there is more than that.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from benchmarks.accuracy.code import Code
from tests.metamorphic.comparing import TRANSFORMATIONS, differences
from tests.metamorphic.forms import FORMS, Measured, measure
from tests.metamorphic.records import expected_gains, known_losses, record, worse
from tests.metamorphic.running import run_sample
from tests.metamorphic.subjects import all_subjects, notebooks_as_scripts, plain_scripts

LEAST = 0.95
"""The share of findings that every form should keep."""


def main(words: Sequence[str]) -> int:
    """Print what differs and the tables; whether anything is worse than recorded, as an exit code."""
    options = _options(words)
    exact = [each.__name__ for each in TRANSFORMATIONS if options.way in each.__name__]
    forms = [each.__name__ for each in FORMS if options.way in each.__name__]
    if options.run:
        return int(not run_sample([each for each in FORMS if each.__name__ in forms], options.run))
    scripts = [code for code in plain_scripts() if _is_chosen(code, options.scripts)]
    notebooks = [code for code in notebooks_as_scripts() if _is_chosen(code, options.scripts)]
    with ProcessPoolExecutor(options.jobs) as pool:
        compared = [one for found in pool.map(partial(_compare, exact), scripts if exact else []) for one in found]
        measured = [one for found in pool.map(partial(_measure, forms), [*scripts, *notebooks]) for one in found]
    if options.record:
        record(measured)
    return int(not all([_print_compared(exact, compared), _print_measured(forms, measured, lists_lost=options.lost)]))


def _options(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scripts", nargs="*", metavar="word", help="only scripts whose path contains one of the words")
    parser.add_argument("--way", default="", metavar="NAME", help="only ways whose name contains this")
    parser.add_argument("--lost", action="store_true", help="list the findings that the other forms lose")
    parser.add_argument("--record", action="store_true", help="write `today.toml`: what the other forms lose")
    parser.add_argument("--run", type=int, default=0, metavar="N", help="run N scripts of each form for real instead")
    parser.add_argument("--jobs", type=int, default=2)
    return parser.parse_args(words)


def _is_chosen(code: Code, words: Sequence[str]) -> bool:
    return not words or any(word in code.path for word in words)


Compared = tuple[str, str, list[str]]
"""A way, a subject, and what differs in it."""


def _compare(ways: Sequence[str], code: Code) -> list[Compared]:
    chosen = [each for each in TRANSFORMATIONS if each.__name__ in ways]
    found = ((way.__name__, one.name, differences(one, way)) for one in all_subjects([code]) for way in chosen)
    return [(way, name, differing) for way, name, differing in found if differing is not None]


def _measure(ways: Sequence[str], code: Code) -> list[Measured]:
    return measure(code, [each for each in FORMS if each.__name__ in ways])


def _lost_rule(difference: str) -> str:
    """The rule of a lost finding; "" for one that was gained, which is never excused."""
    what, _, rest = difference.partition(": ")
    return rest.split()[0] if what == "lost" else ""


def _print_compared(ways: Sequence[str], compared: Iterable[Compared]) -> bool:
    """Print what differs, and how many were compared; whether nothing differs but what is known."""
    totals, differing, known, losses = Counter[str](), Counter[str](), Counter[str](), known_losses()
    for way, name, found in compared:
        totals[way] += 1
        if found and all(_lost_rule(each) in losses[way] for each in found):
            known[way] += 1
        elif found:
            differing[way] += 1
            _print(f"{way}: {name}: {'; '.join(found)}")
    for way in ways:
        _print(f"{way:36} {totals[way]:6} compared {differing[way]:6} differ {known[way]:6} known")
    return not any(differing.values())


def _print_measured(forms: Sequence[str], measured: Sequence[Measured], *, lists_lost: bool) -> bool:
    """Print what is lost and gained, and the share that each form keeps; whether none is worse than recorded."""
    known, expected = known_losses(), expected_gains()
    visible = [one for one in measured if one.rule and one.rule not in known[one.form]]
    if lists_lost:
        _print(*(f"lost: {one.form}: {one.rule}: {one.name}" for one in visible if not one.is_kept))
    for one in measured:
        if not one.rule and (gained := set(one.gained) - expected[one.form].keys()):
            _print(f"gained: {one.form}: {one.name}: {', '.join(sorted(gained))}")
    for form in forms:
        kept = [one.is_kept for one in visible if one.form == form]
        share = sum(kept) / len(kept) if kept else 1.0
        note = "" if share >= LEAST else f"  below {LEAST:.0%}"
        _print(f"{form:36} {len(kept):6} mutants {sum(kept):6} kept {share:7.1%}{note}")
    more = worse(measured)
    _print(*(f"worse than recorded: {each}" for each in more))
    return not more


def _print(*lines: str) -> None:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
