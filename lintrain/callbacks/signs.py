"""Signs of a mistake in the course of a whole run: each with its figures, and none where a sound run looks the same.

A sign that schedules, restarts, noise, several players or moving targets can bring about is left out. The thresholds
were chosen on half of the runs of `benchmarks/watch.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from statistics import mean, median, pstdev

from lintrain.callbacks.history import BLOCK, HeadHistory, History
from lintrain.callbacks.learned import LEARNING, ROWS, not_learned
from lintrain.doctor.curves import judge_curves
from lintrain.doctor.judgement import Judgement, short
from lintrain.doctor.record import Curve, Point, RunRecord
from lintrain.model.level import Level

LONG = 200
"""Losses over which something must last."""

FROZEN = 200
"""Losses over which no weight moved."""

WINDOWS, GROWING, FAR_AWAY = 8, 0.1, 1_000
"""Windows of samples in which targets grow, by what least logarithm in each, and by what factor since the first."""

GROWN = 1.5
"""By so much targets are larger than the first ones if it is they that move the loss."""

LONG_ALIKE = 30
"""Samples in a row, each of one batch."""

LONG_UNMOVED = 5
"""Comparisons without a change, when steps were rare before."""


def signs(history: History, *, is_alone: bool, is_thorough: bool) -> Iterator[Judgement]:
    """Every sign there is now.

    `is_alone` is whether one optimizer trains, so that no other player moves the loss; `is_thorough` asks for what
    takes longer too: predictions and evaluations.
    """
    if history.bad:
        yield from _non_finite(history)
        return
    judges = (*ALWAYS, *(ALONE if is_alone else ()))
    for judge in judges:
        if is_thorough or judge not in THOROUGH:
            yield from judge(history)


def _non_finite(history: History) -> Iterator[Judgement]:
    before = history.recent[-1][1] if history.recent else math.nan
    norm = history.norms.last
    yield Judgement(
        "non-finite",
        Level.ERROR,
        f"the loss is not finite at {history.named(history.bad_since)}"
        + (f"; it was {short(before)} before" if history.recent else "")
        + ("" if math.isnan(norm) else f", the gradient norm last read {short(norm)}"),
        "No step after it trains anything: once weights are NaN, every later loss is NaN too.",
        "look at the batch; lower the learning rate, clip gradients, or use bf16",
        page="nan-loss",
    )


def _bad_norms(history: History) -> Iterator[Judgement]:
    norms = history.norms
    if norms.bad >= 3:
        yield Judgement(
            "non-finite",
            Level.ERROR,
            f"the gradient norm has not been finite since {history.named(norms.bad_since)}",
            "Steps with such gradients make every weight NaN, or are skipped by a gradient scaler.",
            "look at the batch; lower the learning rate, or use bf16",
            page="nan-loss",
        )


def _rate_gone(history: History) -> Iterator[Judgement]:
    rates = history.rates
    if rates.vanished >= max(100, 0.05 * rates.count):
        whole = rates.peak == 0
        yield Judgement(
            "rate-zero",
            Level.ERROR,
            f"the learning rate has been {short(rates.last)} since {history.named(rates.vanished_since)}, and training"
            " goes on" + ("" if whole else f"; its peak was {short(rates.peak)}"),
            "No step since then moves a weight.",
            "compare the steps of the schedule with those of the run"
            + (" (`scheduler.step()` once per optimizer step or per epoch)" if not whole else ""),
            page="low-learning-rate" if whole else "schedule-unit-mismatch",
        )


def _unmoved(history: History) -> Iterator[Judgement]:
    if history.unmoved < LONG_UNMOVED or history.rates.vanished or _is_solved(history):
        return
    yield Judgement(
        "unchanged-weights",
        Level.ERROR,
        f"no weight has changed since {history.named(history.unmoved_since)}, and losses are still computed",
        "The optimizer does not step, its gradients are 0, or it holds other weights than the loss comes from.",
        "see that `optimizer.step()` runs, that a gradient scaler does not skip each step, and that the optimizer was"
        " made from these weights",
        page="unchanged-parameters",
    )


def _is_solved(history: History) -> bool:
    """Whether nothing is left to learn: losses of exactly 0, or gradients that have died away."""
    norms = history.norms
    is_flat = norms.count > 0 and 0 < norms.last <= 1e-5 * norms.largest
    return is_flat or median(history.last(BLOCK) or [0.0]) == 0


def _no_gradient(history: History) -> Iterator[Judgement]:
    norms = history.norms
    if norms.zeros >= 5 and not _is_solved(history):
        yield Judgement(
            "no-gradient",
            Level.ERROR,
            f"all gradients have been 0 since {history.named(norms.zero_since)}",
            "Nothing is trained: weight decay alone moves the weights.",
            "look for dead activations, `detach()`, gradients that are cleared before the step, or labels that are all"
            " ignored",
            page="vanishing-gradients",
        )


def _without_gradients(history: History) -> Iterator[Judgement]:
    if history.without >= 5:
        yield Judgement(
            "no-gradient",
            Level.ERROR,
            f"an optimizer steps, and since {history.named(history.without_since)} none of its weights has had a"
            " gradient",
            "Such a step changes nothing: the loss no longer depends on these weights.",
            "look for `detach()`, `no_grad()` or another model between these weights and the loss",
            page="unchanged-parameters",
        )


def _nothing_scored(history: History) -> Iterator[Judgement]:
    for head in history.heads.values():
        if head.is_scored and head.unscored >= 5:
            yield Judgement(
                "nothing-scored",
                Level.WARNING,
                f"no target has counted in the loss since {history.named(head.unscored_since)}: all are ignored",
                "Batches without a target train nothing.",
                "look at the labels of these batches, and at where the data ends",
                page="fully-masked-labels",
            )


def _jumps(history: History) -> Iterator[Judgement]:
    for what, spike in (("loss", history.spike), ("gradient norm", history.norm_spike)):
        if spike is not None and not (what == "loss" and _targets_move(history, 1)):
            step, value, largest = spike
            yield Judgement(
                "spike",
                Level.WARNING,
                f"the {what} jumps to {short(value)} at {history.named(step)}; the largest before was {short(largest)}",
                "A jump comes from a few rows that are unlike the others (broken texts, wrong labels, a scale), or from"
                " a rate that is near its limit.",
                "look at the rows of the batch; clip gradients",
                page="exploding-gradients",
            )
            return


def _runaway(history: History) -> Iterator[Judgement]:
    """A loss that grows beyond any scale of its beginning."""
    if history.is_negative or len(history.blocks) < 6 or _targets_move(history) or _sums_more(history):
        return
    last = history.blocks[-3:]
    if min(last) > 100 * history.start > 0 and last[-1] > last[0]:
        yield _diverged(history, last[-1], f"{short(last[-1] / history.start)} times its start")


def _rises(history: History) -> Iterator[Judgement]:
    """A loss that had fallen well below its start and is above it, or back there for long."""
    if history.is_negative or len(history.blocks) < 5 or _targets_move(history) or _sums_more(history):
        return
    start, (_, best) = history.start, history.best
    if not best <= 0.5 * start or start == 0:
        return
    lowest = sorted(history.last(BLOCK))[BLOCK // 4]
    later = history.blocks[-LONG // BLOCK :]
    if lowest > 1.3 * start:
        yield _diverged(history, lowest, "which is above its start")
    elif len(history.blocks) > 12 and min(later) >= 0.9 * start and later[-1] >= 0.97 * later[0]:
        yield _diverged(history, later[-1], "which is where it began")


def _targets_run_away(history: History) -> Iterator[Judgement]:
    """Targets that grow by the same factor again and again, as those that a network computes from its own outputs."""
    for head in history.heads.values():
        last = list(head.scales)[-WINDOWS - 1 :]
        if len(last) <= WINDOWS or not 0 < FAR_AWAY * head.scales[0] < last[-1]:
            continue
        steps = [math.log(after / before) if before else 0.0 for before, after in pairwise(last)]
        half = WINDOWS // 2
        # Values that approach a bound grow by less and less: rewards of 1 with a discount of 0.99 end at 100.
        if min(steps) > GROWING and mean(steps[half:]) > 0.9 * mean(steps[:half]):
            yield Judgement(
                "diverged",
                Level.WARNING,
                f"the targets of the loss have grown to {short(last[-1])}, {short(last[-1] / head.scales[0])} times"
                " their start, and still grow by the same factor",
                "Targets that come from the network's own outputs, such as Q-values, have no bound if each one is"
                " larger than the output that it is made from.",
                "see that the discount is below 1, that the last step of an episode adds no further value, and that"
                " targets come from a copy of the network that changes slowly; clip or scale rewards",
                page="undetached-target",
            )


def _diverged(history: History, now: float, what: str) -> Judgement:
    step, best = history.best
    return Judgement(
        "diverged",
        Level.WARNING,
        f"the loss has risen to {short(now)}, {what} ({short(history.start)}); the lowest was {short(best)} around"
        f" {history.named(step)}",
        "Steps that are too large, or rows and labels that are not those of before, undo what was learned.",
        "compare the batches before and after; lower the learning rate, warm it up, or clip gradients",
        page="high-learning-rate",
    )


def _targets_move(history: History, samples: int = 10) -> bool:
    """Whether a loss of numbers grows because its targets do, as those of a value function: in the last samples it is
    hardly worse than their mean, and they are larger than at first.
    """
    heads = [head for head in history.heads.values() if head.classes == 0 and head.samples]
    since = history.recent[-min(BLOCK, len(history.recent))][0] if history.recent else 0
    # Samples that are older than the losses do not show it: that is not known.
    return any(
        _error_share(head, samples) < 3 and (head.samples[-1].step < since or _has_grown(head, samples))
        for head in heads
    )


def _has_grown(head: HeadHistory, samples: int) -> bool:
    """Whether targets are larger than the first ones, and by no more than rewards that begin: another unit is none."""
    first = head.scales[0] if head.scales else 0.0
    # The largest of them: just after a change most samples are those of before.
    now = max(mean(map(abs, sample.targets)) for sample in list(head.samples)[-samples:])
    return first == 0 or GROWN * first < now < FAR_AWAY * first


def _sums_more(history: History) -> bool:
    """Whether a loss is a sum that grows with the number of its targets, and not with the loss of each of them."""
    heads = history.heads.values()
    return any(not head.is_mean for head in heads) and not any(head.grows() for head in heads)


def _error_share(head: HeadHistory, samples: int) -> float:
    """The squared error of the last samples as a multiple of their targets' variance."""
    last = list(head.samples)[-samples:]
    targets = [value for sample in last for value in sample.targets]
    losses = [value for sample in last for value in sample.losses]
    spread = pstdev(targets) ** 2 if len(targets) > 1 else 0.0
    return mean(losses) / spread if spread else math.inf


