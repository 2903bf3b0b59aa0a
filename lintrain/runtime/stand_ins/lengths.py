"""How many rows the splits of a data set have that is not here: enough for what the script takes of them, and few."""

from __future__ import annotations

import re
from collections.abc import Mapping

LONGEST = 20_000
"""Rows of a split, few enough for a loop over all; a script that selects more gets more."""
TRAINED = 4_000
"""Rows of a split for training, unless the script's text has a larger number: they may be read one by one."""
SHORTER = 2_000
EVALUATED = 400
"""Rows of a split for evaluation that the script names no number of: some evaluate on all of them before they train."""
OF_MEDIA = 300
MOST_ASKED = 200_000
ASKED = re.compile(r"range\(\s*([\d_]+)\s*\)")
SAMPLED = re.compile(r"\bsample\([^()]*\bk\s*=\s*([\d_]+)\s*\)")
NUMBER = re.compile(r"(?<![\w.])\d[\d_]{3,6}(?![\w.])")
SPLIT = re.compile(r"(?i)train|test|val|dev|eval")
FOR_EVALUATION = re.compile(r"(?i)test|val|dev|eval")


def length(split: str) -> int:
    """The rows of a split of which nothing is known but its name."""
    return LONGEST if split.startswith("train") else SHORTER


def fitted(rows: Mapping[str, int], script: str, *, has_media: bool, is_known: bool) -> dict[str, int]:
    """The rows of each split, as many as the script takes of them; `is_known`: their names are the published ones."""
    selected, sampled = (
        max((min(int(each), MOST_ASKED) for each in pattern.findall(script)), default=0) for pattern in (ASKED, SAMPLED)
    )
    made = {**rows}
    # Only training splits grow: a script that selects 50,000 rows trains on them, and evaluates on few.
    if selected > LONGEST:
        made = {name: selected if name.startswith("train") else count for name, count in made.items()}
    if sampled > SHORTER and not is_known:  # splits with names of their own: `corpus`, `queries`
        made = {name: count if SPLIT.match(name) else max(count, sampled) for name, count in made.items()}
    # A script that takes a part of a split names its size; without a number it reads the whole of it.
    evaluated = max(EVALUATED, min(max(selected, sampled), SHORTER))
    made = {name: min(count, evaluated) if FOR_EVALUATION.match(name) else count for name, count in made.items()}
    # Whatever a number is for, a script that names 12,000 may take as many rows: too many cost only time.
    numbers = (int(each) for each in NUMBER.findall(script))
    trained = max((each for each in numbers if TRAINED < each <= LONGEST), default=TRAINED)
    most = OF_MEDIA if has_media else max(trained, selected, sampled)
    return {name: min(count, most) for name, count in made.items()}
