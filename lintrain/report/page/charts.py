"""Charts as inline SVG: bars and curves. Every number of a chart is also in its text.

The pipeline as a diagram, with the status of each part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from lintrain.evidence.run import Evidence, Stage, StageName, StageText
from lintrain.report.page.markup import Markup, joined, tag
from lintrain.report.text.style import clip
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import show_number

WIDTH = 480
LABEL = 164
"""Room for the name of a bar."""
VALUE = 92
"""Room for its number."""
ROW = 22
LETTER = 7.2
"""The width of a character in charts."""
HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 210, 64, 16, 34, 34
TICKS = 4
WIDE = 50.0
"""Values that differ by more than this factor use a logarithmic scale."""


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar: its name, its length from 0 to 1, and its value as text; `is_marked` highlights it."""

    name: str
    share: float
    shown: str
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a curve: points of x and y."""

    name: str
    points: tuple[tuple[float, float], ...]

    @property
    def finite(self) -> tuple[tuple[float, float], ...]:
        """The points that can be drawn."""
        return tuple(point for point in self.points if math.isfinite(point[1]))


def bars(title: str, entries: Sequence[Bar]) -> Markup:
    """A horizontal bar chart, each bar with its name and its value."""
    height = ROW * len(entries) + 4
    spoken = "; ".join(f"{bar.name} {bar.shown}" for bar in entries)
    return tag(
        "svg",
        (_bar(bar, ROW * row) for row, bar in enumerate(entries)),
        viewBox=f"0 0 {WIDTH} {height}",
        role="img",
        aria_label=f"{title.replace('`', '')}: {spoken}",
        class_="chart",
    )


def _bar(bar: Bar, top: int) -> Markup:
    room = WIDTH - LABEL - VALUE - 20
    share = min(max(bar.share, 0.0), 1.0) if math.isfinite(bar.share) else 0.0
    name = _end_of(bar.name, int((LABEL - 8) / LETTER))
    return tag(
        "g",
        tag("title", f"{bar.name}: {bar.shown}"),
        tag("text", name, x=LABEL - 8, y=top + 16, text_anchor="end"),
        tag("rect", x=LABEL, y=top + 4, width=room, height=ROW - 7, rx=2, class_="track"),
        tag(
            "rect",
            x=LABEL,
            y=top + 4,
            width=round(max(share * room, 2.0 if share else 0.0), 1),
            height=ROW - 7,
            rx=2,
            class_="bar marked" if bar.is_marked else "bar",
        ),
        tag("text", bar.shown, x=LABEL + room + 8, y=top + 16, class_="number"),
    )


def _end_of(name: str, limit: int) -> str:
    """The part of a name that fits: layers differ at the end, classes at the beginning."""
    if len(name) <= limit or "." not in name:
        return clip(name, limit)
    return f"…{name[1 - limit :].lstrip('.')}"


def curve(title: str, across: str, series: Sequence[Series], *, by_powers: bool = False) -> Markup:
    """Lines over a common axis; a second is dashed, a third dotted, and several lines are named.

    With `by_powers` the axis is logarithmic if the values are far apart.
    """
    points = [point for line in series for point in line.finite]
    if len(points) < 2:
        return joined()
    scale = _scale_of(points) if by_powers else _Scale(points)
    ends = "; ".join(_spoken(line) for line in series)
    return tag(
        "svg",
        (_tick(scale, value) for value in scale.ticks),
        (_line(scale, line, number) for number, line in enumerate(series)),
        _axis(scale, across),
        (_name(line, number, len(series)) for number, line in enumerate(series) if len(series) > 1),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        aria_label=f"{title}: {ends}",
        class_="chart",
    )


class _Scale:
    """The coordinates of a curve; the vertical axis starts at 0 unless values are negative."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        self.first, self.last = min(x for x, _ in points), max(x for x, _ in points)
        self.low, self.high = min(0.0, *(y for _, y in points)), max(y for _, y in points)

    @property
    def ticks(self) -> list[float]:
        """The values of the grid lines, equally spaced."""
        return [self.low + (self.high - self.low) * number / TICKS for number in range(TICKS + 1)]

    def x(self, value: float) -> float:
        """The horizontal coordinate."""
        return round(LEFT + (WIDTH - LEFT - RIGHT) * (value - self.first) / ((self.last - self.first) or 1.0), 1)

    def y(self, value: float) -> float:
        """The vertical coordinate."""
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (self.high - value) / ((self.high - self.low) or 1.0), 1)