def _alike(history: History) -> Iterator[Judgement]:
    """Embeddings of different rows that have the same direction, for long."""
    if history.count >= LEARNING and history.alike >= LONG_ALIKE:
        yield Judgement(
            "collapsed",
            Level.WARNING,
            f"all rows have had the same embedding, but for its length, since {history.named(history.alike_since)}",
            "A loss of cosines between pairs that belong together is lowest where every row has one direction: such"
            " embeddings tell nothing apart.",
            "add pairs that do not belong together, or what else prevents this: a predictor with a stopped gradient,"
            " batch normalization, or a variance term",
            page="constant-output",
        )


def _one_class(history: History) -> Iterator[Judgement]:
    """Predictions that became one class for every row."""
    for head in history.heads.values():
        if head.classes == 0 or len(head.samples) < 40:
            continue
        predicted, targets = head.shares("predictions"), head.shares("targets")
        rows = sum(targets.values())
        head.was_varied |= max(predicted.values()) < 0.8 * rows
        if head.was_varied and rows >= ROWS and len(predicted) == 1 and max(targets.values()) < 0.7 * rows:
            yield Judgement(
                "collapsed",
                Level.WARNING,
                f"every row has been predicted as class {next(iter(predicted)):.0f} since step"
                f" {head.samples[0].step:,} or before; {len(targets)} classes are among the targets",
                "A model that separated the classes before was overrun by a step that was too large.",
                "go back to an earlier checkpoint; lower the learning rate, or clip gradients",
                page="constant-output",
            )


