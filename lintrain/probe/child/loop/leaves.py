"""The weights that a loss depends on, found in its graph."""

from __future__ import annotations

from typing import Any

from lintrain.core.evidence import ReachedWeights

MOST_NODES = 100_000


def reached_weights(loss: Any, held: set[int], known: set[int]) -> ReachedWeights | None:
    """How many a backward pass reaches: in all, of no optimizer (`held`), of no module that was called (`known`)."""
    leaves = _leaves(loss.grad_fn)
    if leaves is None:
        return None
    outside = [leaf for leaf in leaves.values() if id(leaf) not in held]
    unknown = [leaf for leaf in outside if id(leaf) not in known]
    return ReachedWeights(len(leaves), len(outside), len(unknown))


def _leaves(start: Any) -> dict[int, Any] | None:
    """Parameters by identity; None for a graph that is too large to walk."""
    found: dict[int, Any] = {}
    seen, waiting = set[Any](), [start]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if len(seen) > MOST_NODES:
            return None
        variable = getattr(node, "variable", None)
        if variable is not None and type(variable).__name__ == "Parameter":
            found[id(variable)] = variable
        waiting += [above for above, _ in node.next_functions]
    return found
