"""How the targets of a loss correspond to the tokens that the model read."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import TargetAlignment
from lintrain.runtime.child.library import library

FARTHEST = 2


def alignment(target: Any, ids: Any, mask: Any, ignore_index: int) -> TargetAlignment | None:
    """Int64 targets, flat or [rows, at most tokens], against int64 ids [rows, tokens]; None if they do not fit."""
    rows, tokens = ids.shape
    if target.is_floating_point() or not rows or target.numel() % rows:
        return None
    columns = target.numel() // rows
    if not tokens - FARTHEST <= columns <= tokens or (target.ndim > 1 and target.shape != (rows, columns)):
        return None
    beside = target.detach().reshape(rows, columns)
    scored = beside != ignore_index
    matches = tuple(_share(beside, ids, scored, offset) for offset in range(FARTHEST + 1))
    return TargetAlignment(
        scored=int(scored.sum()),
        ignored=int(beside.numel() - scored.sum()),
        equal_at=matches,
        padding=_padding(matches, scored, mask),
    )


def _share(beside: Any, ids: Any, scored: Any, offset: int) -> float | None:
    """The share of scored targets that are the token so many places on; None if none has one."""
    later = ids[:, offset : offset + beside.shape[1]]
    here, counted = beside[:, : later.shape[1]], scored[:, : later.shape[1]]
    total = int(counted.sum())
    return int(((here == later) & counted).sum()) / total if total else None


def _padding(matches: tuple[float | None, ...], scored: Any, mask: Any) -> int | None:
    """Scored targets on padding, once it is clear which tokens they are; None without a mask."""
    best = max(matches, key=lambda match: match or 0.0)
    if mask is None or not best:
        return None
    attended = mask[:, matches.index(best) :][:, : scored.shape[1]]
    return int((scored[:, : attended.shape[1]] & (attended == 0)).sum())


def ids_and_mask(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any] | None:
    """The token ids of [rows, tokens] that a model was called with, and the mask of their shape or None."""
    torch = library("torch")
    given: Any = kwargs.get("input_ids", args[0] if args else None)
    if not torch.is_tensor(given) or given.ndim != 2 or given.dtype not in (torch.int64, torch.int32):
        return None
    mask: Any = kwargs.get("attention_mask")
    return given, mask if torch.is_tensor(mask) and mask.shape == given.shape else None
