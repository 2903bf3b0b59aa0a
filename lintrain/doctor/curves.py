"""What the curves of a run show: each judgement with its figures, and none where a sound run could look the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from lintrain.doctor.judgement import ENOUGH, FEW, Judgement, at, first_and_last, middle, short
from lintrain.doctor.pace import judge_end, judge_log, judge_schedule, judge_time
from lintrain.doctor.record import Curve, Point, Role, RunRecord
from lintrain.model.level import Level


def judge_curves(run: RunRecord) -> list[Judgement]:
    """Every judgement about a run; what follows from another one is left out."""
    found = [judgement for judge in JUDGES for judgement in judge(run)]
    names = {judgement.name for judgement in found}
    return [judgement for judgement in found if not names & FOLLOWS_FROM.get(judgement.name, frozenset())]


FOLLOWS_FROM = {
    "no-gradient": frozenset({"zero-loss"}),
    "no-progress": frozenset({"non-finite", "rate-zero", "no-gradient", "constant-loss", "zero-loss"}),
    "constant-loss": frozenset({"non-finite", "rate-zero", "no-gradient", "zero-loss"}),
    "zero-loss": frozenset({"non-finite"}),
    "plateau": frozenset(
        {"non-finite", "no-progress", "rate-zero", "rate-ends-early", "diverged", "constant-loss", "no-gradient"}
    ),
    "diverged": frozenset({"non-finite"}),
    "loss-spikes": frozenset({"diverged"}),
    "constant-score": frozenset({"non-finite", "rate-zero", "constant-loss", "no-gradient"}),
    "overfitting": frozenset({"diverged"}),
}
"""The judgements that say nothing more where one of the others is made."""


def _non_finite(run: RunRecord) -> Iterator[Judgement]:
    norm = run.of(Role.NORM)
    for curve in (run.of(Role.LOSS), run.of(Role.EVAL_LOSS), norm):
        bad = [point for point in curve.points if not math.isfinite(point.value)] if curve else []
        if not curve or not bad:
            continue
        lasts = len(bad) == sum(point.step >= bad[0].step for point in curve.points)
        word = "NaN" if math.isnan(bad[0].value) else "infinite"
        when = f"from {at(bad[0])} on" if lasts else f"at {len(bad)} of {len(curve)} points, first at {at(bad[0])}"
        if not lasts and curve is norm:
            continue  # a gradient scaler skips such a step, and goes on with a smaller scale
        yield Judgement(
            "non-finite",
            Level.ERROR if lasts else Level.WARNING,
            f"`{curve.name}` is {word} {when}{_norm_before(norm, bad[0])}",
            "No step after it trains anything: once weights are NaN, every later loss is NaN too.",
            "look at the batch before it with `lintrain probe`; lower the learning rate, clip gradients, or use bf16",
            (curve.name, *((norm.name,) if norm and norm is not curve else ())),
        )
        return


def _norm_before(norm: Curve | None, bad: Point) -> str:
    before = [point for point in norm.finite.points if point.step < bad.step] if norm else []
    if len(before) < FEW:
        return ""
    usual = middle([point.value for point in before[:-1]])
    times = before[-1].value / usual if usual else 0.0
    return f"; the gradient norm before was {short(before[-1].value)}" + (
        f", {times:.3g} times the usual one" if times >= 3 else ""
    )


def _zero_or_constant(run: RunRecord) -> Iterator[Judgement]:
    loss, norm = run.of(Role.LOSS), run.of(Role.NORM)
    values = loss.finite.values if loss else []
    if loss is None or len(values) < FEW or max(values) != min(values):
        return
    if values[0] == 0 and norm and any(not math.isfinite(value) for value in norm.values):
        yield Judgement(
            "non-finite",
            Level.ERROR,
            f"`{norm.name}` is not finite, and the logged loss is 0",
            "The Trainer leaves losses that are NaN out of its averages, so a run that is lost shows a loss of 0.",
            "set `logging_nan_inf_filter=False` to see it, and look at the first batch with `lintrain probe`",
            (loss.name, norm.name),
        )
    elif values[0] == 0:
        yield Judgement(
            "zero-loss",
            Level.ERROR,
            f"`{loss.name}` is 0 at all {len(values)} points",
            "A loss of exactly 0 from the start means that nothing is scored: every label is ignored (-100).",
            "look at the labels of one batch: `lintrain probe` shows what is scored",
            (loss.name,),
            "fully-masked-labels",
        )
    else:
        yield Judgement(
            "constant-loss",
            Level.ERROR,
            f"`{loss.name}` is {short(values[0])} at all {len(values)} points",
            "A loss that never changes means that no weight changes, or that it does not depend on the model.",
            "see that the optimizer holds the parameters of the model, and that the loss has a graph",
            (loss.name,),
            "missing-parameters",
        )


def _no_gradient(run: RunRecord) -> Iterator[Judgement]:
    norm = run.of(Role.NORM)
    if norm and len(norm) >= FEW and all(value == 0 for value in norm.values):
        yield Judgement(
            "no-gradient",
            Level.ERROR,
            f"`{norm.name}` is 0 at all {len(norm)} points",
            "No gradient reaches the weights, so nothing is trained.",
            "look for frozen parameters, `no_grad`, `detach()` or labels that are all ignored",
            (norm.name,),
        )


def _chance(run: RunRecord, value: float) -> str:
    """How a loss compares with a guess: the classes whose guess it is, in words; "" if it is none."""
    for classes in [run.classes] if run.classes else [2]:
        if classes and abs(value - math.log(classes)) <= 0.03 * math.log(classes):
            return f"ln {classes} = {math.log(classes):.3f}, which is a guess among {classes} classes"
    return ""


def _scores_above_chance(run: RunRecord) -> bool:
    """Whether an evaluation says that the model knows more than the loss shows."""
    score = run.of(Role.EVAL_SCORE)
    return score is not None and len(score.finite) > 0 and score.finite.values[-1] > 1 / (run.classes or 2) + 0.08


def _no_progress(run: RunRecord) -> Iterator[Judgement]:
    loss = run.of(Role.LOSS)
    values = loss.finite.values if loss else []
    if loss is None or len(values) < ENOUGH:
        return
    first, last = (middle(part) for part in first_and_last(values))
    chance = _chance(run, last)
    lowest = min(middle(values[number : number + 5]) for number in range(len(values) - 4))
    if chance and lowest > 0.9 * last and not _scores_above_chance(run):
        yield Judgement(
            "no-progress",
            Level.ERROR,
            f"`{loss.name}` stays at chance: {short(first)} at first, {short(last)} at the end ({chance})",
            "The model has learned nothing that tells the classes apart.",
            "see whether one batch can be learned (`lintrain probe --also overfit`), then the rate, labels and inputs",
            (loss.name,),
            "cannot-overfit-batch",
        )


def _plateau(run: RunRecord) -> Iterator[Judgement]:
    """The loss fell while the rate rose, and has not since: the rate at its height is too high to go on."""
    loss, rate = run.of(Role.LOSS), run.of(Role.RATE)
    if loss is None or rate is None or len(loss) < 2 * ENOUGH or len(rate) < ENOUGH:
        return
    peak = max(rate.points, key=lambda point: point.value)
    before = [point.value for point in loss.finite.points if point.step <= peak.step]
    after = [point.value for point in loss.finite.points if point.step > peak.step]
    if len(before) < FEW or len(after) < 1.5 * len(before) or not rate.points[0].value < 0.5 * peak.value:
        return
    start, (then, end) = middle(before[:2]), (middle(part) for part in first_and_last(after))
    if 0.98 * then < end and end > 0.5 * start > 0:
        yield Judgement(
            "plateau",
            Level.WARNING,
            f"`{loss.name}` has not fallen since the learning rate reached {short(peak.value)} at {at(peak)}:"
            f" {short(start)} at first, {short(then)} then, {short(end)} at the end",
            "A loss that stops falling while the rate is high, far from its end, is a sign of a rate that is too high.",
            "try a third of the learning rate, or `lintrain probe --also overfit` for what one batch allows",
            (loss.name, rate.name),
            "high-learning-rate",
        )


def _diverged(run: RunRecord) -> Iterator[Judgement]:
    loss = run.of(Role.LOSS)
    values = loss.finite.values if loss else []
    if loss is None or len(values) < ENOUGH:
        return
    first, last = (middle(part) for part in first_and_last(values))
    smooth = [middle(values[max(0, at_ - 2) : at_ + 3]) for at_ in range(len(values))]
    lowest = min(range(len(smooth)), key=smooth.__getitem__)
    if last > 1.5 * smooth[lowest] and last > 1.2 * first and min(first_and_last(values)[1]) > smooth[lowest]:
        share = _share_of_rate(run.of(Role.RATE), loss.finite.points[lowest])
        why, advice, page = BY_LARGE_STEPS
        if share is not None and share < SHARE_OF_AN_ENDED_RATE:
            why, advice, page = BY_OTHER_ROWS
        yield Judgement(
            "diverged",
            Level.ERROR,
            f"`{loss.name}` rises from {at(loss.finite.points[lowest])} on: {short(smooth[lowest])} there,"
            f" {short(last)} at the end",
            why,
            advice,
            (loss.name,),
            page,
        )


BY_LARGE_STEPS = (
    "The steps are too large for the loss, and each one makes it worse.",
    "lower the learning rate, warm it up, or clip gradients",
    "high-learning-rate",
)
BY_OTHER_ROWS = (
    "The learning rate nearly ends meanwhile, so large steps do not explain it: the later rows are harder, or their"
    " targets differ.",
    "shuffle the rows; compare the first with the last ones (`lintrain probe --also rows`)",
    "",
)

SHARE_OF_AN_ENDED_RATE = 0.2


def _share_of_rate(rate: Curve | None, lowest: Point) -> float | None:
    """The last learning rate as a share of that at a point; None if it is not known."""
    at_lowest = _value_near(rate, lowest) if rate else None
    return rate.finite.values[-1] / at_lowest if rate and at_lowest and len(rate.finite) >= ENOUGH else None


def _spikes(run: RunRecord) -> Iterator[Judgement]:
    loss, norm = run.of(Role.LOSS), run.of(Role.NORM)
    points = loss.finite.points if loss else ()
    if loss is None or len(points) < 2 * ENOUGH:
        return
    spikes = [point for number, point in enumerate(points) if number >= ENOUGH and _is_spike(points, number)]
    if not spikes:
        return
    worst = max(spikes, key=lambda point: point.value)
    usual = middle([point.value for point in points])
    beside = _value_near(norm, worst) if norm else None
    norms = middle(norm.finite.values) if norm else 0.0
    yield Judgement(
        "loss-spikes",
        Level.WARNING,
        f"`{loss.name}` jumps at {len(spikes)} of {len(points)} points, to {short(worst.value)} at {at(worst)}"
        f" where {short(usual)} is usual"
        + (f"; the gradient norm is {short(beside)} there, usually {short(norms)}" if beside else ""),
        "A jump comes from a few rows that are unlike the others (broken texts, wrong labels), or from a rate that is"
        " near its limit.",
        "clip gradients; find the rows with `lintrain probe`, or skip the batch",
        (loss.name, *((norm.name,) if norm else ())),
    )


def _is_spike(points: Sequence[Point], number: int) -> bool:
    """Whether a value is far out of the range of those before it."""
    before = [point.value for point in points[max(0, number - 20) : number]]
    usual = middle(before)
    spread = middle([abs(value - usual) for value in before])
    begun = middle([point.value for point in points[:FEW]])
    rise = points[number].value - usual
    return rise > max(0.4 * usual, 15 * spread, 0.1 * begun)


def _value_near(curve: Curve, point: Point) -> float | None:
    near = min(curve.finite.points, key=lambda each: abs(each.step - point.step), default=None)
    return near.value if near and abs(near.step - point.step) <= 1 else None


def _overfitting(run: RunRecord) -> Iterator[Judgement]:
    train, held_out = run.of(Role.LOSS), run.of(Role.EVAL_LOSS)
    points = held_out.finite.points if held_out else ()
    if held_out is None or len(points) < FEW:
        return
    best = min(range(len(points)), key=lambda number: points[number].value)
    later = points[best + 1 :]
    rises = sum(after.value > before.value for before, after in pairwise(points[best:]))
    if len(later) < 2:
        return
    last = later[-1].value
    # A noisy curve need not rise at each evaluation: all later ones are above those up to the best.
    around = max(point.value for point in points[max(0, best - 2) : best + 1])
    is_above = len(later) >= FEW and min(point.value for point in later) > 1.1 * around
    if last < 1.05 * points[best].value or (rises < 0.7 * len(later) and not is_above):
        return
    before = [p.value for p in train.finite.points if p.step <= points[best].step] if train else []
    after = [p.value for p in train.finite.points if p.step > points[best].step] if train else []
    if not before or not after or middle(first_and_last(after)[1]) > 0.95 * middle(before[-3:]):
        return
    yield Judgement(
        "overfitting",
        Level.WARNING,
        f"`{held_out.name}` rises since {at(points[best])}, from {short(points[best].value)} to"
        f" {short(last)}, while the training loss goes on falling",
        "From there on the model fits its training rows only.",
        f"keep the weights of {at(points[best])} (`load_best_model_at_end=True`), or stop early",
        (held_out.name, *((train.name,) if train else ())),
    )


def _apart(run: RunRecord) -> Iterator[Judgement]:
    """Evaluation far below training at every point: the same rows, or other rows than are meant."""
    train, held_out = run.of(Role.LOSS), run.of(Role.EVAL_LOSS)
    if train is None or held_out is None or len(held_out) < FEW or len(train) < FEW:
        return
    pairs = [
        (point, min(train.finite.points, key=lambda each: abs(each.step - point.step)))
        for point in held_out.finite.points
        if len(train.finite)
    ]
    late = pairs[len(pairs) // 2 :]
    if late and all(point.value < 0.5 * beside.value and beside.value > 0.1 for point, beside in late):
        point, beside = late[-1]
        yield Judgement(
            "eval-better-than-train",
            Level.NOTE,
            f"`{held_out.name}` is {short(point.value)} at {at(point)}, where `{train.name}` is"
            f" {short(beside.value)}: less than half at each evaluation",
            "Dropout and augmentation explain a part. So do evaluation rows that are training rows, or two losses that"
            " are averaged in different ways.",
            "`lintrain probe` compares the rows of both; compare the losses on the same rows in eval mode",
            (held_out.name, train.name),
            "train-data-in-eval",
        )


def _constant_score(run: RunRecord) -> Iterator[Judgement]:
    held_out = run.of(Role.EVAL_LOSS)
    for score in run.all_of(Role.EVAL_SCORE):
        values = score.finite.values
        moves = held_out is None or len(set(held_out.values)) > 1
        if len(values) >= FEW and len(set(values)) == 1 and 0 < values[0] < 0.9 and moves:
            yield Judgement(
                "constant-score",
                Level.WARNING,
                f"`{score.name}` is {values[0]:.6g} at each of {len(values)} evaluations",
                "A score that never moves by one row is that of a model that gives every row the same class.",
                "look at the predicted classes; see the labels, the learning rate and what the metric is given",
                (score.name,),
                "logits-in-metric",
            )
            return


JUDGES: tuple[Callable[[RunRecord], Iterator[Judgement]], ...] = (
    judge_log,
    _non_finite,
    _zero_or_constant,
    _no_gradient,
    judge_schedule,
    _no_progress,
    _diverged,
    _plateau,
    _spikes,
    _overfitting,
    _apart,
    _constant_score,
    judge_time,
    judge_end,
)
