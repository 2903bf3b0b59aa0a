"""NaN in rows that the training never computes with: its collator or its own code replaces them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.library import attribute, library
from lintrain.runtime.measure.seen import tensors_in
from lintrain.runtime.measure.swept_rows import Reading, RowsSeen, parts_of


def forget_missing_values(seen: RowsSeen, read: Callable[[int], Any] | None, reading: Reading) -> None:
    """NaN stand for missing values where the script looks for them in this column, or its collator replaces them."""
    for wrong in [each for each in seen.wrong() if each.fault == "non-finite"]:
        row = wrong.first[0]
        stays = read is None or _still_not_finite(read, row, reading)
        if not stays or reading.filled.reaches(wrong.column, _entry_of(read, row, wrong.column)):
            seen.faults.drop(wrong.fault, wrong.column)


def _entry_of(read: Callable[[int], Any] | None, row: int, column: str) -> Any:
    """What a row has in a column; None if it cannot be read again."""
    try:
        return None if read is None else parts_of(read(row)).get(column)
    except Exception:  # noqa: BLE001 - as below
        return None


def _still_not_finite(read: Callable[[int], Any], row: int, reading: Reading) -> bool:
    """Whether a row's NaN are still there once it is collated: a collator may fill them in."""
    if reading.collate is None:
        return True
    torch = library("torch")
    try:
        batch = reading.collate([read(row), read(row)])
    except Exception:  # noqa: BLE001 - another fault, which is named by itself
        return True
    floats = [tensor for tensor in tensors_in(batch) if attribute(tensor, "is_floating_point", lambda: False)()]
    return any(not bool(torch.isfinite(tensor).all()) for tensor in floats) if floats else True
