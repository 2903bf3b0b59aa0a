"""How long a loop of the script's own is followed."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest

from lintrain.runtime.frameworks.loop import loop_state
from lintrain.runtime.frameworks.loop.loop_state import SECONDS, SHARE, Bounds


@pytest.mark.parametrize(
    ("passed", "computed", "is_late"),
    [
        (SECONDS + 1, SECONDS + 1, True),
        (SECONDS + 1, 8 * SECONDS, True),
        (SECONDS + 1, SECONDS / 2, False),
        (SECONDS * SHARE + SHARE, 0.0, True),
        (SECONDS - 1, 8 * SECONDS, False),
    ],
)
def test_seconds_of_other_programs_do_not_count(
    monkeypatch: pytest.MonkeyPatch, passed: float, computed: float, *, is_late: bool
) -> None:
    now = SimpleNamespace(perf_counter=lambda: 100.0, process_time=lambda: 5.0)
    monkeypatch.setattr(loop_state, "time", now)
    bounds = Bounds(Counter())
    bounds.start()
    now.perf_counter, now.process_time = lambda: 100.0 + passed, lambda: 5.0 + computed
    assert bounds.is_late() is is_late
