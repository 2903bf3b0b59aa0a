"""What more lines cost: trees of growing size, a line fitted through their costs, and a plot of both."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import log10
from pathlib import Path
from statistics import correlation

from benchmarks.measure import middle
from benchmarks.speed.bounds import Bound
from benchmarks.speed.corpus import Corpus, tree_of
from benchmarks.speed.linters import floor, lintrain
from benchmarks.speed.trees import compare, peak

SIZES = (1_000, 10_000, 100_000, 1_000_000)
MILLION = 1_000_000

Point = tuple[float, float]
"""Lines, and CPU seconds."""


def measure_growth(corpus: Corpus, rounds: int, work: Path, plot: Path | None) -> Iterator[Bound]:
    """Trees of 1,000 to 1,000,000 lines."""
    ours: list[Point] = []
    floors: list[Point] = []
    for size in SIZES:
        tree = tree_of(corpus, size, work / f"lines-{size}")
        commands = [lintrain("lintrain, cold", tree.folder, "--jobs", "1"), floor(tree.files, work)]
        cold, parse = compare(f"{tree.lines} lines in {len(tree.files)} scripts", commands, rounds).values()
        ours.append((tree.lines, middle(cold).cpu))
        floors.append((tree.lines, middle(parse).cpu))
        if size == MILLION:
            yield peak("a million lines", cold)
    start, slope = fitted(ours)
    print(f"\nCPU seconds: {start:.2f} and {slope * 1000:.4f} for each 1,000 lines")
    yield Bound("how linear the growth is (r squared)", linearity(ours), "", least=0.98)
    if plot:
        plot.parent.mkdir(parents=True, exist_ok=True)
        plot.write_text(picture(ours, floors))


def fitted(points: Sequence[Point]) -> Point:
    """Start (seconds) and slope (seconds a line) of the line whose relative errors have the least squares.

    With absolute ones the largest tree alone would say where the line begins.
    """
    shares = [(1 / cost, lines / cost) for lines, cost in points]
    ones, lines = sum(one for one, _ in shares), sum(line for _, line in shares)
    of_ones, of_lines = sum(one * one for one, _ in shares), sum(line * line for _, line in shares)
    of_both = sum(one * line for one, line in shares)
    divisor = of_ones * of_lines - of_both**2
    return (ones * of_lines - lines * of_both) / divisor, (lines * of_ones - ones * of_both) / divisor


def linearity(points: Sequence[Point]) -> float:
    """How much of the cost a straight line explains: 1 is all of it."""
    return correlation(*zip(*points, strict=True)) ** 2


WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 640, 400, 70, 48, 610, 340


def picture(ours: Sequence[Point], floors: Sequence[Point]) -> str:
    """The points and the fitted line as SVG, both axes logarithmic."""
    start, slope = fitted(ours)
    lines = (log10(min(SIZES)) - 0.2, log10(max(SIZES)) + 0.2)
    costs = [cost for _, cost in (*ours, *floors)]
    seconds = (int(log10(min(costs)) // 1), int(-(-log10(max(costs)) // 1)))

    def at(point: Point) -> str:
        across = (log10(point[0]) - lines[0]) / (lines[1] - lines[0])
        up = (log10(point[1]) - seconds[0]) / (seconds[1] - seconds[0])
        return f"{LEFT + across * (RIGHT - LEFT):.1f},{BOTTOM - up * (BOTTOM - TOP):.1f}"

    steps = [10 ** (3 + step / 20) for step in range(61)]
    line = " ".join(at((each, max(start + slope * each, 10 ** seconds[0]))) for each in steps)
    parts = [*_grid(at, range(seconds[0], seconds[1] + 1))]
    parts.append(f'<polyline points="{line}" fill="none" stroke="#3b6ea5" stroke-dasharray="5 4"/>')
    parts += [_dot(at(point), "#3b6ea5") for point in ours] + [_dot(at(point), "#8a8a8a") for point in floors]
    parts.append(_text(LEFT, 24, "CPU seconds of lintrain check (blue) and of ast.parse (grey) against lines", "start"))
    said = f"dashed: {start:.2f} s and {slope * 1000:.3f} s for each 1,000 lines, r² = {linearity(ours):.4f}"
    parts.append(_text(RIGHT, BOTTOM - 12, said, "end"))
    style = 'font-family="sans-serif" font-size="13" fill="#333"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" {style}>'
    return "\n".join([head, f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>', *parts, "</svg>", ""])


def _grid(at: Callable[[Point], str], powers: range) -> Iterator[str]:
    for size in SIZES:
        across = at((size, 1)).split(",")[0]
        yield f'<line x1="{across}" x2="{across}" y1="{TOP}" y2="{BOTTOM}" stroke="#ddd"/>'
        yield _text(float(across), BOTTOM + 22, f"{size:,}", "middle")
    for power in powers:
        height = at((SIZES[0], 10.0**power)).split(",")[1]
        yield f'<line x1="{LEFT}" x2="{RIGHT}" y1="{height}" y2="{height}" stroke="#ddd"/>'
        yield _text(LEFT - 8, float(height) + 4, f"{10.0**power:g} s", "end")


def _dot(at: str, colour: str) -> str:
    across, down = at.split(",")
    return f'<circle cx="{across}" cy="{down}" r="4.5" fill="{colour}"/>'


def _text(across: float, down: float, text: str, anchor: str) -> str:
    return f'<text x="{across:.1f}" y="{down:.1f}" text-anchor="{anchor}">{text}</text>'
