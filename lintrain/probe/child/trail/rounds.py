"""Loops of the script's own made short: the training loader ends after some steps, those of an evaluation soon."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

from lintrain.probe.child.hooks import AfterImport
from lintrain.probe.child.loop.batches import is_asked_by_a_loop
from lintrain.probe.child.trail.follower import Follower

EVALUATION_BATCHES = 2
MOST_ROUNDS = 3
"""On several processes a loop goes on for so many rounds of one batch, to see what is written at its end."""


def install(follower: Follower, hooks: AfterImport, *, steps: int) -> None:
    """Let the loader that the first steps train on end its first round after so many of them."""
    rounds = Rounds(follower, steps)
    hooks.add("torch.utils.data.dataloader", functools.partial(_tap_loaders, rounds))


class Rounds:
    """Which loader trains, and when its first round is over."""

    def __init__(self, follower: Follower, steps: int) -> None:
        self.follower = follower
        self.steps = steps
        self.training: Any = None
        self.rounds = 0

    def has_enough(self, loader: Any, given: int) -> bool:
        """Whether a loader that gave so many batches in this round ends it now."""
        if self.follower.is_guided or not self.follower.taken:
            return False
        if self.training is None:
            self.training = loader  # the first one that is asked again after a step
        if loader is not self.training:
            return given >= EVALUATION_BATCHES
        if self.follower.purpose == "ranks" and self.rounds:
            return given >= 1
        return not self.rounds and self.follower.taken >= self.steps

    def ends(self, loader: Any) -> None:
        """A loader says that it has no more batches."""
        if loader is self.training:
            self.rounds += 1
            self.follower.says(rounds=self.rounds)
            if self.rounds > MOST_ROUNDS:
                self.follower.finish()


class ShortBatches:
    """An iterator over a loader's batches that may end before these do."""

    def __init__(self, rounds: Rounds, loader: Any, batches: Iterator[Any]) -> None:
        self._rounds = rounds
        self._loader = loader
        self._batches = batches
        self._given = 0

    def __iter__(self) -> ShortBatches:
        return self

    def __next__(self) -> Any:
        if self._rounds.has_enough(self._loader, self._given) and is_asked_by_a_loop():
            self._rounds.ends(self._loader)
            raise StopIteration
        try:
            batch = next(self._batches)
        except StopIteration:
            self._rounds.ends(self._loader)
            raise
        self._given += 1
        return batch

    def __len__(self) -> int:
        return len(self._loader)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batches, name)


def _tap_loaders(rounds: Rounds, module: Any) -> None:
    iterate = module.DataLoader.__iter__

    @functools.wraps(iterate)
    def iter_(self: Any) -> Iterator[Any]:
        batches: Iterator[Any] = iterate(self)
        return batches if rounds.follower.is_guided else ShortBatches(rounds, self, batches)

    module.DataLoader.__iter__ = iter_
