"""Numbers among the inputs that tell the target by themselves."""

from __future__ import annotations

import numpy
import pytest

from lintrain.runtime.measure.target_copies import TargetCopies

ROWS = 200
GENERATOR = numpy.random.default_rng(0)
CLASSES = GENERATOR.integers(0, 2, ROWS)
NOISE = GENERATOR.normal(size=(ROWS, 4))


def found_in(numbers: numpy.ndarray, targets: numpy.ndarray) -> tuple[str, tuple[int, ...]] | None:
    """How a number tells the target, and its indices."""
    copies = TargetCopies()
    for start in range(0, ROWS, 50):
        copies.add({"0": numbers[start : start + 50]}, targets[start : start + 50])
    found = copies.found()
    return (found.how, found.indices) if found else None


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (numpy.where(CLASSES == 1, GENERATOR.integers(1, 90, ROWS), 999), ("gap", (4,))),
        (CLASSES * 3.5 - 1, ("class", (4,))),
        (8.0 * CLASSES + NOISE[:, 0], None),  # classes that are far from each other
        (numpy.where(CLASSES == 1, GENERATOR.uniform(0.1, 0.5, ROWS), 0), None),  # a word that one class has
        (numpy.where(GENERATOR.random(ROWS) < 0.01, 1 - CLASSES, CLASSES), None),
    ],
)
def test_a_class_is_told_by_one_number(column: numpy.ndarray, expected: tuple[str, tuple[int, ...]] | None) -> None:
    assert found_in(numpy.column_stack([NOISE, column]), CLASSES) == expected


def test_a_quantity_is_told_by_a_number_in_another_unit_and_not_by_a_series_of_equal_steps() -> None:
    quantity = GENERATOR.normal(size=ROWS)
    windows = numpy.stack([NOISE, numpy.column_stack([quantity * 3 + 1, *NOISE.T[:3]])], axis=1)
    assert found_in(windows.astype("float32"), quantity.astype("float32")) == ("number", (1, 0))
    steps = numpy.arange(ROWS)[:, None] + numpy.arange(4)
    assert found_in(steps.astype("float32"), (numpy.arange(ROWS) + 4).astype("float32")) is None
    assert found_in(numpy.column_stack([NOISE, quantity + 0.01 * NOISE[:, 0]]), quantity) is None
