"""What is known of a loop of the script's own while it runs: read by every part that measures it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.random_state import same_random_numbers
from lintrain.runtime.frameworks.loop.bounds import Bounds
from lintrain.runtime.frameworks.loop.effects import Effects
from lintrain.runtime.frameworks.loop.loaders import Loaders
from lintrain.runtime.frameworks.loop.passes import Passes
from lintrain.runtime.frameworks.loop.schedules import Schedules
from lintrain.runtime.measure.seen import Iteration


class LoopState(ABC):
    """The counts and the present position of a loop.

    `iteration` is the batch that is trained on now, `loader` the one it comes from; `rounds` counts how often that
    loader was read again. With `is_guided` a library runs the loop: it decides which batches it takes and when it ends.
    """

    def __init__(self, session: ProbeSession) -> None:
        self.session = session
        self.effects = Effects()
        self.schedules = Schedules()
        self.loaders = Loaders(session)
        self.optimizers: list[Any] = []
        self.iteration = Iteration()
        self.loader: Any = None
        self.depth = self.rounds = self.backwards_by_hand = 0
        self.is_guided = self.is_taking = self.is_stepping = False
        self.is_over = self.comes_round = False
        self.passes = Passes(self.effects.counts)
        self.bounds = Bounds(self.effects.counts)
        self._is_paused = False

    @property
    def is_on(self) -> bool:
        """Whether the script itself is at work: not a Trainer that is measured, not one of our measurements.

        The hooks in torch see everything in the process. Without this test the probe would count its own forward
        passes as the script's, and a process that the script started would report a second loop.
        """
        return not self.session.measuring and not self._is_paused and self.session.is_root

    @property
    @abstractmethod
    def is_evaluating(self) -> bool:
        """Whether what happens now is evaluation."""

    @contextmanager
    def paused(self) -> Generator[None]:
        """The probe uses torch now: nothing is counted or timed, and the script's random state is restored.

        A measurement that drew a random number would change every batch and dropout mask that follows.
        """
        self._is_paused = True
        try:
            with self.loaders.timed.left_out(), same_random_numbers():
                yield
        finally:
            self._is_paused = False
