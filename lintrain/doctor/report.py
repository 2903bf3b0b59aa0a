"""The report of a run: its judgements with their curves, for a terminal, as JSON and as a page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lintrain._version import __version__
from lintrain.doctor.judgement import Judgement, short
from lintrain.doctor.record import Curve, Role, RunRecord
from lintrain.report.page.charts import Series, curve
from lintrain.report.page.markup import Markup, tag, whole_page, with_code
from lintrain.report.text.style import Style, printable, wrap

BLOCKS, LETTERS = "▁▂▃▄▅▆▇█", "_.,-=+*#"
CELLS = 40
SHOWN = (Role.LOSS, Role.EVAL_LOSS, Role.RATE, Role.NORM, Role.EVAL_SCORE)
"""The curves that are shown of a run, in this order."""

FORMAT = 1


def shown_curves(run: RunRecord) -> list[Curve]:
    """The curves that a reader looks at first."""
    return [found for role in SHOWN if (found := run.of(role)) is not None]


def text_report(run: RunRecord, judgements: Sequence[Judgement], style: Style) -> Iterator[str]:
    """The lines of a report for a terminal."""
    yield f"{printable(run.path)}: {_summary(run)}"
    curves = shown_curves(run)
    width = max((len(printable(each.name)) for each in curves), default=0)
    yield from (f"  {printable(each.name):{width}}  {picture(each, style)}  {_ends(each)}" for each in curves)
    yield from (f"  note: {printable(note)}" for note in run.notes)
    for judgement in judgements:
        yield ""
        head = f"{judgement.level}[{judgement.name}]"
        first, *rest = wrap(f"{head} {printable(judgement.message)}", 0, 2, style.width)
        yield first.replace(head, style.level(judgement.level, head), 1)
        yield from (f"  {line}" for line in rest)
        yield from _remark("why", judgement.why, style)
        yield from _remark("help", judgement.help, style)
        if judgement.page:
            yield from _remark("page", f"`lintrain explain {judgement.page}`", style)
    yield ""
    yield _closing(run, judgements)


def _summary(run: RunRecord) -> str:
    planned = f" of {run.planned_steps:,}" if run.planned_steps else ""
    steps = f", {run.last_step:,.0f}{planned} steps" if run.curves else ""
    return f"{run.kind}, {len(run.curves)} curve{'' if len(run.curves) == 1 else 's'}{steps}"


def _ends(found: Curve) -> str:
    values = found.finite.values
    bad = len(found) - len(values)
    ends = f"{short(values[0])} to {short(values[-1])}" if values else "no finite value"
    return ends + (f", {bad} not finite" if bad else "")


def _closing(run: RunRecord, judgements: Sequence[Judgement]) -> str:
    if judgements:
        return f"{len(judgements)} thing{'s' if len(judgements) > 1 else ''} to look at"
    return "nothing stands out" if run.curves else "nothing could be read"


def _remark(label: str, text: str, style: Style) -> Iterator[str]:
    first, *rest = wrap(printable(text), len(label) + 6, len(label) + 6, style.width)
    yield f"  {style.paint('=', 'blue', bold=True)} {style.paint(label, bold=True)}: {style.code(first)}"
    yield from (" " * (len(label) + 6) + style.code(line) for line in rest)


def picture(found: Curve, style: Style, cells: int = CELLS) -> str:
    """A bar for each part of the run, from the lowest to the highest value; `!` where a value is not finite."""
    signs = BLOCKS if style.unicode else LETTERS
    values = found.finite.values
    low, high = min(values, default=0.0), max(values, default=0.0)
    parts = (
        [
            found.values[
                cell * len(found) // cells : max((cell + 1) * len(found) // cells, cell * len(found) // cells + 1)
            ]
            for cell in range(min(cells, len(found)))
        ]
        if len(found) >= cells
        else [[value] for value in found.values]
    )
    return "".join(_sign(part, low, high, signs) for part in parts)


def _sign(part: Sequence[float], low: float, high: float, signs: str) -> str:
    if not part or not all(map(math.isfinite, part)):
        return "!"
    share = (sum(part) / len(part) - low) / ((high - low) or 1.0)
    return signs[min(int(share * len(signs)), len(signs) - 1)]


def as_plain(run: RunRecord, judgements: Sequence[Judgement]) -> Mapping[str, Any]:
    """The report as JSON holds it; the curves are those of the judgements and those that are shown."""
    named = {name for judgement in judgements for name in judgement.curves} | {each.name for each in shown_curves(run)}
    return {
        "format": FORMAT,
        "lintrain": __version__,
        "run": {
            "path": run.path,
            "kind": run.kind,
            "steps": run.last_step,
            "planned_steps": run.planned_steps,
            "script": run.script,
            "notes": list(run.notes),
        },
        "judgements": [
            {
                "name": each.name,
                "level": each.level.value,
                "message": each.message,
                "why": each.why,
                "help": each.help,
                "curves": list(each.curves),
                "page": each.page,
            }
            for each in judgements
        ],
        "curves": {
            each.name: [
                [point.step, point.value if math.isfinite(point.value) else str(point.value)] for point in each.points
            ]
            for each in run.curves
            if each.name in named
        },
    }


def page(run: RunRecord, judgements: Sequence[Judgement]) -> str:
    """The report as HTML: each judgement with its curves, then those of the run."""
    by_name = {each.name: each for each in run.curves}
    return whole_page(
        f"{run.path}: lintrain doctor",
        tag(
            "header",
            tag("p", "lintrain doctor", class_="where"),
            tag("h1", tag("code", run.path)),
            tag("p", _summary(run)),
        ),
        tag(
            "main",
            (_section(each, by_name) for each in judgements),
            tag("section", tag("h2", "Curves"), (_chart([each]) for each in shown_curves(run))),
            (tag("p", note) for note in run.notes),
        ),
        tag("footer", tag("p", f"lintrain {__version__}: {_closing(run, judgements)}")),
    )


def _section(judgement: Judgement, by_name: Mapping[str, Curve]) -> Markup:
    curves = [by_name[name] for name in judgement.curves if name in by_name]
    are_alike = len(curves) == 2 and all(each.role in (Role.LOSS, Role.EVAL_LOSS) for each in curves)
    return tag(
        "section",
        tag("h2", f"{judgement.level}: ", with_code(judgement.message)),
        tag("p", with_code(judgement.why)),
        tag("p", "Help: ", with_code(judgement.help)),
        [_chart(curves)] if are_alike else [_chart([each]) for each in curves],
    )


def _chart(curves: Sequence[Curve]) -> Markup:
    title = " and ".join(each.name for each in curves)
    series = [Series(each.name, tuple((point.step, point.value) for point in each.points)) for each in curves]
    return tag("figure", tag("figcaption", title), curve(title, "step", series))
