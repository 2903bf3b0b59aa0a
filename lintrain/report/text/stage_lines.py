"""What a stage measured in several short lines under its own, aligned: the schedule as a picture, and the extras."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.evidence.run import Evidence
from lintrain.report.text.columns import clip, columns, printable, wrap
from lintrain.report.text.extra_stages import Line, lines_of_extra
from lintrain.report.text.followed import followed
from lintrain.report.text.schedule_line import is_constant, picture_of, rates_said
from lintrain.report.text.style import Style

SHORTEST = 10
"""Columns that names take at least, so that those of several stages stand below each other."""
LONGEST = 20
"""And at most: classes of metrics have long names."""


def lines_below(evidence: Evidence, name: str, style: Style) -> list[Line]:
    """What stands below the first line of a stage."""
    schedule = evidence.schedule
    if name == "step" and evidence.step is not None and schedule is not None and not is_constant(schedule):
        return [("rate", f"{picture_of(schedule, style)} over {schedule.steps} steps"), ("", rates_said(schedule))]
    return []


def aligned(lines: list[Line], indent: int, style: Style) -> Iterator[str]:
    """Lines under one another from a column on: names first, and what was measured in a column of its own."""
    named = [(clip(printable(name), LONGEST), text) for name, text in lines]
    width = max(SHORTEST, *(columns(name) for name, _ in named))
    for name, text in named:
        first, *rest = wrap(printable(text), 0, 0, max(style.width - indent - width - 2, 20))
        yield f"{style.paint(f'{name:<{width}}', dim=True)}  {first}"
        for line in rest:
            yield " " * (width + 2) + line


def extra_lines(evidence: Evidence, name: str) -> list[Line]:
    """The lines of a stage that was measured on request, or of an evaluation that was followed; none for the others."""
    if name == "evaluation" and evidence.evaluation is not None and evidence.evaluation.is_followed:
        return followed(evidence.evaluation)
    return list(_overfit(evidence)) if name == "overfit" else lines_of_extra(evidence, name)


def _overfit(evidence: Evidence) -> Iterator[Line]:
    """The loss at each of the rates, the one of the run first."""
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
        yield f"at {at:.2g}", f"loss {losses[0]:.3f} to {losses[-1]:.3f}{where}"
