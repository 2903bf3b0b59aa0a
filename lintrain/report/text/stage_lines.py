"""The aligned lines below the first line of a stage, and the learning rate as a small chart."""

from __future__ import annotations

import math
from collections.abc import Iterator

from lintrain.evidence.run import Evidence, ScheduleEvidence
from lintrain.report.text.columns import clip, columns, printable, wrap
from lintrain.report.text.extra_stages import Line, followed, lines_of_extra
from lintrain.report.text.style import Style

SHORTEST = 10
"""The least width of labels, which aligns the lines of several stages."""
LONGEST = 20
"""The largest width of labels: names of metric classes are long."""


def lines_below(evidence: Evidence, name: str, style: Style) -> list[Line]:
    """The lines below the first line of a stage."""
    schedule = evidence.schedule
    if name == "step" and evidence.step is not None and schedule is not None and not is_constant(schedule):
        return [("rate", f"{picture_of(schedule, style)} over {schedule.steps} steps"), ("", rates_at_shares(schedule))]
    return []


def aligned(lines: list[Line], indent: int, style: Style) -> Iterator[str]:
    """Lines in two aligned columns: labels, and what was measured."""
    named = [(clip(printable(name), LONGEST), text) for name, text in lines]
    width = max(SHORTEST, *(columns(name) for name, _ in named))
    for name, text in named:
        first, *rest = wrap(printable(text), 0, 0, max(style.width - indent - width - 2, 20))
        yield f"{style.paint(f'{name:<{width}}', dim=True)}  {first}"
        for line in rest:
            yield " " * (width + 2) + line


def extra_lines(evidence: Evidence, name: str) -> list[Line]:
    """The lines of an extra stage, or of an evaluation that the script ran itself; none for other stages."""
    if name == "evaluation" and evidence.evaluation is not None and evidence.evaluation.is_followed:
        return followed(evidence.evaluation)
    return list(_overfit(evidence)) if name == "overfit" else lines_of_extra(evidence, name)


def _overfit(evidence: Evidence) -> Iterator[Line]:
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
        yield f"at {at:.2g}", f"loss {losses[0]:.3f} to {losses[-1]:.3f}{where}"


SHARES = (0.0, 0.1, 0.5, 0.9, 1.0)
BLOCKS = "▁▂▃▄▅▆▇█"
LETTERS = "_.,-=+*#"
"""The same number of heights for ASCII terminals."""
CELLS = 24


def picture_of(schedule: ScheduleEvidence, style: Style, cells: int = CELLS) -> str:
    """A bar for each part of the run, as high as the rate; the lowest bar means 0."""
    signs = BLOCKS if style.unicode else LETTERS
    rates = [schedule.rate_at(cell / (cells - 1)) for cell in range(cells)]
    return "".join(_sign(rate / schedule.highest if schedule.highest > 0 else 0.0, signs) for rate in rates)


def _sign(share: float, signs: str) -> str:
    if not math.isfinite(share):
        return "?"
    return signs[0] if share <= 0 else signs[max(1, min(math.ceil(share * (len(signs) - 1)), len(signs) - 1))]


def rates_at_shares(schedule: ScheduleEvidence) -> str:
    """The learning rate at 0, 10, 50, 90 and 100 percent of the run."""
    return ", ".join(f"{_short(schedule.rate_at(share))} at {share:.0%}" for share in SHARES)


def _short(rate: float) -> str:
    return f"{rate:.2g}"


def is_constant(schedule: ScheduleEvidence) -> bool:
    """Whether the rate never changes."""
    return all(rate == schedule.highest for _, rate in schedule.rates)
