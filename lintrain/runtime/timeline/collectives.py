"""The collective operations that one of several processes calls, and those in which it waits for the others.

A process waits if its main thread stays at one instruction of a collective, or of a backward pass, for some seconds
without computing. A process that computes, reads or sleeps does not wait for another one.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections import Counter
from types import FrameType
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, is_users, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import attribute, loaded
from lintrain.runtime.timeline.follower import Follower

FUNCTIONS = (
    *("all_reduce", "broadcast", "reduce", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all"),
    *("all_gather_into_tensor", "reduce_scatter_tensor", "all_to_all_single", "barrier", "monitored_barrier"),
    *("all_gather_object", "gather_object", "broadcast_object_list", "scatter_object_list", "new_group"),
)
"""What every process of a group has to call (torch 2.13)."""

MOST_CALLS = 100
WAITS_AFTER = 5.0
LOOKS_EVERY = 0.5
MOST_CPU = 0.2
"""Of the time of a wait; the library's own threads poll their sockets."""


def install(follower: Follower, hooks: AfterImport) -> None:
    """Count the calls of collectives, and look whether the main thread waits."""
    calls = Calls(follower)
    hooks.add("torch.distributed.distributed_c10d", functools.partial(_hook, calls))
    threading.Thread(target=Waits(follower).look, daemon=True).start()


class Calls:
    """How often each location of the script has called a collective of all processes."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._counts: Counter[tuple[str, Location]] = Counter()
        self._depth = 0

    def call(self, module: Any, function: Any, args: Any, kwargs: Any) -> Any:
        """Count a call before it is made, for it may never return; one inside of another is not counted."""
        # `all_gather_object` calls `all_gather` inside: the script called one collective, and the
        # other ranks count one.
        if not self._depth and not _is_of_some(module, (*args, *kwargs.values())):
            self._count(function.__name__)
        self._depth += 1
        try:
            return function(*args, **kwargs)
        finally:
            self._depth -= 1

    def _count(self, function: str) -> None:
        location = frame_location(users_frame())
        if location is None:
            return
        self._counts[function, location] += 1
        if (number := self._counts[function, location]) <= MOST_CALLS:
            self._follower.session.channel.send(
                "rank-collective", rank=self._follower.rank, function=function, location=location, calls=number
            )


def _is_of_some(module: Any, given: tuple[Any, ...]) -> bool:
    """Whether a collective concerns a part of the processes only; outside of a part it is None or negative."""
    groups = [each for each in given if isinstance(each, module.ProcessGroup)]
    size = module.get_world_size() if groups and module.is_initialized() else 0
    return any(each.size() < size for each in groups) or any(
        each is module.GroupMember.NON_GROUP_MEMBER for each in given
    )


def _hook(calls: Calls, module: Any) -> None:
    package = loaded("torch.distributed")
    for name in FUNCTIONS:
        if (original := attribute(module, name, None)) is not None:
            counted = _counted(calls, module, original)
            setattr(module, name, counted)
            # The package has the names of this module: it takes them after this, unless it was loaded before.
            if attribute(package, name, None) is original:
                setattr(package, name, counted)


def _counted(calls: Calls, module: Any, function: Any) -> Any:
    @functools.wraps(function)
    def counted(*args: Any, **kwargs: Any) -> Any:
        return calls.call(module, function, args, kwargs)

    return counted


class Waits:
    """Looks at the main thread from another one."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._main = threading.main_thread().ident or 0
        self._is_sent = False

    def look(self) -> None:
        """Send where the main thread waits, and that it goes on, until the process ends."""
        # From a thread, since the waiting call holds the main one. It releases the interpreter's lock while it waits.
        seen, since, used = None, time.monotonic(), time.process_time()
        while True:
            time.sleep(LOOKS_EVERY)
            frame = sys._current_frames().get(self._main)  # pyright: ignore[reportPrivateUsage] - the one way to them
            now, cpu = time.monotonic(), time.process_time()
            at = _instructions(frame)
            # The same instruction for seconds may be a long kernel, but that uses the CPU.
            if at != seen or cpu - used > MOST_CPU * max(now - since, WAITS_AFTER):
                seen, since, used = at, now, cpu
                if self._is_sent:
                    self._send("", None)
            elif now - since > WAITS_AFTER and not self._is_sent and (function := _waits_in(frame)):
                self._send(function, frame_location(_users(frame)))

    def _send(self, function: str, location: Location | None) -> None:
        self._is_sent = bool(function)
        self._follower.session.channel.send("rank-wait", rank=self._follower.rank, function=function, location=location)


def _instructions(frame: FrameType | None) -> tuple[tuple[int, int], ...]:
    found: list[tuple[int, int]] = []
    while frame is not None:
        found.append((id(frame.f_code), frame.f_lasti))
        frame = frame.f_back
    return tuple(found)


def _waits_in(frame: FrameType | None) -> str:
    """The collective or pass that the innermost frames of libraries are in; empty for anything else."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        module = str(frame.f_globals.get("__name__", ""))
        name = frame.f_code.co_name
        if name in FUNCTIONS or name == "init_process_group":
            return name
        if name == "_engine_run_backward":
            return "backward"
        if module == "torch.nn.parallel.distributed":
            return "DistributedDataParallel"
        frame = frame.f_back
    return ""


def _users(frame: FrameType | None) -> FrameType | None:
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame
