"""Rewrite every script of the accuracy benchmark, with each mistake that fits into it, in every way there is.

    python -m tests.metamorphic [word …]

Words choose scripts whose path, or rewritings whose name, holds one of them. Prints a line for each rewritten script of
which lintrain says something else, and the numbers at the end; the exit code is 1 where there is such a script. What
rules are known not to see once it is written otherwise stands in `known.toml`, and is only counted.
"""

from __future__ import annotations

import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from tests.metamorphic.comparing import TRANSFORMATIONS, Transformation, differences
from tests.metamorphic.subjects import all_subjects, plain_scripts


def chosen(words: Sequence[str]) -> tuple[Sequence[Transformation], Sequence[str]]:
    """The rewritings that the words ask for, all where they ask for none, and the words that are left."""
    asked = [each for each in TRANSFORMATIONS if any(word in each.__name__ for word in words)]
    names = [each.__name__ for each in asked]
    return asked or TRANSFORMATIONS, [word for word in words if not any(word in name for name in names)]


def known_losses() -> defaultdict[str, dict[str, str]]:
    """Why a rule is known not to see a mistake any more, by rewriting and rule."""
    text = Path(__file__).with_name("known.toml").read_text(encoding="utf-8")
    return defaultdict(dict, tomllib.loads(text))


def _lost_rule(difference: str) -> str:
    """The rule of a lost finding; "" for one that was gained, which is never excused."""
    what, _, rest = difference.partition(": ")
    return rest.split()[0] if what == "lost" else ""


def main(words: Sequence[str]) -> int:
    """Print what differs, and how many were compared; whether nothing differs as an exit code."""
    transformations, paths = chosen(words)
    compared, differing, known = Counter[str](), Counter[str](), Counter[str]()
    losses = known_losses()
    codes = [code for code in plain_scripts() if not paths or any(word in code.path for word in paths)]
    for subject in all_subjects(codes):
        for transformation in transformations:
            found = differences(subject, transformation)
            if found is not None:
                compared[transformation.__name__] += 1
            if found and all(each in losses[transformation.__name__] for each in map(_lost_rule, found)):
                known[transformation.__name__] += 1
            elif found:
                differing[transformation.__name__] += 1
                sys.stdout.write(f"{transformation.__name__}: {subject.name}: {'; '.join(found)}\n")
    for name, count in compared.items():
        sys.stdout.write(f"{name:20} {count:6} compared {differing[name]:6} differ {known[name]:6} known\n")
    return int(any(differing.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
