"""Of every other quick attack one case at a commit; `python -m tests.attacks` runs all cases of all of them."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import pytest

from tests.attacks.attack import NotPossibleError, all_attacks
from tests.support.turns import set_turn, whose_turn


@cache
def quick_cases() -> dict[str, list[str]]:
    """The names of the quick attacks, those with many cases together."""
    cases: dict[str, list[str]] = {}
    for each in all_attacks().values():
        if not each.is_slow:
            cases.setdefault(each.name.partition(":")[0], []).append(each.name)
    return cases


def quick_ones(turn: str) -> list[str]:
    """The quick attacks that are made at a commit: a third of them, in one of their cases."""
    cases = quick_cases()
    made = whose_turn(cases, -(-len(cases) // 3), turn)
    return [name for attack in made for name in whose_turn(cases[attack], 1, turn)]


def test_a_third_of_the_attacks_is_made_at_a_commit_and_every_case_at_some() -> None:
    cases = quick_cases()
    attacks = [name.partition(":")[0] for name in quick_ones("1")]
    assert attacks == [name for name in cases if name in attacks]
    assert len(attacks) == -(-len(cases) // 3)
    made = {name for turn in range(500) for name in quick_ones(str(turn))}
    assert made == {name for alike in cases.values() for name in alike}


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the attacks are written for Linux")
@pytest.mark.parametrize("name", quick_ones(set_turn()))
def test_promise_holds_under_attack(name: str, tmp_path: Path) -> None:
    try:
        all_attacks()[name].run(tmp_path)
    except NotPossibleError as reason:
        pytest.skip(str(reason))
