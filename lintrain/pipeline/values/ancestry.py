"""What something derives from, walked without going anywhere twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

MOST_CLASSES = 100
"""Classes that one class derives from, itself included, that are looked at."""

Node = TypeVar("Node")


def ancestry_of(start: Node, above: Callable[[Node], Iterable[Node]]) -> tuple[Node, ...]:
    """Something and what it derives from, nearest first, each once; at most MOST_CLASSES."""
    found: dict[Node, None] = {}
    pending = [start]
    while pending and len(found) < MOST_CLASSES:
        node = pending.pop()
        if node not in found:
            found[node] = None
            pending.extend(reversed([*above(node)]))
    return tuple(found)
