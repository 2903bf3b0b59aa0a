"""The graph that a backward pass goes through."""

from __future__ import annotations

from typing import Any

MOST_NODES = 100_000


def nodes_below(start: Any, most: int = MOST_NODES) -> list[Any] | None:
    """Every node of a loss's graph, leaves too; None for a graph that is too large to walk."""
    found: list[Any] = []
    seen, waiting = set[Any](), [start]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if len(seen) > most:
            return None
        found.append(node)
        waiting += [below for below, _ in node.next_functions]
    return found
