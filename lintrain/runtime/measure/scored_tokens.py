"""Which tokens of collated batches are scored: padding among them, and how labels correspond to the tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lintrain.evidence.run import ScoredTokens

IGNORED = -100


def count_scored(tokenizer: Any | None, batches: list[Mapping[str, Any]]) -> ScoredTokens | None:
    """Counts over batches whose int64 `labels` are [rows, tokens]; None if they are not."""
    counted: ScoredTokens | None = None
    for batch in batches:
        labels = batch.get("labels")
        if labels is None or getattr(labels, "ndim", 0) != 2 or labels.dtype.is_floating_point:
            return counted
        here = _count(tokenizer, batch, labels)
        counted = here if counted is None else counted.plus(here)
    return counted


def _count(tokenizer: Any | None, batch: Mapping[str, Any], labels: Any) -> ScoredTokens:
    scored = labels != IGNORED
    ids, decoder = batch.get("input_ids"), batch.get("decoder_input_ids")
    beside = ids is not None and ids.shape == labels.shape
    next_ids: Any = ids[:, 1:] if ids is not None and beside else None
    moved = scored[:, :-1]
    return ScoredTokens(
        scored=int(scored.sum()),
        padding=_padding(tokenizer, batch, labels, scored, beside=beside),
        equal_to_inputs=int(((labels == ids) & scored).sum()) if beside else None,
        equal_to_next=int(((labels[:, :-1] == next_ids) & moved).sum()) if beside else None,
        with_next=int(moved.sum()),
        equal_to_decoder=int(((labels == decoder) & scored).sum())
        if decoder is not None and decoder.shape == labels.shape
        else None,
    )


def _padding(tokenizer: Any | None, batch: Mapping[str, Any], labels: Any, scored: Any, *, beside: bool) -> int | None:
    """Scored padding: where the mask is 0, or by the padding token where no mask lies beside the labels."""
    mask = batch.get("attention_mask")
    if beside and mask is not None and mask.shape == labels.shape:
        return int((scored & (mask == 0)).sum())
    pad = getattr(tokenizer, "pad_token_id", None)
    if pad is None or pad == getattr(tokenizer, "eos_token_id", None):
        return None
    return int((labels == pad).sum())
