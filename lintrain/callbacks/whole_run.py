"""Follows a run from its first loss to its last: reads what its losses show, and reports signs of a mistake.

The cheap part of each call reads the loss. The rest (predictions, weights, norms) is sampled, and left out while it has
taken more than its share of the run's time.
"""

from __future__ import annotations

import math
import time
import weakref
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lintrain.callbacks.history import History
from lintrain.callbacks.reporting import Reporting, Sign
from lintrain.callbacks.signs import FROZEN, signs
from lintrain.doctor.judgement import Judgement
from lintrain.model.location import Location
from lintrain.runtime.child.library import library
from lintrain.runtime.child.saved_batch import SavedBatch, bytes_of_batch, rows_in, save_batch
from lintrain.runtime.in_process.embeddings import compared
from lintrain.runtime.in_process.loss_graph import (
    GROUP,
    Fingerprint,
    GraphGoneError,
    Head,
    LateReader,
    checksum,
    heads_of,
    is_finite,
    leaves_of,
)

SAMPLED, COMPARED, JUDGED, NORMED = 5, 50, 20, 10
"""Calls between two samples of predictions, comparisons of weights, judgements; steps between two norms."""

SHARE, ALLOWANCE = 0.004, 0.05
"""Samples are left out beyond this share of the run's time, and these seconds.

What the watch itself takes is counted as time of the processor: a busy machine makes it wait, and costs no samples.
"""

AT_LEAST, AT_LEAST_COMPARED = 10, 4
"""One of so many samples, and comparisons of weights, is taken in any case: where steps are short, reading the losses
alone takes the share, and what happens late would never be sampled.
"""

WEIGHTS = "weights"
"""The comparisons among the kinds of samples."""

HELD_BYTES = 32 * 2**20
SAVED_BATCHES = 3
WITH_BATCH = frozenset({"non-finite", "spike", "nothing-scored"})
"""The kinds whose batch is kept in a file."""


