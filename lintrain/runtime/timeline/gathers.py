"""What an evaluation gathers from all processes, compared with the rows of its loaders."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.library import is_row
from lintrain.runtime.measure.seen import tensors_in
from lintrain.runtime.timeline.follower import Follower

FUNCTIONS = ("gather", "gather_for_metrics")


def install(follower: Follower, hooks: AfterImport) -> Gathers:
    """See the gathering functions of accelerate and the rows that loaders fetch."""
    gathers = Gathers(follower)
    hooks.add("accelerate.accelerator", functools.partial(_hook_accelerator, gathers))
    hooks.add("torch.utils.data._utils.fetch", functools.partial(_hook_rows, gathers))
    return gathers


class Gathers:
    """The round over a loader that runs now: its rows by number, and the rows that each place gathered in it."""

    def __init__(self, follower: Follower) -> None:
        self._follower = follower
        self._depth = 0
        self._round = 0
        self.on_round_start()

    def on_round_start(self) -> None:
        """A loader is iterated again."""
        self._round += 1
        self._ended = False
        self._batches: list[list[int]] = []
        self._gathered: dict[Location, list[int]] = {}

    def on_round_end(self) -> None:
        """The loader of the round has no more rows; its last batch may be to come, for accelerate asks ahead."""
        self._ended = True

    def fetched(self, numbers: Any) -> None:
        """The loader made a batch of the rows with these numbers."""
        self._batches.append([each for each in numbers if isinstance(each, int)] if is_row(numbers) else [])

    def gather(self, function: str, carry_out: Callable[[], Any]) -> Any:
        """Let a function of accelerate gather, and send its result; one that calls another counts once."""
        self._depth += 1
        try:
            found = carry_out()
        finally:
            self._depth -= 1
        # `gather_for_metrics` calls `gather`; and before the first step a script may gather to check its set-up.
        if not self._depth and self._follower.taken:
            self._say(function, found)
        return found

    def _say(self, function: str, found: Any) -> None:
        location = frame_location(users_frame())
        first = next((tensor for tensor in tensors_in(found) if tensor.dim()), None)
        if location is None or first is None:
            return
        calls = self._gathered.setdefault(location, [])
        calls.append(len(first))
        self._follower.session.channel.send(
            "rank-gather",
            rank=self._follower.rank,
            gather={
                "round": self._round,
                "is_whole": self._ended,
                "function": function,
                "location": location,
                "calls": calls,
                "batches": self._batches,
            },
        )


def _hook_accelerator(gathers: Gathers, module: Any) -> None:
    for name in FUNCTIONS:
        setattr(module.Accelerator, name, _watched(gathers, getattr(module.Accelerator, name)))


def _watched(gathers: Gathers, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def watched(*args: Any, **kwargs: Any) -> Any:
        return gathers.gather(function.__name__, lambda: function(*args, **kwargs))

    return watched


def _hook_rows(gathers: Gathers, module: Any) -> None:
    fetch = module._MapDatasetFetcher.fetch

    @functools.wraps(fetch)
    def followed(self: Any, possibly_batched_index: Any) -> Any:
        gathers.fetched(possibly_batched_index)
        return fetch(self, possibly_batched_index)

    module._MapDatasetFetcher.fetch = followed
