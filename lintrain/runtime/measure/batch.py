"""What a loader and its collator produce, counted over a few batches.

Tensors and their ranges; tokens that are attended, padding or unknown, and where mask and ids disagree; which tokens
are scored, how labels correspond to them, and how rows begin and end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from lintrain.evidence.run import (
    BatchEvidence,
    EdgeEvidence,
    LabelEvidence,
    ScoredTokens,
    SegmentEvidence,
    TensorEvidence,
)
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.tokenizer import find_tokenizer
from lintrain.startup.lazy_dataclass import dataclass


def collator_name(collator: Any) -> str:
    """The class of a collator, or the name of a function."""
    # transformers wraps a collator to remove columns; the name that the script gave is inside.
    inner = attribute(collator, "data_collator", collator)
    return attribute(inner, "__name__") or type(inner).__name__


def describe(run: MeasuredRun, argument: str, batches: list[Any]) -> BatchEvidence:
    """Tensors of the first batch, and the token counts of all."""
    first = batches[0]
    tensors = [_tensor(str(name), value) for name, value in entries(first).items() if has(value, "dtype")]
    tokenizer = find_tokenizer(run)
    tokens = count_tokens(tokenizer, [entries(batch) for batch in batches]) or TokenCounts()
    return BatchEvidence(
        argument=argument,
        collator=collator_name(run.collator),
        tensors=tuple(tensors),
        rows=tensors[0].shape[0] if tensors and tensors[0].shape else 0,
        attended_tokens=tokens.attended,
        padding_tokens=tokens.padding,
        unknown_tokens=tokens.unknown,
        unknown_pieces=lost_pieces(tokenizer, run.texts) if tokens.unknown else (),
        ordinary_tokens=tokens.ordinary,
        longest=tokens.longest,
        mask_shape_differs=tokens.mask_shape_differs,
        mask_empty_rows=tokens.mask_empty_rows,
        mask_on_padding=tokens.mask_on_padding,
        pad_is_eos=tokens.pad_is_eos,
        labels=count_labels(tokenizer, [entries(batch) for batch in batches]),
        edges=count_edges(tokenizer, [entries(batch) for batch in batches]),
        targets=count_scored(tokenizer, [entries(batch) for batch in batches]),
        collated=run.session.collations.latest() if run.session.collations is not None else None,
        segments=count_segments(tokenizer, [entries(batch) for batch in batches]),
    )


def entries(batch: Any) -> Mapping[str, Any]:
    """A batch as names and values; the positions are the names of a tuple's entries."""
    if is_mapping(batch):
        return batch
    if is_row(batch):
        return {str(position): value for position, value in enumerate(batch)}
    return {"0": batch}


def _tensor(name: str, value: Any) -> TensorEvidence:
    torch = library("torch")
    numbers = value.detach().float() if value.numel() and not value.is_complex() else None
    device = "" if value.device.type == "cpu" else str(value.device)
    if numbers is None:
        return TensorEvidence(name, tuple(value.shape), str(value.dtype).removeprefix("torch."), device=device)
    # One infinity would be the maximum of all; such entries are counted on their own.
    finite = numbers[torch.isfinite(numbers)]
    return TensorEvidence(
        name,
        tuple(value.shape),
        str(value.dtype).removeprefix("torch."),
        float(finite.min()) if finite.numel() else None,
        float(finite.max()) if finite.numel() else None,
        int(numbers.numel() - finite.numel()),
        device,
    )


IGNORED = -100


def count_scored(tokenizer: Any | None, batches: list[Mapping[str, Any]]) -> ScoredTokens | None:
    """Counts over batches whose int64 `labels` are [rows, tokens]; None if they are not."""
    counted: ScoredTokens | None = None
    for batch in batches:
        labels = batch.get("labels")
        # One label a row belongs to a classifier, float labels to a regression: neither scores tokens.
        if labels is None or attribute(labels, "ndim", 0) != 2 or labels.dtype.is_floating_point:
            return counted
        here = _count(tokenizer, batch, labels)
        counted = here if counted is None else counted.plus(here)
    return counted


def _count(tokenizer: Any | None, batch: Mapping[str, Any], labels: Any) -> ScoredTokens:
    scored = labels != IGNORED
    ids, decoder = batch.get("input_ids"), batch.get("decoder_input_ids")
    beside = ids is not None and ids.shape == labels.shape
    # For a model that shifts its labels itself they are equal to the inputs; for others, equal to the next ones.
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
        equal_to_previous=int(((labels[:, 1:] == ids[:, :-1]) & scored[:, 1:]).sum())
        if ids is not None and beside
        else None,
    )


