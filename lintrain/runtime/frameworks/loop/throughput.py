"""The throughput stage of a loop of the script's own: its batches and steps timed as they pass."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from lintrain.evidence.run import Stage
from lintrain.runtime.child.session import Session
from lintrain.runtime.frameworks.loop.memory import rows_in, tokens_in
from lintrain.runtime.measure.pace import WARM_UP, Pace, new_profile, synchronizing, top_operators

if TYPE_CHECKING:
    from lintrain.runtime.frameworks.loop.run import LoopRun
    from lintrain.runtime.frameworks.loop.seen import Iteration

PROFILED = WARM_UP + 2
"""The number of the batch whose step is profiled, and not timed."""


class TimedSteps:
    """Told when the loop asks for a batch and when it gets it, until training is over."""

    def __init__(self, session: Session) -> None:
        self._is_wanted = "throughput" in session.also
        self._pace = Pace()
        self._calls = Counter[str]()
        self._stack = ExitStack()
        self._profile: Any = None
        self._operators: tuple[tuple[str, float], ...] = ()
        self._loader: Any = None

    def asks(self, loader: Any) -> None:
        """The loop asks for its next batch."""
        if not self._times(loader):
            return
        if self._profile is not None:
            self._profile.__exit__(None, None, None)
            self._operators, self._profile = top_operators(self._profile), None
            self._is_wanted = False
        else:
            self._pace.asks()

    def got(self, loader: Any) -> None:
        """The loop got it."""
        if not self._times(loader):
            return
        if self._loader is None:
            self._loader = loader
            self._stack.enter_context(synchronizing(self._calls))
        self._pace.got()
        if len(self._pace.loading) >= PROFILED:
            self._profile = new_profile()
            self._profile.__enter__()

    def _times(self, loader: Any) -> bool:
        return self._is_wanted and self._loader in (None, loader)

    @contextmanager
    def left_out(self) -> Generator[None]:
        """What happens now is no work of the script: it is not timed, and its calls are not counted."""
        calls = Counter(self._calls)
        with self._pace.left_out():
            yield
        self._calls.clear()
        self._calls.update(calls)

    def settles(self, run: LoopRun, iteration: Iteration) -> None:
        """Training is over: say what was timed."""
        if "throughput" not in run.session.also or "throughput" in run.statuses:
            return
        self._is_wanted = False
        self._stack.close()
        workers = int(getattr(self._loader, "lintrain_workers", 0))
        found = self._pace.evidence(rows_in(iteration), tokens_in(iteration), workers, self._calls, self._operators)
        if found is None:
            run.skip("throughput", "the loop took too few batches from its loader")
            return
        run.measured(throughput=found)
        run.settles(Stage("throughput", "passed", sum(self._pace.loading) + sum(self._pace.stepping)))
