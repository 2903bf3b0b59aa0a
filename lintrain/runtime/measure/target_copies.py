"""Inputs that tell the target of a row by themselves: a number among them is the target, or marks its class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from lintrain.evidence.sweep import TargetCopy
from lintrain.runtime.child.library import library

MOST_ROWS, FEWEST_ROWS = 2_000, 50
MOST_NUMBERS = 512
"""Of a row; those of pictures are more, and no single one of them is a target."""
MOST_CLASSES, FEWEST_OF_CLASS = 20, 10
EXACT = 1e-5
"""The rounding of float32, as a share of the spread of the targets."""
How = Literal["class", "gap", "number"]


class TargetCopies:
    """Inputs and targets of the first rows, where inputs are a few numbers and the target is one."""

    def __init__(self) -> None:
        self._inputs: dict[str, list[Any]] = {}
        self._targets: list[Any] = []
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._rows, self._is_off = 0, False

    def add(self, parts: Mapping[str, Any], target: Any) -> None:
        """Some rows: arrays of [rows, …], and their targets of [rows] or [rows, 1]."""
        if self._is_off or self._rows >= MOST_ROWS or target is None:
            return
        shapes = {name: part.shape[1:] for name, part in parts.items()}
        size = sum(int(part[:1].size) for part in parts.values())
        self._shapes = self._shapes or shapes
        if shapes != self._shapes or not 2 <= size <= MOST_NUMBERS or target[:1].size != 1:
            self._is_off = True
            return
        rows = min(len(target), MOST_ROWS - self._rows)
        for name, part in parts.items():
            self._inputs.setdefault(name, []).append(part[:rows].reshape(rows, -1))
        self._targets.append(target[:rows].reshape(rows))
        self._rows += rows

    def found(self) -> TargetCopy | None:
        """The only number of the inputs that tells the target; None if there is none."""
        if self._is_off or self._rows < FEWEST_ROWS:
            return None
        numpy = library("numpy")
        targets = numpy.concatenate(self._targets).astype(float)
        names = [(name, position) for name, parts in self._inputs.items() for position in range(parts[0].shape[1])]
        numbers = numpy.concatenate([numpy.concatenate(parts) for parts in self._inputs.values()], axis=1).astype(float)
        if not numpy.isfinite(targets).all():
            return None
        numbers = numpy.where(numpy.isfinite(numbers), numbers, numpy.nan)
        classes = numpy.unique(targets)
        is_class = len(classes) <= MOST_CLASSES and bool((classes == classes.round()).all())
        how: How = "number"
        columns = [] if is_class else _copying(numbers, targets)
        if is_class:
            how, columns = _marking(numbers, targets, classes)
        # Several that all tell it are numbers of one row of steps, each of which follows from the next.
        if len(columns) != 1:
            return None
        name, position = names[columns[0]]
        indices = tuple(int(each) for each in numpy.unravel_index(position, self._shapes[name] or (1,)))
        return TargetCopy(name, indices, how, self._rows)


def _copying(numbers: Any, targets: Any) -> list[int]:
    """The columns that are the targets, or the targets in another unit."""
    numpy = library("numpy")
    spread = targets.std()
    if not spread:
        return []
    centered, wanted = numbers - numbers.mean(axis=0), targets - targets.mean()
    squares = (centered**2).sum(axis=0)
    usable = numpy.flatnonzero(numpy.isfinite(squares) & (squares > 0))
    slopes = (centered[:, usable] * wanted[:, None]).sum(axis=0) / squares[usable]
    apart = numpy.abs(centered[:, usable] * slopes - wanted[:, None]).max(axis=0, initial=0.0)
    return [int(each) for each in usable[apart <= EXACT * spread]]


def _marking(numbers: Any, targets: Any, classes: Any) -> tuple[How, list[int]]:
    """The columns with one value for each class, or with one value for a class, far from all others."""
    numpy = library("numpy")
    groups = [numbers[targets == each] for each in classes]
    if len(groups) < 2 or min(map(len, groups)) < FEWEST_OF_CLASS:
        return "class", []
    lowest = numpy.stack([group.min(axis=0) for group in groups])
    highest = numpy.stack([group.max(axis=0) for group in groups])
    are_one = (lowest == highest).all(axis=0)
    own = numpy.array([len(numpy.unique(column)) == len(classes) for column in lowest.T])
    marking = numpy.flatnonzero(are_one & own)
    if len(marking):
        return "class", [int(each) for each in marking]
    return "gap", sorted(set(_apart(groups)))


def _apart(groups: list[Any]) -> Iterable[int]:
    """The columns in which a class has one value, further from those of all others than these are from each other."""
    numpy = library("numpy")
    for number, group in enumerate(groups):
        others = numpy.concatenate([each for other, each in enumerate(groups) if other != number])
        value, low, high = group[0], others.min(axis=0), others.max(axis=0)
        gap = numpy.maximum(low - value, value - high)
        is_own = (group == value).all(axis=0) & (gap > high - low) & (high > low)
        yield from (int(each) for each in numpy.flatnonzero(is_own))
