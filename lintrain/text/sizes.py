"""Quantities as people write and read them: `24GiB` as bytes, bytes as `1.5 GiB`, seconds as `12 ms`."""

from __future__ import annotations

import re

from lintrain.startup.lazy_pattern import lazy_pattern

UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
DECIMAL = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
PATTERN = lazy_pattern(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)(B?)", re.IGNORECASE)


def read_size(text: str) -> int | None:
    """The bytes of a size like `24GiB`, `80GB` or `24G` (powers of 1,024); None for anything else."""
    found = PATTERN.fullmatch(text.strip())
    if found is None:
        return None
    number, unit, is_binary, in_bytes = found.groups()
    units = DECIMAL if in_bytes and not is_binary else UNITS
    return int(float(number) * units[unit.upper()]) or None


def show_size(size: float) -> str:
    """Bytes in the largest fitting unit, with three significant digits."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        whole = size / UNITS[unit[0]]
        if whole >= 1:
            return f"{whole:.0f} {unit}" if whole >= 100 else f"{whole:.3g} {unit}"
    return f"{size:.0f} bytes"


def duration(seconds: float) -> str:
    """Seconds with three significant digits, in s or ms."""
    return f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1000:.3g} ms"


def rounded(number: float) -> str:
    """A number with three significant digits, or a whole number from 1,000 on."""
    return f"{number:.3g}" if number < 1000 else f"{number:,.0f}"
