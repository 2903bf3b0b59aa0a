"""A clock ends work that takes too long, whatever the work does, and nothing else."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import threading
import time

import pytest

from lintrain.check.clock import Clock, TimeSpentError


def spin(seconds: float) -> int:
    ends, turns = time.thread_time() + seconds, 0
    while time.thread_time() < ends:
        turns += 1
    return turns


def swallow_and_spin() -> None:
    for _ in range(3):
        with contextlib.suppress(BaseException):
            spin(20)
    spin(20)


def test_work_that_takes_too_long_is_ended() -> None:
    began = time.thread_time()
    with pytest.raises(TimeSpentError), Clock(0.2) as clock:
        spin(20)
    assert clock.is_spent
    assert time.thread_time() - began < 3


def test_work_within_its_time_is_not_touched() -> None:
    with Clock(20) as clock:
        assert spin(0.5)
    assert not clock.is_spent


def test_a_part_that_takes_too_long_is_ended_alone() -> None:
    with Clock(20) as clock:
        clock.begin_part(0.2)
        with pytest.raises(TimeSpentError):
            spin(20)
        assert not clock.is_over
        clock.begin_part()
        assert spin(0.5)


def test_sleep_costs_nothing() -> None:
    with Clock(0.2) as clock:
        time.sleep(1)
    assert not clock.is_spent


def test_work_that_swallows_the_error_is_ended_again() -> None:
    began = time.thread_time()
    with pytest.raises(TimeSpentError), Clock(0.1):
        swallow_and_spin()
    assert time.thread_time() - began < 5


@pytest.mark.turns(one_in=4)
@pytest.mark.parametrize("turn", range(20))
def test_no_error_comes_behind_the_block(turn: int) -> None:
    with contextlib.suppress(TimeSpentError), Clock(0.15 + turn / 400):
        spin(0.2)
    began = time.monotonic()
    while time.monotonic() < began + 0.25:
        spin(0.01)


PROFILED = """
import contextlib, cProfile, sys
from lintrain.check.clock import Clock, TimeSpentError

with Clock(0) as clock, contextlib.suppress(TimeSpentError):
    clock.look()
    [turn for turn in range(10)]
profile = cProfile.Profile()
profile.enable()
(lambda: print("profiled"))()
"""


@pytest.mark.parametrize("ending", ["", "raise KeyError", "clock.look()", "sys.exit()"])
def test_python_goes_on_as_before_after_a_spent_clock(ending: str) -> None:
    """An error that is taken back leaves CPython 3.11 looking for it: a profiled function then never begins."""
    text = PROFILED.replace("[turn for turn in range(10)]", ending or "pass")
    text = text.replace("with Clock", "with contextlib.suppress(KeyError, SystemExit), Clock")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout, done.stderr) == ("profiled\n", "")


def test_threads_have_clocks_of_their_own() -> None:
    ended = list[str]()

    def work(name: str, seconds: float) -> None:
        try:
            with Clock(seconds):
                spin(1)
        except TimeSpentError:
            ended.append(name)

    threads = [threading.Thread(target=work, args=each) for each in (("short", 0.2), ("long", 30))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == ["short"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on Unix only")
def test_a_forked_process_has_a_watchdog_of_its_own() -> None:
    with Clock(5):
        pass
    child = os.fork()
    if child == 0:
        status = 1
        with contextlib.suppress(TimeSpentError), Clock(0.2):
            spin(20)
            status = 2
        os._exit(0 if status == 1 else status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_long_call_of_c_is_ended_behind_it() -> None:
    with pytest.raises(TimeSpentError), Clock(0.1):
        spin(0 if re.match(r"(a+)+$", "a" * 23 + "b") else 20)
