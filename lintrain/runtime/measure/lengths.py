"""How long the lists of a column are."""

from __future__ import annotations

MOST_BINS = 12


def quantiles(lengths: list[int]) -> tuple[int, ...]:
    """The shortest, the median, the 95th percentile and the longest."""
    ordered = sorted(lengths)
    return tuple(ordered[round(share * (len(ordered) - 1))] for share in (0.0, 0.5, 0.95, 1.0)) if ordered else ()


def binned(lengths: list[int]) -> tuple[tuple[int, int, int], ...]:
    """[first length, last length, rows] of equally wide bins, the empty ones among them too."""
    if not lengths:
        return ()
    first, last = min(lengths), max(lengths)
    width = -(-(last - first + 1) // MOST_BINS)
    rows = [0] * -(-(last - first + 1) // width)
    for length in lengths:
        rows[(length - first) // width] += 1
    return tuple((first + width * n, min(first + width * (n + 1) - 1, last), count) for n, count in enumerate(rows))
