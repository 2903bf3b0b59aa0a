"""What is known of a tensor between the model and the loss: its shape and the operations that computed it."""

from __future__ import annotations

from lintrain.model.location import Location
from lintrain.pipeline.values.python import UNKNOWN, Unknown, Value
from lintrain.startup.lazy_dataclass import dataclass

CLASSES = -1
"""The size of an axis that has one number for each class, where it is not known how many those are."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a tensor's axes, None for one that is not known; `is_open` if other axes may come before them.

    A shape that is open and has no sizes is one of which nothing is known.
    """

    sizes: tuple[int | None, ...] = ()
    is_open: bool = True

    @property
    def rank(self) -> int | None:
        """The number of axes, None if it is not known."""
        return None if self.is_open else len(self.sizes)

    @property
    def last(self) -> int | None:
        """The size of the last axis, None if it is not known."""
        return self.sizes[-1] if self.sizes else None

    def __str__(self) -> str:
        """The shape as documentation writes it: `(N, 1)`, `(…, 1)` if other axes may come before."""
        names = ["*" if size is None else "C" if size == CLASSES else str(size) for size in self.sizes]
        if names and not self.is_open and self.sizes[0] is None:
            names[0] = "N"
        names = ["…", *names] if self.is_open else names
        return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation that made a tensor: its name (`softmax`), its location, its code and that of what it was given."""

    name: str
    location: Location | None = None
    text: str = ""
    given: str = ""


@dataclass(eq=False, slots=True)
class Derived(Unknown):
    """What an operation made of an unknown value: it equals nothing, and can be followed back to `of`.

    `by` names the operation (`slice`, `view`), `text` holds the code in its brackets.
    """

    of: Value = UNKNOWN
    by: str = ""
    text: str = ""


def root_of(value: Value) -> Value:
    """The unknown value that views, copies and moves were made of; slices are values of their own."""
    while isinstance(value, Derived) and value.by not in {"slice", "change"}:
        value = value.of
    return value
