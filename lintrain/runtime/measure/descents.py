"""Overfitting one batch, in every framework: the rates and the time limit, and what the model predicts afterwards."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lintrain.evidence.run import BatchAnswers, OverfitEvidence, StageName
from lintrain.runtime.child.library import attribute, has, is_mapping, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.model import base_model, task_of
from lintrain.runtime.measure.predictions import IGNORED

FACTORS = (1.0, 10.0, 0.1)
"""Every descent starts from the same weights, at the peak learning rate times one of these."""
SOUND_RATES = (1e-3, 1e-2, 1e-4)
"""Those of a fresh Adam, tried one after the other where no rate of the run's own optimizer learns the batch."""
LEARNS = 0.9
"""The last loss as a share of the first one from which a batch counts as not learned."""
SECONDS = 120.0
MOST_CLASSES = 1_000
"""Of more, as those of a vocabulary, the predicted ones are not counted."""


class Descents:
    """Runs of steps on one batch, one for each factor in turn."""

    def __init__(self, run: MeasuredRun, steps: int) -> None:
        self._run = run
        self._steps = steps
        self._ends = time.perf_counter() + SECONDS
        self._series: list[tuple[float, ...]] = []
        self._fresh: dict[float, tuple[float, ...]] = {}
        self._fresh_rate: float | None = None
        self._answers = BatchAnswers()

    def descend(self, take_step: Callable[[], float], answers: Callable[[], BatchAnswers]) -> None:
        """Take the steps; `take_step` gives the loss before it, `answers` is asked after those at the peak rate."""
        losses: list[float] = []
        each = self._steps + 1
        for step in range(each):
            losses.append(take_step())
            done = min(len(self._series), len(FACTORS) - 1) * each + step
            self._run.progress(StageName.OVERFIT, done, len(FACTORS) * each)
            if self._is_late():
                break
        if not self._series:
            self._answers = answers()
        if self._fresh_rate is not None:
            self._fresh[self._fresh_rate] = tuple(losses)
        else:
            self._series.append(tuple(losses))

    def sound_optimizers(self, weights: Iterable[Any]) -> Iterator[Any]:
        """Fresh ones for the weights that train, until one learns the batch; none if a rate of the run has."""
        # A batch that no tried rate learns says nothing yet: the script's optimizer may hold too few of the weights, or
        # its own state may be at fault. One that knows nothing of it tells the model from the optimizer.
        trained = [weight for weight in weights if weight.requires_grad]
        for rate in SOUND_RATES:
            if not trained or self._is_late() or self._has_learned():
                return
            self._fresh_rate = rate
            yield library("torch.optim").Adam(trained, lr=rate)

    def _has_learned(self) -> bool:
        series = [each for each in (*self._series, *self._fresh.values()) if each]
        return any(math.isfinite(each[-1]) and each[-1] <= LEARNS * each[0] for each in series)

    def evidence(self, rate: float, rows: int) -> OverfitEvidence:
        """What came of them all."""
        at_rate, at_ten_times, at_a_tenth = self._series
        answers = self._answers
        # A rate whose loss is not finite in the end has diverged, and is not the best one however low it was before.
        finite = {rate: each for rate, each in self._fresh.items() if each and math.isfinite(each[-1])}
        fresh_rate = min(finite, key=lambda rate: finite[rate][-1], default=None)
        return OverfitEvidence(
            steps=self._steps,
            losses=at_rate,
            losses_at_ten_times=at_ten_times,
            losses_at_a_tenth=at_a_tenth,
            learning_rate=rate,
            predicted_classes=len(answers.predicted) or None,
            batch_classes=len(answers.wanted) or None,
            rows=rows,
            stopped_early=self._is_late(),
            fresh_rate=fresh_rate,
            losses_of_fresh=finite[fresh_rate] if fresh_rate is not None else (),
            answers=answers,
        )

    def _is_late(self) -> bool:
        return time.perf_counter() > self._ends


def answers_in_batch(run: MeasuredRun, batch: Any, output: Any) -> BatchAnswers:
    """What a model answers to a batch with names, where the batch has the labels and the output the logits."""
    labels: Any = batch.get("labels") if has(batch, "get") else None
    logits: Any = output.get("logits") if is_mapping(output) else attribute(output, "logits", None)
    if not has(labels, "ndim") or not has(logits, "ndim"):
        return BatchAnswers()
    if task_of(base_model(run.model)) == "CausalLM" and logits.ndim == 3:
        logits, labels = logits[:, :-1], labels[:, 1:]
    return answers_of(logits, labels)


def answers_of(logits: Any, labels: Any, ignored: int = IGNORED) -> BatchAnswers:
    """As above, of logits [rows, …, classes] and labels int64 [rows, …], or logits [rows, classes, …] of a loss."""
    if labels.is_floating_point() or logits.ndim != labels.ndim + 1 or not labels.numel():
        return BatchAnswers()
    if logits.shape[:-1] != labels.shape and logits.shape[:1] + logits.shape[2:] == labels.shape:
        logits = logits.movedim(1, -1)
    if logits.shape[:-1] != labels.shape or logits.shape[-1] < 2:
        return BatchAnswers()
    is_scored = labels != ignored
    predicted, wanted = logits.detach().argmax(dim=-1)[is_scored], labels[is_scored]
    if not wanted.numel():
        return BatchAnswers()
    accuracy = int((predicted == wanted).sum()) / wanted.numel()
    if logits.shape[-1] > MOST_CLASSES:
        return BatchAnswers(accuracy=accuracy)
    return BatchAnswers(_counted(predicted), _counted(wanted), accuracy)


def _counted(classes: Any) -> tuple[tuple[int, int], ...]:
    return tuple(sorted(Counter(map(int, classes.tolist())).items()))
