"""Rewrite every script of the accuracy benchmark, with each mistake that fits into it, in every way there is.

    python -m tests.metamorphic [word …]

Words choose scripts whose path, or rewritings whose name, holds one of them. Prints a line for each rewritten script of
which lintrain says something else, and the numbers at the end; the exit code is 1 where there is such a script.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence

from tests.metamorphic.comparing import TRANSFORMATIONS, Transformation, differences
from tests.metamorphic.subjects import all_subjects, plain_scripts


def chosen(words: Sequence[str]) -> tuple[Sequence[Transformation], Sequence[str]]:
    """The rewritings that the words ask for, all where they ask for none, and the words that are left."""
    asked = [each for each in TRANSFORMATIONS if any(word in each.__name__ for word in words)]
    names = [each.__name__ for each in asked]
    return asked or TRANSFORMATIONS, [word for word in words if not any(word in name for name in names)]


def main(words: Sequence[str]) -> int:
    """Print what differs, and how many were compared; whether nothing differs as an exit code."""
    transformations, paths = chosen(words)
    compared, differing = Counter[str](), Counter[str]()
    codes = [code for code in plain_scripts() if not paths or any(word in code.path for word in paths)]
    for subject in all_subjects(codes):
        for transformation in transformations:
            found = differences(subject, transformation)
            if found is not None:
                compared[transformation.__name__] += 1
                differing[transformation.__name__] += bool(found)
            if found:
                sys.stdout.write(f"{transformation.__name__}: {subject.name}: {'; '.join(found)}\n")
    for name, count in compared.items():
        sys.stdout.write(f"{name:20} {count:6} compared {differing[name]:6} differ\n")
    return int(any(differing.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