def _drift(history: History) -> Iterator[Judgement]:
    if len(history.evaluations) < 4:
        return
    steps = zip(history.block_steps, history.blocks, strict=True)
    loss = Curve("loss", tuple(Point(step, value) for step, value in steps))
    run = RunRecord("", "", (loss, Curve("eval_loss", tuple(history.evaluations))))
    for each in judge_curves(run):
        if each.name == "overfitting":
            yield Judgement(each.name, Level.NOTE, each.message, each.why, each.help)


ALWAYS: tuple[Callable[[History], Iterator[Judgement]], ...] = (
    _bad_norms,
    _rate_gone,
    _unmoved,
    _no_gradient,
    _without_gradients,
    _nothing_scored,
    _alike,
    _jumps,
    _runaway,
    _targets_run_away,
    _drift,
)
ALONE: tuple[Callable[[History], Iterator[Judgement]], ...] = (_rises, not_learned, _one_class)
THOROUGH = frozenset({_drift, not_learned, _one_class})
KINDS = frozenset(
    {
        "non-finite",
        "rate-zero",
        "unchanged-weights",
        "no-gradient",
        "nothing-scored",
        "spike",
        "diverged",
        "no-progress",
        "collapsed",
        "overfitting",
    }
)
"""What can be reported, for `select` and `ignore`."""
