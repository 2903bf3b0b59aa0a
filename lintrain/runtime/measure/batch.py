"""What a loader and its collator produce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lintrain.evidence.run import BatchEvidence, TensorEvidence
from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.library import library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.scored_tokens import count_scored
from lintrain.runtime.measure.supervision import count_edges, count_labels
from lintrain.runtime.measure.tokenizer import find_tokenizer
from lintrain.runtime.measure.tokens import TokenCounts, count_tokens, lost_pieces


def collator_name(collator: Any) -> str:
    """The class of a collator, or the name of a function."""
    inner = getattr(collator, "data_collator", collator)
    return getattr(inner, "__name__", None) or type(inner).__name__


def describe(run: MeasuredRun, argument: str, batches: list[Any]) -> BatchEvidence:
    """Tensors of the first batch, and the token counts of all."""
    first = batches[0]
    tensors = [_tensor(str(name), value) for name, value in entries(first).items() if hasattr(value, "dtype")]
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
    if numbers is None:
        return TensorEvidence(name, tuple(value.shape), str(value.dtype).removeprefix("torch."))
    finite = numbers[torch.isfinite(numbers)]
    return TensorEvidence(
        name,
        tuple(value.shape),
        str(value.dtype).removeprefix("torch."),
        float(finite.min()) if finite.numel() else None,
        float(finite.max()) if finite.numel() else None,
        int(numbers.numel() - finite.numel()),
    )