class _Powers(_Scale):
    """A logarithmic vertical axis for positive values."""

    def __init__(self, points: Sequence[tuple[float, float]]) -> None:
        super().__init__([(x, math.log10(y)) for x, y in points])
        self.low = math.floor(min(math.log10(y) for _, y in points))
        self.high = max(math.ceil(self.high), self.low + 1)

    def y(self, value: float) -> float:
        """The vertical coordinate."""
        return super().y(math.log10(value))

    @property
    def ticks(self) -> list[float]:
        """Powers of ten, every second or third if there are many."""
        step = math.ceil((self.high - self.low) / TICKS)
        return [10.0**power for power in range(int(self.low), int(self.high) + 1, step)]


def _scale_of(points: Sequence[tuple[float, float]]) -> _Scale:
    least, most = min(y for _, y in points), max(y for _, y in points)
    return _Powers(points) if least > 0.0 and most / least > WIDE else _Scale(points)


def _spoken(line: Series) -> str:
    if not line.points:
        return line.name
    highest = max((y for _, y in line.finite), default=math.nan)
    return f"{line.name} from {line.points[0][1]:.3g} to {line.points[-1][1]:.3g}, at most {highest:.3g}"


def _tick(scale: _Scale, value: float) -> Markup:
    y = scale.y(value)
    return joined(
        tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="grid"),
        tag("text", f"{value:.3g}", x=LEFT - 8, y=y + 4, text_anchor="end", class_="number"),
    )


def _line(scale: _Scale, line: Series, number: int) -> Markup:
    locations = " ".join(f"{scale.x(x)},{scale.y(y)}" for x, y in line.finite)
    return tag("polyline", points=locations, class_=f"line series{number}")


def _axis(scale: _Scale, across: str) -> Markup:
    y = HEIGHT - BOTTOM + 18
    return joined(
        tag("text", f"{scale.first:g}", x=LEFT, y=y, class_="number"),
        tag("text", f"{scale.last:g}", x=WIDTH - RIGHT, y=y, text_anchor="end", class_="number"),
        tag("text", across, x=(LEFT + WIDTH - RIGHT) / 2, y=y, text_anchor="middle"),
    )


def _name(line: Series, number: int, of: int) -> Markup:
    x, y = LEFT + (WIDTH - LEFT) // of * number, TOP - 20
    return joined(
        tag("line", x1=x, x2=x + 28, y1=y, y2=y, class_=f"line series{number}"),
        tag("text", line.name, x=x + 36, y=y + 4),
    )


