"""A clock that jumps, back or ahead, between two checks: a kept answer is never one of before a change."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lintrain.cache import whole_files
from lintrain.cache.runs import _needed
from lintrain.cache.watch import Watch
from lintrain.cache.whole_files import ABSENT, FILE, SECOND
from tests.test_cache import CHECK, TRAIN, Ask, ask, project

__all__ = ["ask", "project"]

DAY = 24 * 3600


@pytest.mark.parametrize("days", [-400, -1, 1, 400])
def test_no_jump_of_the_clock_gives_an_answer_of_before_a_change(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    uncached = ("check", "--no-cache", *CHECK[1:])
    first = ask()
    now, seconds = whole_files.NOW, time.time
    monkeypatch.setattr(whole_files, "NOW", lambda: now() + days * DAY * SECOND)
    monkeypatch.setattr(time, "time", lambda: seconds() + days * DAY)
    assert ask() == ask() == first
    for name in ("nothing", "anybody"):
        (project / "train.py").write_text(TRAIN.replace("nowhere", name))
        changed = whole_files.NOW()
        os.utime(project / "train.py", ns=(changed, changed))
        assert ask() == ask() == ask(*uncached)
        assert name in ask()[1]


@pytest.mark.parametrize(
    ("later", "is_whole", "is_spoilt"),
    [
        (-400 * DAY, False, True),  # the clock was put back since
        (-1, False, True),
        (0, False, True),
        (0.05, False, True),
        (0.2, False, False),
        (0.2, True, True),  # a file system that keeps two seconds
        (2.05, True, True),
        (2.2, True, False),
        (400 * DAY, False, False),
    ],
)
def test_a_file_that_may_change_again_within_a_tick_of_the_clock_vouches_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, later: float, *, is_whole: bool, is_spoilt: bool
) -> None:
    file = tmp_path / "train.py"
    file.touch()
    os.utime(file, ns=(SECOND, SECOND + (not is_whole)))
    changed = file.stat().st_ctime_ns
    monkeypatch.setattr(whole_files, "NOW", lambda: changed + int(later * SECOND))
    watch = Watch()
    watch.note(str(file))
    assert watch.is_spoilt == is_spoilt


def test_a_name_that_no_file_can_have_is_no_part_of_a_kept_answer() -> None:
    missing = os.fsencode(os.sep + "nowhere")
    looks = {(b"/a\0b", FILE): ABSENT, (missing, FILE): ABSENT}
    assert dict(_needed(looks)) == {missing: ABSENT}
