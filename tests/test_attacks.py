"""The quick attacks, up to two cases of each; `python -m tests.attacks` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.attacks.attack import Attack, NotPossibleError, all_attacks

MOST_CASES = 2


def quick_ones() -> list[Attack]:
    """The quick attacks; of one with many cases the first and the last."""
    cases: dict[str, list[Attack]] = {}
    for each in all_attacks().values():
        if not each.is_slow:
            cases.setdefault(each.name.partition(":")[0], []).append(each)
    return [each for alike in cases.values() for each in spread(alike)]


def spread(alike: list[Attack]) -> list[Attack]:
    if len(alike) <= MOST_CASES:
        return alike
    return [alike[index * (len(alike) - 1) // (MOST_CASES - 1)] for index in range(MOST_CASES)]


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the attacks are written for Linux")
@pytest.mark.parametrize("each", quick_ones(), ids=lambda each: each.name)
def test_promise_holds_under_attack(each: Attack, tmp_path: Path) -> None:
    try:
        each.run(tmp_path)
    except NotPossibleError as reason:
        pytest.skip(str(reason))
