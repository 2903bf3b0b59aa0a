"""Signs that nothing was learned: predictions that are no better than one answer for every row, after a long time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from statistics import mean, pstdev

from lintrain.callbacks.history import HeadHistory, History, Sample
from lintrain.doctor.judgement import Judgement, short
from lintrain.model.level import Level

LEARNING = 500
"""Losses before it is asked whether anything was learned."""

ROWS = 400
"""Rows that predictions are judged by."""

LATEST = 24
"""The samples at the end that are enough to judge, where short steps leave few of them."""


def not_learned(history: History) -> Iterator[Judgement]:
    """Class predictions that are no better than one answer for every row, after a long time."""
    if history.count < LEARNING or history.rates.is_rising:
        return
    for head in history.heads.values():
        if head.classes == 0:
            yield from _one_number(head)
            continue
        yield from _one_answer(history, head)


def _one_answer(history: History, head: HeadHistory) -> Iterator[Judgement]:
    """A loss that is no better than that of the shares of the classes, in all samples that are kept or the latest."""
    samples = list(head.samples)
    for window in (samples if len(samples) >= 40 else [], _latest(samples)):
        targets = Counter(value for sample in window for value in sample.targets)
        losses = [value for sample in window for value in sample.losses]
        rows, half = len(losses), len(losses) // 2
        if rows < ROWS or len(targets) > rows / 20:
            continue
        constant = -sum(count / rows * math.log(count / rows) for count in targets.values())
        if constant > 0.1 and min(mean(losses[:half]), mean(losses[half:])) >= 0.995 * constant:
            yield Judgement(
                "no-progress",
                Level.WARNING,
                f"after {history.count:,} batches the loss is no better than that of one answer for every row:"
                f" {short(mean(losses))}, and {short(constant)} for the shares of the {len(targets)} classes",
                "The model tells no classes apart, or no longer does.",
                "see whether one batch can be learned (`lintrain probe --also overfit`), then the rate, labels and"
                " inputs",
                page="cannot-overfit-batch",
            )
            return


def _latest(samples: list[Sample]) -> list[Sample]:
    """The last samples if they are from as many losses as learning takes; short steps leave time for few."""
    last = samples[-LATEST:]
    return last if len(last) == LATEST and last[-1].step - last[0].step >= LEARNING else []


def _one_number(head: HeadHistory) -> Iterator[Judgement]:
    outputs, targets = head.rows("predictions"), head.rows("targets")
    if len(outputs) < ROWS or len(head.samples) < 40:
        return
    if pstdev(outputs) <= 0.02 * pstdev(targets):
        yield Judgement(
            "collapsed",
            Level.WARNING,
            f"every row is answered with about {short(mean(outputs))}; the targets go from {short(min(targets))} to"
            f" {short(max(targets))}",
            "Outputs that do not depend on the rows come from dead activations, a rate that is too high, or inputs"
            " that are all alike.",
            "look at the activations of one batch with `lintrain probe`; scale inputs and targets; lower the rate",
            page="constant-output",
        )
