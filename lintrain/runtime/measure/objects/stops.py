"""Calls of a loop that make each step wait: how often they come while training is followed."""

from __future__ import annotations

import functools
import gc
from collections import Counter
from typing import Any

from lintrain.evidence.run import StepStop
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession

OF_DEVICE = ("empty_cache", "synchronize")


class Stops:
    """Counted by the place of the script that makes them."""

    def __init__(self, session: ProbeSession) -> None:
        self._session = session
        self._counts: Counter[tuple[Location, str]] = Counter()

    def counted(self, owner: Any, name: str, path: str) -> None:
        """Let a function of a module count its calls."""
        function = getattr(owner, name)

        @functools.wraps(function)
        def counts(*args: Any, **kwargs: Any) -> Any:
            self._count(path)
            return function(*args, **kwargs)

        setattr(owner, name, counts)

    def _count(self, path: str) -> None:
        watch = self._session.watch
        if not self._session.has_begun or watch.run.is_settled or not watch.is_on:
            return
        location = frame_location(users_frame())
        if location is not None:
            self._counts[location, path] += 1

    def evidence(self) -> list[StepStop]:
        """Those that came at all."""
        steps = self._session.watch.effects.counts["steps"] if self._session.has_begun else 0
        return [StepStop(location, path, times, steps) for (location, path), times in self._counts.items()]


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Count the clearing of caches and of garbage."""
    stops = Stops(session)
    session.objects.add("stops", lambda _: stops.evidence())
    stops.counted(gc, "collect", "gc.collect")
    hooks.add("torch.cuda", lambda module: _count_all(stops, module))


def _count_all(stops: Stops, module: Any) -> None:
    for name in OF_DEVICE:
        stops.counted(module, name, f"torch.cuda.{name}")
