"""The shared part of both callbacks: judge what was measured, and stop the run."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from typing import Any, Literal

from lintrain.api.probing import is_one_of_several
from lintrain.api.report import MistakesError, Question, Report, judged
from lintrain.evidence.fields import EvidenceFields
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.in_process.first_steps import FirstSteps
from lintrain.runtime.in_process.session import InProcessSession

OnMistake = Literal["raise", "stop", "warn"]


class MistakeWarning(UserWarning):
    """A watched run makes a mistake, and was not asked to raise an error; the text is the report."""


class Watching:
    """The watched part of one run: from its start until enough steps were measured."""

    def __init__(self, steps: int, on_mistake: OnMistake, select: tuple[str, ...], ignore: tuple[str, ...]) -> None:
        if on_mistake not in ("raise", "stop", "warn"):
            raise ValueError(f"on_mistake is 'raise', 'stop' or 'warn', not {on_mistake!r}")
        self.wanted, self.on_mistake = steps, on_mistake
        self._question = Question(None, select, ignore)
        self.run: FirstSteps | None = None
        self.report: Report | None = None

    def begin(self, make: Callable[[InProcessSession, Location | None], FirstSteps], facts: EvidenceFields) -> None:
        """Training starts; an earlier watched run is discarded."""
        self.end()
        location = frame_location(users_frame())
        session = InProcessSession(tempfile.gettempdir(), location.path if location else "")
        self.report = None
        self.run = make(session, location)
        self.run.start(facts)

    def judge(self) -> bool:
        """Judge what was measured so far; returns whether to stop the run. Raises MistakesError if requested."""
        if self.run is None:
            return False
        session: Any = self.run.session
        with same_random_numbers():
            self.report = judged(session, self._question)
        if self.report.exit_code != 1:
            return False
        self.end()
        if self.on_mistake == "raise" or (self.on_mistake == "stop" and is_one_of_several()):
            raise MistakesError(self.report)
        warnings.warn(f"{self.report.reason}\n{self.report.text()}", MistakeWarning, stacklevel=2)
        return self.on_mistake == "stop"

    def is_worth_judging(self) -> bool:
        """Whether there is something new to judge: the first step, or a loss that is not finite."""
        run = self.run
        return run is not None and (
            run.steps == 0 or any(loss != loss or abs(loss) == float("inf") for loss in run.losses)
        )

    def end(self) -> None:
        """Stop watching."""
        if self.run is not None:
            self.run.close()
        self.run = None

    def finish(self) -> bool:
        """Judge everything that was measured, and stop watching; returns whether to stop the run."""
        if self.run is None:
            return False
        run = self.run
        run.close()
        try:
            return self.judge()
        finally:
            self.run = None


class WatchingCallback:
    """The arguments of the callbacks of both libraries, and what they report."""

    def __init__(
        self,
        steps: int = 5,
        on_mistake: OnMistake = "raise",
        select: tuple[str, ...] = (),
        ignore: tuple[str, ...] = (),
    ) -> None:
        super().__init__()
        self._watching = Watching(steps, on_mistake, tuple(select), tuple(ignore))

    @property
    def report(self) -> Report | None:
        """The last report; None before the first step."""
        return self._watching.report
