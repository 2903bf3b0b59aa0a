"""The graph that a backward pass goes through."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import ReachedWeights

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


def reached_weights(loss: Any, held: set[int], known: set[int]) -> ReachedWeights | None:
    """How many a backward pass reaches: in all, of no optimizer (`held`), of no module that was called (`known`)."""
    leaves = leaves_of(loss)
    if leaves is None:
        return None
    outside = [leaf for leaf in leaves.values() if id(leaf) not in held]
    unknown = [leaf for leaf in outside if id(leaf) not in known]
    return ReachedWeights(len(leaves), len(outside), len(unknown))


def leaves_of(loss: Any) -> dict[int, Any] | None:
    """Parameters by identity; None for a graph that is too large to walk."""
    nodes = nodes_below(loss.grad_fn)
    if nodes is None:
        return None
    variables = [getattr(node, "variable", None) for node in nodes]
    return {id(leaf): leaf for leaf in variables if leaf is not None and type(leaf).__name__ == "Parameter"}
