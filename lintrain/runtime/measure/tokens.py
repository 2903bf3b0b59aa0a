"""Token counts of collated batches: attended, padding, unknown, and where mask and ids disagree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from lintrain.startup.lazy_dataclass import dataclass

SHOWN = 8


@dataclass
class TokenCounts:
    """Sums over all batches; `longest` is the most attended tokens of a row."""

    attended: int | None = None
    padding: int | None = None
    unknown: int | None = None
    ordinary: int | None = None
    longest: int | None = None
    mask_shape_differs: bool = False
    mask_empty_rows: int = 0
    mask_on_padding: int = 0
    pad_is_eos: bool = False


def count_tokens(tokenizer: Any | None, batches: list[Mapping[str, Any]]) -> TokenCounts | None:
    """The counts of batches with int64 `input_ids` [rows, tokens]; None for other batches."""
    counts: TokenCounts | None = None
    for batch in batches:
        ids = batch.get("input_ids")
        if ids is None or getattr(ids, "ndim", 0) != 2:
            return counts
        counts = counts or TokenCounts(0, 0, None, None, 0)
        _add_batch(counts, tokenizer, ids, batch.get("attention_mask"))
    return counts


def _add_batch(counts: TokenCounts, tokenizer: Any | None, ids: Any, mask: Any | None) -> None:
    pad = getattr(tokenizer, "pad_token_id", None)
    if mask is not None and (mask.ndim != 2 or mask.shape != ids.shape):
        counts.mask_shape_differs = counts.mask_shape_differs or mask.ndim == 2
        mask = None
    attended = mask.bool() if mask is not None else (ids != pad if pad is not None else ids == ids)
    counts.attended = (counts.attended or 0) + int(attended.sum())
    counts.padding = (counts.padding or 0) + int((~attended).sum())
    counts.longest = max(counts.longest or 0, int(attended.sum(dim=1).max()))
    counts.pad_is_eos = pad is not None and pad == getattr(tokenizer, "eos_token_id", None)
    if mask is not None:
        counts.mask_empty_rows += int((attended.sum(dim=1) == 0).sum())
        if pad is not None:
            counts.mask_on_padding += int((attended & _outer_padding(ids, pad)).sum())
    _add_unknown(counts, tokenizer, ids[attended])


def _outer_padding(ids: Any, pad: int) -> Any:
    """Where a row holds nothing but padding from here to its end, or from its start to here."""
    is_pad = (ids == pad).int()
    after = is_pad.flip(1).cumprod(dim=1).flip(1)
    before = is_pad.cumprod(dim=1)
    return (after | before).bool()


def _add_unknown(counts: TokenCounts, tokenizer: Any | None, attended: Any) -> None:
    unknown = getattr(tokenizer, "unk_token_id", None)
    if tokenizer is None or unknown is None or unknown in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        return
    special = set(tokenizer.all_special_ids) - {unknown}
    tokens = attended.tolist()
    counts.unknown = (counts.unknown or 0) + sum(token == unknown for token in tokens)
    counts.ordinary = (counts.ordinary or 0) + sum(token not in special for token in tokens)


def lost_pieces(tokenizer: Any, texts: list[str]) -> tuple[str, ...]:
    """The pieces of text that the tokenizer does not know, the most frequent first; empty for slow tokenizers."""
    if not texts or not getattr(tokenizer, "is_fast", False):
        return ()
    counted: Counter[str] = Counter()
    encoded = tokenizer(texts, return_offsets_mapping=True, add_special_tokens=False)
    for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        pairs = zip(ids, offsets, strict=True)
        counted.update(text[start:end] for token, (start, end) in pairs if token == tokenizer.unk_token_id)
    return tuple(piece for piece, _ in counted.most_common(SHOWN))
