"""How long a loop of the script's own is followed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from lintrain.runtime.frameworks.loop import loop_state
from lintrain.runtime.frameworks.loop.loop_state import LEAST_PASSES_ON, SECONDS, SHARE, Bounds


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
    monkeypatch.setattr(loop_state, "queued", lambda: 0.0)
    bounds = Bounds(Counter())
    bounds.start()
    now.perf_counter, now.process_time = lambda: 100.0 + passed, lambda: 5.0 + computed
    assert bounds.is_late() is is_late


class Timers:
    """Timers that are called by hand, on a clock of their own: how long each waits, and what it calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.passed = self.computed = self.queued = 0.0
        self.waits = list[float]()
        self.calls = list[Callable[[], None]]()
        clocks = SimpleNamespace(perf_counter=lambda: 100.0 + self.passed, process_time=lambda: 5.0 + self.computed)
        monkeypatch.setattr(loop_state, "time", clocks)
        monkeypatch.setattr(loop_state, "queued", lambda: 3.0 + self.queued)
        monkeypatch.setattr(loop_state, "threading", SimpleNamespace(Timer=self._start_later))

    def _start_later(self, seconds: float, function: Callable[[], None]) -> SimpleNamespace:
        self.waits.append(seconds)
        self.calls.append(function)
        return SimpleNamespace(start=lambda: None)


@pytest.mark.parametrize(
    ("elapsed", "stand_ins", "longest"),
    [(0.5, [], 1.0), (6.0, [], 1.8), (60.0, [], 4.0), (6.0, ["gpt2"], 1.8), (30.0, ["gpt2"], 9.0), (60.0, ["a"], 12.0)],
)
def test_training_goes_on_for_a_share_of_the_time_before(
    monkeypatch: pytest.MonkeyPatch, elapsed: float, stand_ins: list[str], longest: float
) -> None:
    timers = Timers(monkeypatch)
    bounds = Bounds(Counter(), stand_ins)
    bounds.follow_on(lambda: None, elapsed)
    for _ in range(LEAST_PASSES_ON):
        bounds.on_pass()
    timers.passed = timers.computed = longest - 0.1
    assert not bounds.is_followed()
    timers.passed = timers.computed = longest + 0.1
    assert bounds.is_followed()
    assert timers.waits == [pytest.approx(2 * longest)]


def test_a_training_of_few_passes_is_followed_twice_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(monkeypatch)
    bounds = Bounds(Counter())
    bounds.follow_on(lambda: None, 1.0)
    for _ in range(LEAST_PASSES_ON - 1):
        bounds.on_pass()
    timers.passed = timers.computed = 1.9
    assert not bounds.is_followed()
    bounds.on_pass()
    assert bounds.is_followed()


def test_training_goes_on_for_longer_where_other_programs_have_the_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(monkeypatch)
    bounds, ended = Bounds(Counter()), list[int]()
    bounds.follow_on(lambda: ended.append(1), 60.0)
    timers.passed, timers.computed = 9.0, 3.0
    timers.calls[-1]()
    assert (ended, bounds.is_hurried(), bounds.is_followed()) == ([], True, False)
    assert timers.waits == [8.0, 5.0]
    timers.passed, timers.computed = 24.0, 8.1
    timers.calls[-1]()
    assert (ended, bounds.is_followed()) == ([1], True)


def test_seconds_in_which_a_process_was_ready_and_had_no_core_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(monkeypatch)
    bounds, ended = Bounds(Counter()), list[int]()
    bounds.follow_on(lambda: ended.append(1), 60.0)
    # sixteen processes for each core: a fourth of the time is more than this one could work in
    timers.passed, timers.computed, timers.queued = 40.0, 2.4, 37.5
    timers.calls[-1]()
    assert (ended, bounds.is_followed()) == ([], False)
    timers.passed, timers.computed, timers.queued = 140.0, 8.1, 131.5
    timers.calls[-1]()
    assert (ended, bounds.is_followed()) == ([1], True)


def test_a_system_that_counts_no_queue_has_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(loop_state, "QUEUE", str(tmp_path / "schedstat"))
    assert loop_state.queued() == 0.0
    (tmp_path / "schedstat").write_text("2519300000 1500000000 41\n")
    assert loop_state.queued() == 1.5


def test_a_process_that_waits_is_not_followed_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = Timers(monkeypatch)
    bounds, ended = Bounds(Counter()), list[int]()
    bounds.follow_on(lambda: ended.append(1), 60.0)
    timers.passed = 8.0 * SHARE
    timers.calls[-1]()
    assert ended == [1]
