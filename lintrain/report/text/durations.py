"""Seconds, and counts in a second, as a person reads them."""

from __future__ import annotations


def duration(seconds: float) -> str:
    """Three digits in seconds or milliseconds."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def rounded(number: float) -> str:
    """Three digits of a small number, a large one as a whole."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
