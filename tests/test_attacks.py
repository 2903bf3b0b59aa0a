"""The attacks that are quick enough for every run; `python -m tests.attacks` runs all of them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.attacks.attack import Attack, NotPossibleError, all_attacks

QUICK = [each for each in all_attacks().values() if not each.is_slow]


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the attacks are written for Linux")
@pytest.mark.parametrize("each", QUICK, ids=lambda each: each.name)
def test_promise_holds_under_attack(each: Attack, tmp_path: Path) -> None:
    try:
        each.run(tmp_path)
    except NotPossibleError as reason:
        pytest.skip(str(reason))
