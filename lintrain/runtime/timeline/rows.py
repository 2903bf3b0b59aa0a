"""Which rows of a data set a batch was made of, recognized by the memory of its tensors, else by their contents."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any

from lintrain.runtime.child.kinds import is_row
from lintrain.runtime.measure.seen import tensors_in
from lintrain.runtime.timeline.digests import digest

KEPT = 32


class Rows:
    """The numbers of the rows of the last batches; their tensors are kept, so that nothing else gets their memory."""

    def __init__(self) -> None:
        # Bounded: loaders fetch a few batches ahead, and kept tensors hold their memory.
        self._kept: deque[tuple[list[Any], tuple[int, ...]]] = deque(maxlen=KEPT)

    def fetched(self, numbers: Any, batch: Any) -> None:
        """A loader made a batch of rows with these numbers."""
        plain: list[Any] = [*numbers] if is_row(numbers) else [numbers]
        if plain and all(isinstance(each, int) for each in plain):
            self._kept.append((list(tensors_in(batch)), tuple(plain)))

    def of(self, inputs: Iterable[list[Any]]) -> tuple[int, ...]:
        """The rows of the batches that some inputs of a model lie in or are copies of, in their order."""
        kept = [(tensor, rows) for tensors, rows in self._kept for tensor in tensors]
        lie_in = {_memory(tensor): rows for tensor, rows in kept}
        found: dict[tuple[int, ...], None] = {}
        for tensors in inputs:
            known = [lie_in.get(_memory(tensor)) for tensor in tensors]
            known = known if any(known) else _by_content(tensors, kept)
            found.update(dict.fromkeys(rows for rows in known if rows is not None))
        return tuple(row for rows in found for row in rows)


def _by_content(tensors: list[Any], kept: list[tuple[Any, tuple[int, ...]]]) -> list[tuple[int, ...] | None]:
    """The rows of batches that tensors are equal to, and to no other one.

    On several processes accelerate's device is `cpu:0` or `cpu:1`, to which `to` copies what is on `cpu` (1.15).
    """
    found: dict[str, set[tuple[int, ...]]] = {}
    for tensor, rows in kept:
        if (key := _content(tensor)) is not None:
            found.setdefault(key, set()).add(rows)
    known = [found.get(_content(tensor) or "", set[tuple[int, ...]]()) for tensor in tensors]
    return [next(iter(each)) if len(each) == 1 else None for each in known]


def _content(tensor: Any) -> str | None:
    """What an equal tensor has too; None for one whose entries are all the same, as those of a mask may be."""
    if tensor.numel() < 2 or bool((tensor == tensor.reshape(-1)[0]).all()):
        return None
    return f"{list(tensor.shape)} {tensor.dtype} {digest(tensor)}"


def _memory(tensor: Any) -> int:
    """Where the memory of a tensor begins: 0 for one without any, which is no batch's."""
    try:
        return int(tensor.untyped_storage().data_ptr()) or id(tensor)
    except (RuntimeError, NotImplementedError):
        return id(tensor)
