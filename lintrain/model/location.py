"""A range in a script."""

from __future__ import annotations

from lintrain.startup.lazy_dataclass import dataclass

NOWHERE = "(interactive)"
"""The path of code that was typed at a prompt and is in no file; what is found there has no line."""


@dataclass(slots=True, order=True, unsafe_hash=True)
class Location:
    """A range in one source: lines and columns start at 1, columns in characters, the end column is exclusive.

    Never changed once it is made, but for an edit that moves the nodes of a file (`LatestTree`). It is not frozen since
    making one would take four times as long, and nearly every expression of a script has one.

    In a notebook the lines are those of its joined code cells; `Source.locate` gives cell and line as a person sees
    them.
    """

    path: str
    line: int
    column: int
    end_line: int
    end_column: int

    def holds(self, other: Location) -> bool:
        """Whether the other location is inside this one."""
        starts_after = (self.line, self.column) <= (other.line, other.column)
        ends_before = (other.end_line, other.end_column) <= (self.end_line, self.end_column)
        return self.path == other.path and starts_after and ends_before

    def meets(self, other: Location) -> bool:
        """Whether the other location has a line in common with this one."""
        return self.path == other.path and self.line <= other.end_line and other.line <= self.end_line

    def __str__(self) -> str:
        return self.path if self.path == NOWHERE else f"{self.path}:{self.line}:{self.column}"
