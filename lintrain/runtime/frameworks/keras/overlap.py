"""Rows that a `fit` trains on and that it is validated on, known again by their bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from lintrain.evidence.run import SharedRows
from lintrain.runtime.child.kinds import is_row
from lintrain.runtime.child.label_rows import spread
from lintrain.runtime.frameworks.keras.data import named_arrays, values_of
from lintrain.runtime.frameworks.keras.keras_run import KerasRun
from lintrain.runtime.measure.overlap import LOOKED_AT, READ


def shared_rows(run: KerasRun) -> SharedRows | None:
    """How many validation rows are training rows too, in inputs and targets; None where they are no arrays."""
    held_out = run.validation[:2] if is_row(run.validation) else ()
    train = _arrays(run.given["x"], run.given["y"])
    evaluation = _arrays(*held_out) if len(held_out) == 2 else {}
    if not train or train.keys() != evaluation.keys():
        return None
    known = set(_rows(train, READ))
    looked_for = list(_rows(evaluation, LOOKED_AT))
    shared = sum(row in known for row in looked_for)
    # With more training rows than were read, a row that was not found proves nothing.
    if not looked_for or (not shared and len(next(iter(train.values()))) > READ):
        return None
    return SharedRows(shared, len(looked_for))


def _arrays(x: Any, y: Any) -> dict[str, Any]:
    """Arrays by name, with a row of each for every row; nothing where one of them is none."""
    named = {**named_arrays("x", x), **named_arrays("y", y)}
    arrays = {name: values_of(value) for name, value in named.items()}
    known = {name: values for name, values in arrays.items() if values is not None}
    return known if len(known) == len(arrays) and len({len(values) for values in known.values()}) == 1 else {}


def _rows(arrays: dict[str, Any], most: int) -> Iterator[bytes]:
    """Rows of all arrays as bytes, evenly spaced where there are more."""
    chosen = [values[list(spread(len(values), most))] for values in arrays.values()]
    for parts in zip(*chosen, strict=True):
        yield b"|".join(part.tobytes() for part in parts)
