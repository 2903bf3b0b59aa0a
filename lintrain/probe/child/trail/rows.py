"""Which rows of a data set a batch was made of, told by the memory that its tensors lie in."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from lintrain.probe.child.kinds import is_row
from lintrain.probe.child.loop.seen import tensors_in

KEPT = 32


class Rows:
    """The numbers of the rows of the last batches; their tensors are kept, so that nothing else gets their memory."""

    def __init__(self) -> None:
        self._kept: deque[tuple[list[Any], tuple[int, ...]]] = deque(maxlen=KEPT)

    def fetched(self, numbers: Any, batch: Any) -> None:
        """A loader made a batch of rows with these numbers."""
        plain: list[Any] = [*numbers] if is_row(numbers) else [numbers]
        if plain and all(isinstance(each, int) for each in plain):
            self._kept.append((list(tensors_in(batch)), tuple(plain)))

    def of(self, inputs: Iterable[list[Any]]) -> tuple[int, ...]:
        """The rows of the batches that some inputs of a model lie in, in their order; none where they are copies."""
        known = {_memory(tensor): rows for tensors, rows in self._kept for tensor in tensors}
        found: dict[tuple[int, ...], None] = {}
        for tensors in inputs:
            for tensor in tensors:
                if (rows := known.get(_memory(tensor))) is not None:
                    found[rows] = None
        return tuple(row for rows in found for row in rows)


def _memory(tensor: Any) -> int:
    """Where the memory of a tensor begins: 0 for one without any, which is no batch's."""
    try:
        return int(tensor.untyped_storage().data_ptr()) or id(tensor)
    except (RuntimeError, NotImplementedError):
        return id(tensor)
