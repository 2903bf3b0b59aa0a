"""Token ids next to their labels: what is supervised, what is masked, and how rows begin and end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from lintrain.evidence.run import EdgeEvidence, LabelEvidence

IGNORED = -100


def count_labels(tokenizer: Any | None, batches: list[Mapping[str, Any]]) -> LabelEvidence | None:
    """Sums over the batches whose `labels` have the shape of their `input_ids`; None if there are none."""
    counted = [
        _labels_of(tokenizer, ids, attended, batch["labels"])
        for batch, ids, attended in _token_batches(batches, tokenizer)
        if getattr(batch.get("labels"), "shape", None) == ids.shape
    ]
    names = [field.name for field in fields(LabelEvidence)]
    sums = {name: sum(getattr(each, name) for each in counted) for name in names}
    return LabelEvidence(**sums) if counted else None


def _labels_of(tokenizer: Any | None, ids: Any, attended: Any, labels: Any) -> LabelEvidence:
    supervised = labels != IGNORED
    eos = _is(ids, getattr(tokenizer, "eos_token_id", None))
    mask = _is(ids, getattr(tokenizer, "mask_token_id", None))
    return LabelEvidence(
        rows=int(ids.shape[0]),
        attended=int(attended.sum()),
        supervised=int(supervised.sum()),
        copied=int((supervised & (labels == ids)).sum()),
        masked_inputs=int((supervised & mask).sum()),
        eos_attended=int((eos & attended).sum()),
        eos_supervised=int((eos & attended & supervised).sum()),
        rows_without=int((supervised.sum(dim=1) == 0).sum()),
        pad_supervised=int((supervised & ~attended).sum()),
    )


def count_edges(tokenizer: Any | None, batches: list[Mapping[str, Any]]) -> EdgeEvidence | None:
    """How the attended ids of the batches' rows begin and end; None for batches without ids."""
    rows = [
        row[kept].tolist()
        for _, ids, attended in _token_batches(batches, tokenizer)
        for row, kept in zip(ids, attended, strict=True)
    ]
    rows = [row for row in rows if row]
    if not rows:
        return None
    bos, eos = getattr(tokenizer, "bos_token_id", None), getattr(tokenizer, "eos_token_id", None)
    return EdgeEvidence(
        rows=len(rows),
        starts_with_bos=sum(row[0] == bos for row in rows),
        starts_with_two_bos=sum(bos is not None and row[:2] == [bos, bos] for row in rows),
        ends_with_eos=sum(row[-1] == eos for row in rows),
        most_frequent_last=Counter(row[-1] for row in rows).most_common(1)[0][1],
        highest_id=max(max(row) for row in rows),
        equal_lengths=len({len(row) for row in rows}) == 1,
    )


def _token_batches(
    batches: list[Mapping[str, Any]], tokenizer: Any | None
) -> Iterator[tuple[Mapping[str, Any], Any, Any]]:
    """Batches with ids of [rows, tokens], each with these and a mask of those that are attended."""
    pad = getattr(tokenizer, "pad_token_id", None)
    for batch in batches:
        ids: Any = batch.get("input_ids")
        mask: Any = batch.get("attention_mask")
        if getattr(ids, "ndim", 0) == 2:
            is_fit = getattr(mask, "shape", None) == ids.shape
            yield batch, ids, mask.bool() if is_fit else ids != (-1 if pad is None else pad)


def _is(ids: Any, token: int | None) -> Any:
    return ids == (-1 if token is None else token)
