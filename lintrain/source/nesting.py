"""Nodes that lie in each other, found by a place without a look at all of them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from lintrain.model.location import Place

Node = TypeVar("Node")


class Nesting(Generic[Node]):
    """Nodes of one file by their places, sorted once."""

    def __init__(self, nodes: Iterable[tuple[Place, Node]]) -> None:
        ordered = sorted(nodes, key=lambda each: _start_and_size(each[0]))
        self._places = [place for place, _ in ordered]
        self._nodes = [node for _, node in ordered]
        self._starts = [(place.line, place.column) for place in self._places]
        self._around = _outer_ones(self._places)

    def innermost(self, place: Place) -> Node | None:
        """The innermost of the nodes around a place, None where there is none."""
        return next(self.around(place), None)

    def around(self, place: Place) -> Iterator[Node]:
        """All nodes around a place, the innermost first."""
        index = bisect_right(self._starts, (place.line, place.column)) - 1
        while index >= 0:
            if self._places[index].holds(place):
                yield self._nodes[index]
            index = self._around[index]


def _start_and_size(place: Place) -> tuple[int, int, int, int]:
    return place.line, place.column, -place.end_line, -place.end_column


def _outer_ones(places: list[Place]) -> list[int]:
    """For each place the number of the one right around it, -1 where there is none."""
    found: list[int] = []
    open_ones: list[int] = []
    for index, place in enumerate(places):
        while open_ones and not places[open_ones[-1]].holds(place):
            open_ones.pop()
        found.append(open_ones[-1] if open_ones else -1)
        open_ones.append(index)
    return found