BOX_WIDTH, BOX_HEIGHT, GAP = 164, 84, 24
LETTERS = 21
"""Characters per line of a box."""
SIGNS = {"passed": "✓", "failed": "✗", "not reached": "·"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the pipeline, and the stage that runs it."""

    title: str
    stage: StageName | StageText
    lines: tuple[str, ...]


def picture(evidence: Evidence, prefix: str) -> Markup:
    """The parts side by side, and again one below the other for narrow screens; each links to the row of its stage."""
    parts = parts_of(evidence)
    drawn = (_drawn(evidence, parts, prefix, is_tall=is_tall) for is_tall in (False, True))
    return tag("div", *drawn, class_="pipeline")


def parts_of(evidence: Evidence) -> tuple[Part, ...]:
    """From data to evaluation, preceded by the script or the construction if it failed."""
    before = tuple(
        Part(title, name, ())
        for title, name in (("script", StageName.SCRIPT), ("set-up", StageName.CONSTRUCTION))
        if (stage := evidence.stage(name)) and stage.status == "failed"
    )
    return (
        *before,
        Part("data", "dataset", _data(evidence)),
        Part("tokenizer, collator" if evidence.tokenizer else "collator", "batch", _collator(evidence)),
        Part("model", "forward", _model(evidence)),
        Part("loss, gradients", "backward", _loss(evidence)),
        Part("optimizer, schedule", "step", _optimizer(evidence)),
        Part("evaluation", "evaluation", _evaluation(evidence)),
    )


def _data(evidence: Evidence) -> tuple[str, ...]:
    names = {"train_dataset": "train", "eval_dataset": "eval", "test_dataset": "test"}
    rows = (
        f"{split.key or names.get(split.argument, split.argument)}: "
        + ("a stream" if split.rows is None else f"{split.rows:,} rows")
        for split in evidence.splits
    )
    return tuple(rows)[:2]


def _collator(evidence: Evidence) -> tuple[str, ...]:
    batch = evidence.batch()
    if batch is None:
        return ()
    shape = f"{list(batch.tensors[0].shape)}" if batch.tensors else ""
    return (batch.collator, shape)


def _model(evidence: Evidence) -> tuple[str, ...]:
    model = evidence.model
    return () if model is None else (model.name, f"{shortened(model.parameters)} weights")


def shortened(number: int) -> str:
    """A large number with three significant digits: 66.4 M."""
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= power:
            return f"{number / power:.3g} {letter}"
    return str(number)


def _loss(evidence: Evidence) -> tuple[str, ...]:
    forward, backward = evidence.forward, evidence.backward
    loss = f"loss {show_number(forward.losses[0], '.4g')}" if forward and forward.losses else ""
    return (loss, f"norm {show_number(max(backward.norms), '.3g')}" if backward and backward.norms else "")


def _optimizer(evidence: Evidence) -> tuple[str, ...]:
    step, schedule = evidence.step, evidence.schedule
    if step is None:
        return ()
    rate = "" if evidence.peak_learning_rate is None else f", rate {evidence.peak_learning_rate:.2g}"
    return (f"{step.optimizer}{rate}", f"{schedule.steps:,} steps" if schedule else "")


def _evaluation(evidence: Evidence) -> tuple[str, ...]:
    evaluation = evidence.evaluation
    if evaluation is None:
        return ()
    metrics = [f"{name} {show_number(value, '.3g')}" for name, value in evaluation.metrics.items() if value is not None]
    return (f"{evaluation.rows} rows", *metrics[:1])


def _drawn(evidence: Evidence, parts: tuple[Part, ...], prefix: str, *, is_tall: bool) -> Markup:
    across = 1 if is_tall else len(parts)
    down = len(parts) if is_tall else 1
    width, height = across * (BOX_WIDTH + GAP) - GAP + 4, down * (BOX_HEIGHT + GAP) - GAP + 4
    locations = [
        (0, row * (BOX_HEIGHT + GAP)) if is_tall else (row * (BOX_WIDTH + GAP), 0) for row in range(len(parts))
    ]
    spoken = ", ".join(f"{part.title} {_status(evidence, part)}" for part in parts)
    return tag(
        "svg",
        (_arrow(x, y, _status(evidence, part), is_tall=is_tall) for (x, y), part in zip(locations, parts, strict=True))
        if len(parts) > 1
        else (),
        (
            tag("a", _box(evidence, part, x, y), href=f"#{prefix}-{part.stage}")
            for (x, y), part in zip(locations, parts, strict=True)
        ),
        viewBox=f"-2 -2 {width} {height}",
        role="group",
        aria_label=f"the pipeline: {spoken}",
        class_="tall" if is_tall else "wide",
    )


def _status(evidence: Evidence, part: Part) -> str:
    stage: Stage | None = evidence.stage(part.stage)
    return stage.status if stage else "not reached"


def _arrow(x: int, y: int, status: str, *, is_tall: bool) -> Markup:
    """The arrow to a part; none to the first."""
    if (y if is_tall else x) == 0:
        return tag("g")
    at_x, at_y = (x + BOX_WIDTH // 2, y) if is_tall else (x, y + BOX_HEIGHT // 2)
    back = f"M{at_x},{at_y - GAP} L{at_x},{at_y - 7}" if is_tall else f"M{at_x - GAP},{at_y} L{at_x - 7},{at_y}"
    head = f"M{at_x},{at_y} l-5,-8 h10 z" if is_tall else f"M{at_x},{at_y} l-8,-5 v10 z"
    kind = "idle" if status == "not reached" else "live"
    return tag("g", tag("path", d=back, class_="shaft"), tag("path", d=head, class_="head"), class_=f"arrow {kind}")


def _box(evidence: Evidence, part: Part, x: int, y: int) -> Markup:
    status = _status(evidence, part)
    kind = status.replace(" ", "-")
    shown = [line for line in part.lines if line][:2]
    status_line = f"{SIGNS[status]} {part.stage}" + ("" if status == "passed" else f": {_status_text(status)}")
    return tag(
        "g",
        tag("title", f"{part.title} ({part.stage} {status})" + "".join(f"; {line}" for line in shown)),
        tag("rect", x=x, y=y, width=BOX_WIDTH, height=BOX_HEIGHT, rx=6, class_="box"),
        tag("text", part.title, x=x + 10, y=y + 19, class_="title"),
        (tag("text", clip(line, LETTERS), x=x + 10, y=y + 38 + 16 * row) for row, line in enumerate(shown)),
        tag("text", status_line, x=x + 10, y=y + BOX_HEIGHT - 9, class_="status_line"),
        class_=f"part {kind}",
    )


def _status_text(status: str) -> str:
    return "failed" if status == "failed" else status
