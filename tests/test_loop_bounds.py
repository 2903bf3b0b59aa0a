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


@pytest.mark.parametrize(("elapsed", "longest"), [(0.5, 1.0), (6.0, 1.8), (60.0, 4.0)])
def test_training_goes_on_for_a_share_of_the_time_before(
    monkeypatch: pytest.MonkeyPatch, elapsed: float, longest: float
) -> None:
    now = SimpleNamespace(perf_counter=lambda: 100.0, process_time=lambda: 5.0)
    monkeypatch.setattr(loop_state, "time", now)
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
    timers = list[float]()
    timer = SimpleNamespace(start=lambda: None)

    def start_later(seconds: float, _: object) -> SimpleNamespace:
        timers.append(seconds)
        return timer

    threading = SimpleNamespace(Timer=start_later)
    monkeypatch.setattr(loop_state, "threading", threading)
    bounds = Bounds(Counter())
    bounds.follow_on(lambda: None, elapsed)
    now.perf_counter = lambda: 100.0 + longest - 0.1
    assert not bounds.is_followed()
    now.perf_counter = lambda: 100.0 + longest + 0.1
    assert bounds.is_followed()
    assert timers == [pytest.approx(2 * longest)]
