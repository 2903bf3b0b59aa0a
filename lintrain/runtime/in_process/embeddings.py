"""Embeddings that a loss compares by their angle, and how alike those of different rows are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from lintrain.runtime.child.library import attribute, library
from lintrain.runtime.in_process.loss_graph import NEAR_NODES, GraphGoneError, nodes_of_loss
from lintrain.startup.lazy_dataclass import dataclass

FEWEST_ROWS, FEWEST_ENTRIES, MOST_ROWS, MOST_SIDES = 4, 4, 32, 4
UNIT = 1e-2
"""How far from 1 the length of a normalized row may be, in half precision too."""


@dataclass(frozen=True, slots=True)
class Compared:
    """The sides of products that are summed over each row.

    `values` is a tensor [sides, 3]: the length of the rows' mean direction, how far from 1 their own lengths are, and
    how many entries are neither 0 nor 1. `divided` says of each side whether the sum is divided by the lengths later.
    """

    values: Any
    divided: tuple[bool, ...]

    def alikeness(self, values: Sequence[float]) -> float | None:
        """How alike the rows are, 1 for one direction: of the side whose rows differ most; None without a cosine.

        Decided here and not on the device, where each answer would make a step wait.
        """
        parts = zip(values[::3], values[1::3], values[2::3], self.divided, strict=True)
        # One-hot rows have length 1 as well, and are no embeddings.
        found = [length for length, off, others, divided in parts if others and (divided or off < UNIT)]
        return min(found, default=None) if all(map(math.isfinite, found)) else None


def compared(loss: Any) -> Compared | None:
    """The rows that a loss compares by products, or None; raises GraphGoneError after the backward pass."""
    sides: list[tuple[Any, bool]] = []
    try:
        for node in nodes_of_loss(loss, NEAR_NODES):
            sides += _sides(node)
            if len(sides) >= MOST_SIDES:
                break
    except RuntimeError as error:
        raise GraphGoneError from error
    if not sides:
        return None
    return Compared(library("torch").stack([_read(rows) for rows, _ in sides]), tuple(divided for _, divided in sides))


def _sides(node: Any) -> Iterator[tuple[Any, bool]]:
    name, below = type(node).__name__, [each for each, _ in node.next_functions]
    # `cosine_embedding_loss` divides the sum by the root of the squared lengths.
    if name == "DivBackward0" and len(below) == 2 and type(below[1]).__name__ == "SqrtBackward0":
        yield from ((rows, True) for rows in _factors(below[0]))
    elif name == "SumBackward1":
        yield from ((rows, False) for rows in _factors(node))


def _factors(node: Any) -> Iterator[Any]:
    product = node.next_functions[0][0] if type(node).__name__ == "SumBackward1" else None
    if type(product).__name__ != "MulBackward0":
        return
    for name in ("_saved_self", "_saved_other"):
        rows = attribute(product, name)
        # Every n-th row is enough: a batch of thousands shall cost no more than one of thirty.
        if rows is not None and rows.ndim == 2 and len(rows) >= FEWEST_ROWS and rows.shape[1] >= FEWEST_ENTRIES:
            yield rows.detach()[:: max(1, len(rows) // MOST_ROWS)].float()


def _read(rows: Any) -> Any:
    torch = library("torch")
    lengths = rows.norm(dim=1, keepdim=True)
    # Directions that cancel out have a short mean, equal ones a mean of length 1.
    direction = (rows / lengths.clamp_min(1e-12)).mean(0).norm()
    others = ((rows != 0) & (rows != 1)).sum().float()
    return torch.stack([direction, (lengths - 1).abs().max(), others])
