"""The shared part of both callbacks: judge what was measured, follow the run to its end, and stop it if asked to."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from lintrain.api.probing import is_one_of_several
from lintrain.api.report import MistakesError, Question, Report, judged
from lintrain.callbacks.reporting import MistakeWarning as MistakeWarning
from lintrain.callbacks.reporting import OnMistake, Reporting, RunReport, check_on_mistake, without_signs
from lintrain.callbacks.whole_run import WholeRun
from lintrain.doctor.record import number_of
from lintrain.evidence.fields import EvidenceFields
from lintrain.model.location import Location
from lintrain.runtime.child.frames import frame_location, users_frame
from lintrain.runtime.child.saved_batch import RowNumbers, number_rows, stop_numbering
from lintrain.runtime.child.surroundings import same_random_numbers
from lintrain.runtime.in_process.first_steps import FirstSteps
from lintrain.runtime.in_process.session import InProcessSession


class Watching:
    """One watched run: its first steps until enough were measured, and all of it for signs of a late mistake."""

    def __init__(
        self, steps: int, on_mistake: OnMistake, select: tuple[str, ...], ignore: tuple[str, ...], *, to_end: bool
    ) -> None:
        check_on_mistake(on_mistake)
        self.wanted, self._to_end = steps, to_end
        self.on_mistake: OnMistake = on_mistake
        self._question = Question(None, without_signs(select), without_signs(ignore))
        self._names = (select, ignore)
        self.run: FirstSteps | None = None
        self.report: Report | None = None
        self.whole: list[WholeRun] = []
        self.reporting = Reporting(on_mistake, *self._names)
        self.make_whole: Callable[[], WholeRun] | None = None
        self._loader: Any = None
        self._numbers: RowNumbers | None = None

    def begin(
        self,
        make: Callable[[InProcessSession, Location | None], FirstSteps],
        facts: EvidenceFields,
        *,
        loader: Any = None,
        folder: str = "",
    ) -> None:
        """Training starts; an earlier watched run is discarded. Batches are kept in the folder."""
        self.close()
        location = frame_location(users_frame())
        session = InProcessSession(tempfile.gettempdir(), location.path if location else "")
        self.report = None
        self.run = make(session, location)
        self.run.rests_after = self.wanted if self._to_end else None
        self.run.start(facts)
        self.reporting = Reporting(self.on_mistake, *self._names)
        self.make_whole = (lambda: WholeRun(self.reporting, location, folder)) if self._to_end else None
        self._loader, self._numbers = loader, number_rows(loader) if self._to_end else None

    def rows_of(self, size: int) -> tuple[int, ...] | None:
        """The rows of the next batch in the data set, if the loader's sampler names them."""
        return self._numbers.take(size) if self._numbers is not None else None

    def follow(self, loss: Any, batch: Any, rows: Any, *, step: int, scale: float = 1.0, number: int = 0) -> None:
        """A loss of training for the run to its end; `number` counts the losses of one batch."""
        if self.make_whole is None:
            return
        while len(self.whole) <= number:
            self.whole.append(self.make_whole())
            self.whole[-1].follow_steps()
        # The rules judge the first steps, and say more about them.
        self.reporting.is_held = self.run is not None and self.run.steps < self.wanted
        self.whole[number].on_loss(loss, batch, rows, scale, step)

    def logged(self, logs: Mapping[str, Any], step: int) -> None:
        """What a Trainer logs: the norm of a step, and its loss if no other losses are seen."""
        if self.make_whole is None:
            return
        norm, loss = (number_of(logs.get(name)) for name in ("grad_norm", "loss"))
        if not self.whole and loss is not None:
            # The average that is logged leaves out losses that are NaN: what is left of them is 0.
            is_lost = loss == 0 and norm is not None and not math.isfinite(norm)
            self.follow(math.nan if is_lost else loss, None, None, step=step)
        if norm is not None and self.whole:
            self.whole[0].on_norm(norm, step)

    def evaluated(self, loss: float) -> None:
        """The mean loss of an evaluation."""
        for run in self.whole[:1]:
            run.on_evaluation(loss, is_whole=True)

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
        self.reporting.known |= {"non-finite"} & {SAME_AS.get(each.rule, "") for each in self.report.findings}
        if self.on_mistake == "raise" or (self.on_mistake == "stop" and is_one_of_several()):
            self.close()
            raise MistakesError(self.report)
        kinds = ", ".join(sorted({finding.rule for finding in self.report.findings}))
        self.reporting.warn(kinds, f"{self.report.reason}\n{self.report.text()}", self.wanted)
        return self.on_mistake == "stop"

    def is_worth_judging(self) -> bool:
        """Whether there is something new to judge: the first step, or a loss that is not finite."""
        run = self.run
        return run is not None and (
            run.steps == 0 or any(loss != loss or abs(loss) == float("inf") for loss in run.losses)
        )

    def end(self) -> None:
        """Stop watching the first steps."""
        if self.run is not None:
            self.run.close()
        self.run = None

    def close(self) -> None:
        """Stop watching; nothing more is judged."""
        self.end()
        for run in self.whole:
            run.stop()
        self.whole, self.make_whole = [], None
        if self._numbers is not None:
            stop_numbering(self._loader, self._numbers)
        self._numbers = self._loader = None

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

    def conclude(self) -> bool:
        """The run is over: judge what was not judged yet; returns whether to stop, which a caller may ignore."""
        try:
            is_to_stop = self.finish()
            self.reporting.is_held = False
            for run in self.whole:
                run.finish()
        finally:
            self.close()
        return is_to_stop


SAME_AS = {"nan-loss": "non-finite"}
"""The sign that says the same as a rule about the first steps."""


class WatchingCallback:
    """The arguments of the callbacks of both libraries, and what they report."""

    def __init__(
        self,
        steps: int = 5,
        on_mistake: OnMistake = "raise",
        select: tuple[str, ...] = (),
        ignore: tuple[str, ...] = (),
        to_end: bool = True,
    ) -> None:
        super().__init__()
        self._watching = Watching(steps, on_mistake, tuple(select), tuple(ignore), to_end=to_end)

    @property
    def report(self) -> Report | None:
        """The last report; None before the first step."""
        return self._watching.report

    @property
    def run_report(self) -> RunReport:
        """The signs of a mistake in the whole run so far."""
        return RunReport(self._watching.reporting.signs)
