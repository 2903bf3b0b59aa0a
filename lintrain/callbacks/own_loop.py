"""`lintrain.watch(loss)`: follow your own training loop from its first loss to its last."""

from __future__ import annotations

import atexit
import inspect
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from lintrain.api.report import MistakesError
from lintrain.callbacks.reporting import OnMistake, Reporting
from lintrain.callbacks.whole_run import WholeRun
from lintrain.runtime.child.frames import frame_location
from lintrain.runtime.child.library import is_mapping, loaded

Caller = tuple[object, int, str]


class OwnLoops:
    """The watched lines of this process: each line that calls `watch` has its own losses."""

    def __init__(self) -> None:
        self.runs: dict[Caller, tuple[WholeRun, Reporting]] = {}
        self._latest: WholeRun | None = None

    def run_at(self, caller: Caller, frame: Any, on_mistake: OnMistake, ignore: Sequence[str]) -> WholeRun:
        """The run of a caller, new at its first call."""
        if caller not in self.runs:
            if not self.runs:
                atexit.register(self.finish)
            reporting = Reporting(on_mistake, ignore=ignore)
            run = WholeRun(reporting, frame_location(frame))
            run.follow_steps()
            self.runs[caller] = (run, reporting)
        self._latest = self.runs[caller][0]
        return self._latest

    def evaluated(self, loss: Any) -> None:
        """A loss without gradients belongs to an evaluation of the run that trained last."""
        if self._latest is not None:
            self._latest.on_evaluation(loss)

    def finish(self) -> None:
        """Read what is on its way and forget every caller."""
        with suppress(MistakesError):  # the run is over anyway, and the sign was its last
            for run, _ in self.runs.values():
                run.finish()
        self.runs.clear()
        self._latest = None


LOOPS = OwnLoops()


def watch(
    loss: Any,  # Any: a tensor of torch, which this module never imports, or a number, or several by name
    *,
    batch: Any = None,
    rows: Sequence[int] | None = None,
    grad_norm: Any = None,
    on_mistake: OnMistake = "warn",
    ignore: Sequence[str] = (),
) -> bool:
    """Follow a training loop: call it with each loss, before `loss.backward()`.

    It reads the loss without waiting for the device, and samples predictions, weights and gradient norms through the
    loss's graph and the optimizer's steps; a loss that is computed without gradients counts as one of evaluation.
    `loss` may be a dictionary of several losses. Losses and weights are the same with and without it.

    Each line that calls it has losses of its own. `batch` is kept in a file if its loss is not finite or jumps, for
    `lintrain probe train.py --batch FILE`; `rows` are the numbers of its rows in their data set; `grad_norm` is what
    `clip_grad_norm_` returned. `ignore` names signs. A sign of a mistake is a warning, once per kind. Errors (a loss
    that is not finite, weights that stand still, a rate of 0) raise `lintrain.MistakesError` with
    `on_mistake="raise"`; with "stop" the function returns True from then on, so that the loop can end.
    """
    frame: Any = inspect.currentframe()
    frame = frame.f_back
    losses = loss if is_mapping(loss) else {"": loss}
    for name, each in losses.items():
        if _is_evaluation(each):
            LOOPS.evaluated(each)
            continue
        run = LOOPS.run_at((frame.f_code, frame.f_lasti, name), frame, on_mistake, ignore)
        if grad_norm is not None:
            run.on_norm(grad_norm)
        run.on_loss(each, batch, rows)
    return any(reporting.should_stop for _, reporting in LOOPS.runs.values())


def _is_evaluation(loss: Any) -> bool:
    torch = loaded("torch")
    return hasattr(loss, "requires_grad") and torch is not None and not torch.is_grad_enabled()
