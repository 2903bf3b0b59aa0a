"""Pictures that are read twice: others the second time, if a random transform makes them."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.library import attribute, has, is_row

MOST_REREAD, PICTURE = 4, 3
"""Rows that are read twice, and the axes of a picture."""
MOST_ALIKE = 16
"""Pictures that are read twice where the first ones stay the same: a flip with a chance of one half leaves many so."""


def reread(dataset: Any, numbers: list[int]) -> tuple[int, int]:
    """How many pictures were read twice, and how many were another one the second time."""
    read = changed = 0
    for at, number in enumerate(numbers, 1):
        if (pair := _pictures(dataset, number)) is not None:
            read, changed = read + 1, changed + (not pair[0].equal(pair[1]))
        # Rows without a picture are followed by others without one.
        if at >= MOST_REREAD and (read == 0 or changed):
            break
    return read, changed


def _pictures(dataset: Any, number: int) -> tuple[Any, Any] | None:
    """The picture of a row, read twice; None if it is no pair of a picture and a class, or the class changes too."""
    try:
        rows = [dataset[number], dataset[number]]
    except Exception:  # noqa: BLE001 - rows that cannot be read are found before
        return None
    if not all(is_row(row) and len(row) == 2 and attribute(row[0], "ndim", 0) == PICTURE for row in rows):
        return None
    (one, label), (two, same) = rows
    is_alike = has(one, "equal") and one.dtype == two.dtype
    return (one, two) if is_alike and _class_of(label) == _class_of(same) is not None else None


def _class_of(label: Any) -> int | None:
    if isinstance(label, int):
        return label
    is_whole = attribute(label, "ndim", 1) == 0 and not attribute(label.dtype, "is_floating_point", True)
    return int(label) if is_whole else None
