"""Steps that a probe takes on its own account: on one repeated batch, and with several values of a setting."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lintrain.evidence.run import Evidence, OverfitEvidence, Trial, TrialsEvidence
from lintrain.report.text.extra_stages import Line
from lintrain.text import show_number

MOST_CLASSES = 8
NEARLY = 0.9
"""Of a rate that is tried: a schedule that comes so far has reached it."""
BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.,-=+*#"
"""The same number of heights for ASCII terminals."""


def bar_of(share: float, signs: str) -> str:
    """A bar as high as a share of the greatest height; `?` for no number."""
    if not math.isfinite(share):
        return "?"
    return signs[0] if share <= 0 else signs[max(1, min(math.ceil(share * (len(signs) - 1)), len(signs) - 1))]


def short_rate(rate: float) -> str:
    """A learning rate with two digits."""
    return f"{rate:.2g}"


def overfit_numbers(evidence: Evidence) -> str:
    """The loss of one batch at each rate, and what is predicted, in one line."""
    overfit = evidence.overfit
    if overfit is None or not overfit.losses or not overfit.losses_at_ten_times:
        return ""
    first, last, at_ten = overfit.losses[0], overfit.losses[-1], overfit.losses_at_ten_times[-1]
    falls = f"loss {show_number(first)} to {show_number(last)} in {overfit.steps} steps on {overfit.rows} rows"
    rates = [f"to {show_number(at_ten)} at ten times the rate"]
    rates += [f"to {show_number(last)} at a tenth of it" for last in overfit.losses_at_a_tenth[-1:]]
    return "; ".join([", ".join([falls, *rates]), *(text for _, text in _answers(overfit))])


LEARNED, FLAT = 0.6, 0.9
"""The last loss as a share of the first one up to which a batch is being learned, and above which it is not."""


def _answers(overfit: OverfitEvidence) -> Iterator[Line]:
    """What the model predicts after the steps at the rate of the run, and whether another rate learns the batch."""
    answers = overfit.answers
    scores = {"accuracy": answers.accuracy} if answers.accuracy is not None else {}
    named = ", ".join(f"{name} {show_number(value, '.3g')}" for name, value in {**scores, **answers.metrics}.items())
    if named:
        yield "then", f"{named} on these rows"
    if answers.wanted:
        rows = dict(answers.predicted)
        shown = [
            f"{rows.get(label, 0)} of class {label}" for label in sorted({*rows, *dict(answers.wanted)})[:MOST_CLASSES]
        ]
        predicted = f"{len(rows)} of {len({*rows, *dict(answers.wanted)})} classes are predicted"
        yield "classes", f"{predicted} ({', '.join(shown)})"
    if others := _rates_that_learn(overfit):
        yield "not learned", f"at the rate of the run; at {' and '.join(f'{rate:.2g}' for rate in others)} it is"


def _rates_that_learn(overfit: OverfitEvidence) -> list[float]:
    """The other rates at which the loss falls clearly, where that of the run does not reduce it by a tenth."""
    if not overfit.losses or not overfit.losses[0] > 0 or overfit.losses[-1] <= FLAT * overfit.losses[0]:
        return []
    rate = overfit.learning_rate
    series = {rate * 10: overfit.losses_at_ten_times, rate / 10: overfit.losses_at_a_tenth}
    if overfit.fresh_rate is not None:
        series[overfit.fresh_rate] = overfit.losses_of_fresh
    return [rate for rate, losses in series.items() if losses and losses[-1] <= LEARNED * losses[0]]


def overfit_lines(evidence: Evidence) -> Iterator[Line]:
    """The loss at each learning rate, starting with that of the run."""
    overfit = evidence.overfit
    if overfit is None or not overfit.losses:
        return
    rate = overfit.learning_rate
    series = (
        (rate, overfit.losses),
        (rate * 10, overfit.losses_at_ten_times),
        (rate / 10, overfit.losses_at_a_tenth),
    )
    for number, (at, losses) in enumerate(each for each in series if each[1]):
        where = f" in {overfit.steps} steps on {overfit.rows} rows" if number == 0 else ""
        yield f"at {at:.2g}", f"loss {show_number(losses[0])} to {show_number(losses[-1])}{where}"
    if overfit.fresh_rate is not None:
        first, last = overfit.losses_of_fresh[0], overfit.losses_of_fresh[-1]
        yield f"new Adam, {overfit.fresh_rate:.2g}", f"loss {show_number(first)} to {show_number(last)}"
    yield from _answers(overfit)


def trial_lines(evidence: Evidence, *, is_drawn: bool = True, signs: str = "") -> Iterator[Line]:
    """The losses with each value of a setting, as bars and from the first to the last step."""
    trials = evidence.trials
    if trials is None:
        return
    yield "tried", trials.where
    # As high as the first losses: where one rises, the bars of the others would be flat.
    highest = max((trial.losses[0] for trial in trials.trials if trial.losses), default=0.0)
    for trial in trials.trials:
        first = show_number(trial.losses[0]) if trial.losses else ""
        text = f"loss {first} to {show_number(trial.last)} in {len(trial.losses)} steps" if first else trial.error
        curve = "".join(bar_of(loss / highest if highest > 0 else 0.0, signs) for loss in trial.losses)
        yield trial.value, f"{curve} {text}{_short_of(trials, trial)}" if is_drawn and curve else text
    if trials.are_alike:
        yield "lowest", "none: the losses at the end are too close to each other to tell"
    elif trials.best is not None:
        rows = {True: " on the same batches", False: " on other batches in each run", None: ""}[trials.same_batches]
        yield "lowest", f"{trials.name} {trials.best.value}: {show_number(trials.best.last)} at the end{rows}"


def _short_of(trials: TrialsEvidence, trial: Trial) -> str:
    """How far a schedule comes in the few steps, where a rate is tried that it only approaches."""
    reached = trial.highest_rate
    if trials.name not in ("learning_rate", "lr") or reached is None:
        return ""
    try:
        wanted = float(trial.value)
    except ValueError:
        return ""
    return f", at a rate of up to {short_rate(reached)}" if reached < NEARLY * wanted else ""
