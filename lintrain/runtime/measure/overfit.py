"""What overfitting one batch has in common in every framework: its rates, its time limit, and its evidence."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from lintrain.evidence.run import OverfitEvidence, StageName
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.model import base_model, task_of

FACTORS = (1.0, 10.0, 0.1)
"""Every descent starts from the same weights, at the peak learning rate times one of these."""
SECONDS = 120.0

Classes = tuple[int | None, int | None]
"""How many classes the model predicts on the batch, and how many the batch holds; None if it has no such labels."""


class Descents:
    """Runs of steps on one batch, one for each factor in turn."""

    def __init__(self, run: MeasuredRun, steps: int) -> None:
        self._run = run
        self._steps = steps
        self._ends = time.perf_counter() + SECONDS
        self._series: list[tuple[float, ...]] = []
        self._classes: Classes = (None, None)

    def descend(self, take_step: Callable[[], float], classes: Callable[[], Classes]) -> None:
        """Take the steps; `take_step` gives the loss before it, `classes` is asked after those at the peak rate."""
        losses: list[float] = []
        each = self._steps + 1
        for step in range(each):
            losses.append(take_step())
            self._run.progress(StageName.OVERFIT, len(self._series) * each + step, len(FACTORS) * each)
            if self._is_late():
                break
        if not self._series:
            self._classes = classes()
        self._series.append(tuple(losses))

    def evidence(self, rate: float, rows: int) -> OverfitEvidence:
        """What came of them all."""
        at_rate, at_ten_times, at_a_tenth = self._series
        predicted, there = self._classes
        return OverfitEvidence(
            steps=self._steps,
            losses=at_rate,
            losses_at_ten_times=at_ten_times,
            losses_at_a_tenth=at_a_tenth,
            learning_rate=rate,
            predicted_classes=predicted,
            batch_classes=there,
            rows=rows,
            stopped_early=self._is_late(),
        )

    def _is_late(self) -> bool:
        return time.perf_counter() > self._ends


def classes_in_batch(run: MeasuredRun, batch: Any, output: Any) -> Classes:
    """The classes that a head of one label predicts, and those of the batch."""
    labels = batch.get("labels") if hasattr(batch, "get") else None
    logits = getattr(output, "logits", None)
    if task_of(base_model(run.model)) != "SequenceClassification" or labels is None or logits is None:
        return None, None
    return classes_of(logits, labels)


def classes_of(logits: Any, labels: Any) -> Classes:
    """As above, of logits [rows, classes] and labels int64 [rows]; several labels at once have two dimensions."""
    if logits.ndim != 2 or logits.shape[1] < 2 or labels.ndim != 1:
        return None, None
    return len(set(logits.argmax(dim=1).tolist())), len(set(labels.tolist()))


def rows_of(batch: Any) -> int:
    """The rows of a batch with names; 0 if it has none."""
    values = batch.values() if is_mapping(batch) else ()
    return next((int(value.shape[0]) for value in values if getattr(value, "ndim", 0)), 0)