def _padding(tokenizer: Any | None, batch: Mapping[str, Any], labels: Any, scored: Any, *, beside: bool) -> int | None:
    """Scored padding: where the mask is 0, or by the padding token if there is no mask for the labels."""
    mask = batch.get("attention_mask")
    if beside and mask is not None and mask.shape == labels.shape:
        return int((scored & (mask == 0)).sum())
    # Where padding and end of text are one token, a scored end of text looks like padding.
    pad = attribute(tokenizer, "pad_token_id", None)
    if pad is None or pad == attribute(tokenizer, "eos_token_id", None):
        return None
    return int((labels == pad).sum())


IGNORED_LABEL = -100


def count_labels(tokenizer: Any | None, batches: list[Mapping[str, Any]]) -> LabelEvidence | None:
    """Sums over the batches whose `labels` have the shape of their `input_ids`; None if there are none."""
    counted = [
        _labels_of(tokenizer, ids, attended, batch["labels"])
        for batch, ids, attended in _token_batches(batches, tokenizer)
        if attribute(batch.get("labels"), "shape", None) == ids.shape
    ]
    names = [field.name for field in fields(LabelEvidence)]
    sums = {name: sum(getattr(each, name) for each in counted) for name in names}
    return LabelEvidence(**sums) if counted else None


def _labels_of(tokenizer: Any | None, ids: Any, attended: Any, labels: Any) -> LabelEvidence:
    supervised = labels != IGNORED_LABEL
    eos = _is(ids, attribute(tokenizer, "eos_token_id", None))
    mask = _is(ids, attribute(tokenizer, "mask_token_id", None))
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
    # An empty text has no attended token, and neither start nor end.
    rows = [row for row in rows if row]
    if not rows:
        return None
    bos, eos = attribute(tokenizer, "bos_token_id", None), attribute(tokenizer, "eos_token_id", None)
    longest = max(map(len, rows))
    longest_rows = [row for row in rows if len(row) == longest]
    return EdgeEvidence(
        rows=len(rows),
        starts_with_bos=sum(row[0] == bos for row in rows),
        starts_with_two_bos=sum(bos is not None and row[:2] == [bos, bos] for row in rows),
        ends_with_eos=sum(row[-1] == eos for row in rows),
        most_frequent_last=Counter(row[-1] for row in rows).most_common(1)[0][1],
        highest_id=max(max(row) for row in rows),
        equal_lengths=len({len(row) for row in rows}) == 1,
        same_start=_same_start(rows),
        longest=longest,
        are_longest=len(longest_rows),
        longest_with_eos=sum(row[-1] == eos for row in longest_rows),
    )


def count_segments(tokenizer: Any | None, batches: list[Mapping[str, Any]]) -> SegmentEvidence | None:
    """Token types next to the separators of the batches' rows; None for a tokenizer without any."""
    separator = attribute(tokenizer, "sep_token_id", None)
    # RoBERTa's tokenizers use one token for both, and have no token types that a pair could miss.
    if separator is None or separator == attribute(tokenizer, "eos_token_id", None):
        return None
    rows = [
        _segments_of(row[kept] == separator, types[kept] if types is not None else row[kept] * 0)
        for batch, ids, attended in _token_batches(batches, tokenizer)
        for row, kept, types in zip(ids, attended, _types(batch, ids), strict=True)
    ]
    pairs = [row for row in rows if row.is_pair]
    return SegmentEvidence(
        rows=len(rows),
        pairs=len(pairs),
        flat=sum(not row.second for row in pairs),
        divided=sum(row.is_divided for row in pairs),
        first=sum(row.first for row in rows),
        second=sum(row.second for row in rows),
        given=all("token_type_ids" in batch for batch in batches),
    )


def _types(batch: Mapping[str, Any], ids: Any) -> Any:
    types = batch.get("token_type_ids")
    return types if attribute(types, "shape", None) == ids.shape else [None] * len(ids)


@dataclass(frozen=True)
class Segments:
    """The attended tokens of one row: whether it is two texts, its tokens of type 0 and of others, and whether these
    begin behind the separator between the texts.
    """

    is_pair: bool
    first: int
    second: int
    is_divided: bool


