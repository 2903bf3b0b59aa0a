"""Numbers that are not known but for what they count: the batches of a loader, multiplied and divided."""

from __future__ import annotations

from dataclasses import replace

from lintrain.model.location import Location
from lintrain.pipeline.values.python import UNKNOWN, Constant, Either, Unknown, Value
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False, slots=True)
class Count(Value):
    """The number of batches that a loader gives in one pass, times `multipliers`, divided by `divisors`.

    `is_exact` if nothing else was done to it; `made_at` is the number of events before the length was taken.
    """

    of: Value = UNKNOWN
    multipliers: tuple[Value, ...] = ()
    divisors: tuple[Value, ...] = ()
    is_exact: bool = True
    made_at: int = 0


@dataclass(eq=False, slots=True)
class Whole(Unknown):
    """A whole number that is not known."""


@dataclass(eq=False, slots=True)
class Real(Unknown):
    """A number with a point that is not known."""


NUMBERS = Constant | Count | Unknown | Either


def computed(left: Value, operator: str, right: Value, location: Location) -> Value | None:
    """What an operator gives of a count of batches and another number; None if it counts no batches any more."""
    if not isinstance(left, NUMBERS) or not isinstance(right, NUMBERS):
        return None
    count, other = (left, right) if isinstance(left, Count) else (right, left)
    if not isinstance(count, Count):
        return None
    match operator:
        case "Mult":
            return replace(count, multipliers=(*count.multipliers, other), origin=location)
        case "Div" | "FloorDiv" if count is left:
            return replace(count, divisors=(*count.divisors, other), origin=location)
        case "Add" | "Sub" if count is left or operator == "Add":
            return replace(count, is_exact=False, origin=location)
        case _:
            return None
