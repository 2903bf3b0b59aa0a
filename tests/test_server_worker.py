"""The server's one working thread: what its jobs leave is collected when nobody waits."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from lintrain.server import checking
from lintrain.server.checking import Urgency, Worker


class Knot:
    """Holds itself, as readings do."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Set when the worker has collected; nothing else collects meanwhile."""
    collected = threading.Event()
    real = gc.collect

    def collect() -> int:
        count = real()
        collected.set()
        return count

    gc.disable()
    monkeypatch.setattr(gc, "collect", collect)
    monkeypatch.setattr(gc, "freeze", lambda: None)
    yield collected
    gc.enable()


def test_what_a_job_left_is_collected_when_nobody_waits(gone: threading.Event) -> None:
    left = asyncio.run(Worker().do(Urgency.NOW, lambda: weakref.ref(Knot())))
    assert gone.wait(30)
    assert left() is None


def test_what_many_jobs_left_is_collected_though_the_next_one_waits(
    gone: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checking, "BREATH", 3600)

    async def many() -> list[weakref.ref[Knot]]:
        busy = Worker()
        return [await busy.do(Urgency.NOW, lambda: weakref.ref(Knot())) for _ in range(checking.MOST_LEFT)]

    left = asyncio.run(many())
    assert gone.wait(30)
    assert [knot() for knot in left] == [None] * checking.MOST_LEFT
