"""Nested nodes, found by location without visiting all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from lintrain.model.location import Location

Node = TypeVar("Node")


class Nesting(Generic[Node]):
    """Nodes of one file by location, sorted once."""

    def __init__(self, nodes: Iterable[tuple[Location, Node]]) -> None:
        ordered = sorted(nodes, key=lambda each: _start_and_size(each[0]))
        self._locations = [location for location, _ in ordered]
        self._nodes = [node for _, node in ordered]
        self._starts = [(location.line, location.column) for location in self._locations]
        self._around = _outer_ones(self._locations)

    def innermost(self, location: Location) -> Node | None:
        """The innermost of the nodes around a location; None if there is none."""
        return next(self.around(location), None)

    def around(self, location: Location) -> Iterator[Node]:
        """All nodes around a location, the innermost first."""
        index = bisect_right(self._starts, (location.line, location.column)) - 1
        while index >= 0:
            if self._locations[index].holds(location):
                yield self._nodes[index]
            index = self._around[index]


def _start_and_size(location: Location) -> tuple[int, int, int, int]:
    return location.line, location.column, -location.end_line, -location.end_column


def _outer_ones(locations: list[Location]) -> list[int]:
    """For each location the number of the one directly around it, -1 if there is none."""
    found: list[int] = []
    open_ones: list[int] = []
    for index, location in enumerate(locations):
        while open_ones and not locations[open_ones[-1]].holds(location):
            open_ones.pop()
        found.append(open_ones[-1] if open_ones else -1)
        open_ones.append(index)
    return found