def _segments_of(is_separator: Any, types: Any) -> Segments:
    """The segments of a row, from where its separators are and from its types."""
    at: list[int] = is_separator.nonzero().flatten().tolist()
    second = int((types != 0).sum())
    # Positions of separators in `[CLS] a [SEP] b [SEP]`: two, one of them at the end, with tokens on
    # both sides of the first.
    is_pair = len(at) == 2 and at[1] == len(types) - 1 and 0 < at[0] < at[1] - 1
    is_divided = is_pair and not bool(types[: at[0] + 1].any()) and bool((types[at[0] + 1 :] != 0).all())
    return Segments(is_pair, len(types) - second, second, is_divided)


def _same_start(rows: list[list[int]]) -> int:
    """How many tokens all rows have in common, from their first one on."""
    alike = [len(set(tokens)) == 1 for tokens in zip(*rows, strict=False)]
    return alike.index(False) if False in alike else len(alike)


def _token_batches(
    batches: list[Mapping[str, Any]], tokenizer: Any | None
) -> Iterator[tuple[Mapping[str, Any], Any, Any]]:
    """Batches with ids of [rows, tokens], each with these and a mask of those that are attended."""
    pad = attribute(tokenizer, "pad_token_id", None)
    for batch in batches:
        ids: Any = batch.get("input_ids")
        mask: Any = batch.get("attention_mask")
        if attribute(ids, "ndim", 0) == 2:
            is_fit = attribute(mask, "shape", None) == ids.shape
            # -1 is no id: without a padding token every position counts as attended.
            yield batch, ids, mask.bool() if is_fit else ids != (-1 if pad is None else pad)


def _is(ids: Any, token: int | None) -> Any:
    return ids == (-1 if token is None else token)


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
        if ids is None or attribute(ids, "ndim", 0) != 2:
            return counts
        counts = counts or TokenCounts(0, 0, None, None, 0)
        _add_batch(counts, tokenizer, ids, batch.get("attention_mask"))
    return counts


def _add_batch(counts: TokenCounts, tokenizer: Any | None, ids: Any, mask: Any | None) -> None:
    pad = attribute(tokenizer, "pad_token_id", None)
    if mask is not None and (mask.ndim != 2 or mask.shape != ids.shape):
        # A mask of three or four axes is one that the model broadcasts over heads: it is no mistake.
        counts.mask_shape_differs = counts.mask_shape_differs or mask.ndim == 2
        mask = None
    attended = mask.bool() if mask is not None else (ids != pad if pad is not None else ids == ids)
    counts.attended = (counts.attended or 0) + int(attended.sum())
    counts.padding = (counts.padding or 0) + int((~attended).sum())
    counts.longest = max(counts.longest or 0, int(attended.sum(dim=1).max()))
    counts.pad_is_eos = pad is not None and pad == attribute(tokenizer, "eos_token_id", None)
    if mask is not None:
        # A row of padding alone is an empty text, and its mask is right.
        is_masked = attended.sum(dim=1) == 0
        is_masked = is_masked & (ids != pad).any(dim=1) if pad is not None else is_masked
        counts.mask_empty_rows += int(is_masked.sum())
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
    unknown = attribute(tokenizer, "unk_token_id", None)
    if tokenizer is None or unknown is None or unknown in (tokenizer.pad_token_id, tokenizer.eos_token_id):
        return
    # Special tokens are never unknown: with short texts they would halve the share of unknown tokens.
    special = set(tokenizer.all_special_ids) - {unknown}
    tokens = attended.tolist()
    counts.unknown = (counts.unknown or 0) + sum(token == unknown for token in tokens)
    counts.ordinary = (counts.ordinary or 0) + sum(token not in special for token in tokens)


def lost_pieces(tokenizer: Any, texts: list[str]) -> tuple[str, ...]:
    """The pieces of text that the tokenizer does not know, the most frequent first; empty for slow tokenizers."""
    if not texts or not attribute(tokenizer, "is_fast", False):
        return ()
    counted: Counter[str] = Counter()
    encoded = tokenizer(texts, return_offsets_mapping=True, add_special_tokens=False)
    for text, ids, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        pairs = zip(ids, offsets, strict=True)
        counted.update(text[start:end] for token, (start, end) in pairs if token == tokenizer.unk_token_id)
    return tuple(piece for piece, _ in counted.most_common(SHOWN))
