"""A clock that jumps, back or ahead, between two checks: a kept answer is never one of before a change."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lintrain.cache import stamps
from lintrain.cache.stamps import SECOND
from tests.test_cache import CHECK, TRAIN, Ask, ask, project

__all__ = ["ask", "project"]

DAY = 24 * 3600


@pytest.mark.parametrize("days", [-400, -1, 1, 400])
def test_no_jump_of_the_clock_gives_an_answer_of_before_a_change(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    uncached = ("check", "--no-cache", *CHECK[1:])
    first = ask()
    now, seconds = stamps.NOW, time.time
    monkeypatch.setattr(stamps, "NOW", lambda: now() + days * DAY * SECOND)
    monkeypatch.setattr(time, "time", lambda: seconds() + days * DAY)
    assert ask() == ask() == first
    for name in ("nothing", "anybody"):
        (project / "train.py").write_text(TRAIN.replace("nowhere", name))
        changed = stamps.NOW()
        os.utime(project / "train.py", ns=(changed, changed))
        assert ask() == ask() == ask(*uncached)
        assert name in ask()[1]