class WholeRun:
    """One place of a loop that computes losses; `folder` is where batches are kept."""

    def __init__(self, reporting: Reporting, location: Location | None, folder: str = "") -> None:
        self._reporting, self._location, self._folder = reporting, location, folder
        self._began, self._spent = time.perf_counter(), 0.0
        self._reader = LateReader()
        self._saved = self._restarts = self._failures = 0
        self._batches: deque[tuple[int, Any, Any, int]] = deque()
        self._hook: Any = None
        self._start_over()

    def _start_over(self) -> None:
        self._history, self._noted = History(), list[tuple[int, float]]()
        self._limit = self._history.limit
        self._first: weakref.ref[Any] | None = None
        self.calls = self.steps = self._longest_wait = self._stepped_at = self._compared_at = 0
        self._leaves = dict[int, weakref.ref[Any]]()
        self._prints: Fingerprint | None = None
        self._sum: tuple[float, ...] | None = None
        self._ours: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._without: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._left_out = dict[str, int]()
        self._evaluated: list[float] = []
        self._judged_evaluations = 0

    @property
    def history(self) -> History:
        """What was measured, with the losses that were only noted."""
        history = self._history
        if self._noted:
            for step, loss in self._noted:
                history.add(step, loss)
            self._noted.clear()
            self._limit = history.limit
        return history

    # what happens

    def on_loss(self, loss: Any, batch: Any = None, rows: Any = None, scale: float = 1.0, step: int = 0) -> None:
        """A loss of training, before its backward pass if possible: a tensor or a number.

        `scale` is what it is multiplied by; `step` is the number of the optimizer step it is for, counted here if
        it is 0.
        """
        if self._note(loss, batch, rows, scale, step):
            return
        began = time.thread_time()
        try:
            self._on_loss(loss, batch, rows, scale, step)
        finally:
            self._spent += time.thread_time() - began

    def _note(self, loss: Any, batch: Any, rows: Any, scale: float, step: int) -> bool:
        """Note a usual loss of the CPU between two samples, of which nothing else has to be done now.

        After a step of the model none of this code is in the processor's caches, so that each line counts. Example: of
        the calls 0 to 9, six are only noted; 0 and 5 are sampled, 19 is judged, and each NaN is looked at at once.
        """
        call = self.calls
        is_due = call % SAMPLED == 0 or (call + 1) % JUDGED == 0
        if is_due or self._evaluated or self._reader.waits or not getattr(loss, "is_cpu", False) or loss.ndim:
            return False
        value = loss.item() * scale
        if not -math.inf < value <= self._limit:
            return False
        self.calls = call + 1
        self._noted.append((step or (self.steps + 1 if self.steps else self.calls), value))
        if batch is not None:
            self._batches.append((call, batch, rows, 0))
            while len(self._batches) > 2:
                self._batches.popleft()
        return True

    def _on_loss(self, loss: Any, batch: Any, rows: Any, scale: float, step: int) -> None:
        self._close_evaluation()
        call, self.calls = self.calls, self.calls + 1
        number = step or (self.steps + 1 if self.steps else self.calls)
        if batch is not None:
            self._hold(call, batch, rows)
        if not hasattr(loss, "detach"):
            self.history.add(number, float(loss) * scale)
        else:
            self._read_graph(loss, call, number)
            # Its batch is held until the loss is read.
            is_alone = batch is not None and 2 * GROUP * self._batches[-1][-1] > HELD_BYTES
            self._reader.add(loss, lambda values: self._take(call, number, sum(values) * scale), is_alone=is_alone)
        self._reader.read()
        if self._is_urgent:
            self._sample(loss, number)  # with the rows that the loss jumps on
            self._judge(loss, is_thorough=False)
        if self.calls % JUDGED == 0:
            self._judge(loss, is_thorough=self.calls % (JUDGED * 5) == 0)

    def on_step(self, optimizer: Any, *_given: Any) -> None:
        """An optimizer is about to step: one of this run, or another one."""
        is_first = self._first is not None and self._first() is optimizer
        if not is_first and not self._is_ours(optimizer):
            return
        if not is_first and next(iter(self._ours), None) is optimizer:
            self._first, is_first = weakref.ref(optimizer), True
        if is_first or not self.steps:
            self.steps += 1
            self._longest_wait = max(self._longest_wait, self.calls - self._stepped_at)
            self._history.accumulates = self._longest_wait > 1
            self._stepped_at = self.calls
        rates = [group["lr"] for group in optimizer.param_groups]
        known = [float(rate) for rate in rates if not getattr(rate, "is_cuda", False)]
        if known:
            self._history.rates.add(self.steps, max(known))
        if self.steps % NORMED == 1 and self._may_sample(f"norm {id(optimizer)}"):
            began = time.thread_time()
            self._read_norm(optimizer)
            self._spent += time.thread_time() - began

    def on_norm(self, norm: Any, step: int = 0) -> None:
        """The norm of all gradients, where the run computes it itself."""
        step = step or self.steps + 1
        if hasattr(norm, "detach"):
            self._reader.add(norm, lambda values: self.history.add_norm(step, values[0]))
        else:
            self.history.add_norm(step, float(norm))

    def on_evaluation(self, loss: Any, *, is_whole: bool = False) -> None:
        """A loss of evaluation: of one batch, or the mean of a whole evaluation."""
        if not self.calls:
            return
        if hasattr(loss, "detach"):
            self._reader.add(loss, lambda values: self._evaluated.append(sum(values)))
        else:
            self._evaluated.append(float(loss))
        if is_whole:
            self._close_evaluation()

    def follow_steps(self) -> None:
        """See the steps of every optimizer from now on."""
        if self._hook is None:
            self._hook = library("torch.optim.optimizer").register_optimizer_step_pre_hook(_weakly(self))

    def stop(self) -> None:
        """Follow no more steps."""
        if self._hook is not None:
            self._hook.remove()
        self._hook = None

    def finish(self) -> None:
        """The run is over: read what is on its way, and judge it once more."""
        self.stop()
        self._reader.read(must=True)
        self._close_evaluation()
        if self.calls:
            self._judge(None, is_thorough=True)

    # reading

    def _may_sample(self, kind: str) -> bool:
        left_out = self._left_out.get(kind, 0) + 1
        most = AT_LEAST_COMPARED if kind == WEIGHTS else AT_LEAST
        is_due = left_out >= most or self._spent < ALLOWANCE + SHARE * (time.perf_counter() - self._began)
        self._left_out[kind] = 0 if is_due else left_out
        return is_due

    def _read_graph(self, loss: Any, call: int, step: int) -> None:
        if call % SAMPLED == 0 and self._failures < 3 and self._may_sample("predictions"):
            self._sample(loss, step)
        if call % COMPARED == 0 and getattr(loss, "grad_fn", None) is not None and self._may_sample(WEIGHTS):
            self._compare(leaves_of(loss), step)

    def _sample(self, loss: Any, step: int) -> None:
        try:
            heads, sides = heads_of(loss), compared(loss)
        except GraphGoneError:
            heads, sides, self._failures = [], None, self._failures + 1
        if sides is not None:
            self._reader.add(sides.values, lambda values: self.history.add_alikeness(step, sides.alikeness(values)))
        for number, head in enumerate(heads):
            self._reader.add(head.values, self._takes_samples(step, number, head))

    def _takes_samples(self, step: int, number: int, head: Head) -> Callable[[list[float]], None]:
        return lambda values: self.history.add_samples(
            step, number, head.classes, head.marked(values), is_mean=head.is_mean
        )

    def _is_new_run(self, leaves: list[Any]) -> bool:
        """Whether these are other weights than before: a next fold, or another model at the same line."""
        return bool(leaves and self._leaves) and not any(map(self._is_known, leaves))

    def _is_known(self, weight: Any) -> bool:
        """Whether a weight was seen before: a new one may have the address of one that is gone."""
        known = self._leaves.get(id(weight))
        return known is not None and known() is weight

    def _compare(self, leaves: list[Any], step: int) -> None:
        if self._is_new_run(leaves):
            self._restarts += 1
            self._start_over()
        self._leaves |= {id(leaf): weakref.ref(leaf) for leaf in leaves}
        for optimizer in [each for each, is_ours in self._ours.items() if not is_ours]:
            del self._ours[optimizer]
            self._first = None
        if self._prints is None:
            self._prints = Fingerprint(leaves)
            return
        self._reader.add(self._prints.changes(), lambda values: self._take_change(values[0] != 0, step, leaves))

    def _take_change(self, has_changed: bool, step: int, leaves: list[Any]) -> None:
        """A few entries alone may stay as they are in a table of rare rows: sums over all of them decide."""
        history, span = self.history, self.calls - self._compared_at
        self._compared_at = self.calls
        is_due = self.calls - self._stepped_at > 4 * self._longest_wait if self.steps else self.calls > 3 * FROZEN
        is_certain = self._sum is not None
        if not has_changed and (history.unmoved >= 2 or span > COMPARED):
            total = checksum(leaves)
            has_changed, self._sum = self._sum not in (None, total), total
        if has_changed or not (is_due or self._keeps_stepping()):
            history.unmoved, self._sum = 0, self._sum if not has_changed else None
            return
        history.unmoved_since = history.unmoved_since if history.unmoved else step
        history.unmoved += max(1, span // COMPARED) if is_certain else 1  # some comparisons were left out

    def _keeps_stepping(self) -> bool:
        return self.steps > 0 and self.calls - self._stepped_at <= 4 * self._longest_wait

    def _read_norm(self, optimizer: Any) -> None:
        gradients = [
            each.grad
            for group in optimizer.param_groups
            for each in group["params"]
            if each.grad is not None and not each.grad.is_sparse
        ]
        self._count_without(optimizer, has_any=bool(gradients))
        if gradients:
            torch = library("torch")
            norm = torch.stack(torch._foreach_norm([each.detach() for each in gradients])).norm()
            self.on_norm(norm, self.steps)

    def _count_without(self, optimizer: Any, *, has_any: bool) -> None:
        """Count the sampled steps in a row of an optimizer that had gradients once and has none now."""
        weights = (each for group in optimizer.param_groups for each in group["params"])
        if has_any or any(each.grad is not None for each in weights):
            self._without[optimizer] = 0
        elif optimizer in self._without:
            self._without[optimizer] += 1
            self.history.add_without_gradients(self.steps, self._without[optimizer])

    def _is_ours(self, optimizer: Any) -> bool:
        known = self._ours.get(optimizer)
        if known is None:
            weights = (each for group in optimizer.param_groups for each in group["params"])
            known = self._ours[optimizer] = not self._leaves or any(map(self._is_known, weights))
        return known

    def _hold(self, call: int, batch: Any, rows: Any) -> None:
        """Keep the last batches until their losses are read, as far as they are small."""
        self._batches.append((call, batch, rows, bytes_of_batch(batch)))
        while len(self._batches) > 2 and (
            len(self._batches) > 64 or sum(size for *_, size in self._batches) > HELD_BYTES or not self._reader.waits
        ):
            self._batches.popleft()

    # judging

    @property
    def _is_urgent(self) -> bool:
        return self.history.bad == 1 or self.history.spike is not None

    def _take(self, call: int, step: int, loss: float) -> None:
        self.history.add(step, loss)
        if self._is_urgent and call < self.calls - 1:  # it arrives late; that of the present call still has its graph
            self._judge(None, is_thorough=False, call=call)

    def _close_evaluation(self) -> None:
        if self._evaluated:
            self.history.add_evaluation(self.steps or self.calls, self._evaluated)
            self._evaluated = []

    def _judge(self, loss: Any, *, is_thorough: bool, call: int | None = None) -> None:
        is_alone = len(self._ours) <= 1 and self._restarts < 3
        for judgement in signs(self.history, is_alone=is_alone, is_thorough=is_thorough):
            if not self._reporting.is_wanted(judgement):
                continue
            if judgement.name != "non-finite" and loss is not None and self._is_new_run(leaves_of(loss)):
                self._restarts += 1
                self._start_over()
                return
            self._reporting.report(self._sign(judgement, call))
        self.history.spike = self.history.norm_spike = None

    def _sign(self, judgement: Judgement, call: int | None) -> Sign:
        step = self.history.bad_since or self.steps or self.calls
        path, rows = self._save(judgement, self.calls - 1 if call is None else call, step)
        message = judgement.message
        if rows:
            shown = ", ".join(map(str, rows[:8])) + (", …" if len(rows) > 8 else "")
            message += f" (rows {shown} of the data set)"
        return Sign(
            judgement.name,
            judgement.level,
            message,
            judgement.why,
            judgement.help,
            judgement.page,
            step,
            self._location,
            path,
        )

    def _save(self, judgement: Judgement, call: int, step: int) -> tuple[str, tuple[int, ...] | None]:
        """Keep the batch of a call in a file; the one before it if that has already made weights NaN."""
        held = {each: (batch, rows) for each, batch, rows, _ in self._batches}
        if judgement.name not in WITH_BATCH or call not in held or self._saved == SAVED_BATCHES:
            return "", None
        if judgement.name == "non-finite" and call - 1 in held and not self._weights_are_finite():
            call -= 1
        batch, rows = held[call]
        rows = tuple(rows) if rows is not None else rows_in(batch)
        path = str(Path(self._folder, f"lintrain-batch-{step}.pt"))
        loss = self.history.recent[-1][1] if self.history.recent and judgement.name == "spike" else math.nan
        if save_batch(path, SavedBatch(batch, rows, step, loss)):
            return "", rows
        self._saved += 1
        return path, rows

    def _weights_are_finite(self) -> bool:
        weights = [each for optimizer in self._ours for group in optimizer.param_groups for each in group["params"]]
        return is_finite(weights)


def _weakly(run: WholeRun) -> Callable[..., None]:
    """A hook that ends nothing's life late: an optimizer may outlive a watched run."""
    reference = weakref.ref(run)

    def before_step(optimizer: Any, *_given: Any) -> None:
        found = reference()
        if found is not None:
            found.on_step(optimizer)

    return before_step
