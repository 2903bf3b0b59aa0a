"""Charts as inline SVG: bars and curves. Every number of a chart is also in its text."""

from __future__ import annotations

import math
from collections.abc import Sequence

from lintrain.report.page.markup import Markup, joined, tag
from lintrain.report.text.columns import clip
from lintrain.startup.lazy_dataclass import dataclass

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
"""Values that differ by more than this factor are drawn on a logarithmic scale."""


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
        aria_label=f"{title}: {spoken}",
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
