"""The batch stage: the run's own loader and collator, and what they put together."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from itertools import islice
from typing import Any

from lintrain.core.evidence import BatchEvidence, TensorEvidence
from lintrain.probe.child.experiments.scored_tokens import count_scored
from lintrain.probe.child.experiments.subset import number_of_rows, subset
from lintrain.probe.child.experiments.supervision import count_edges, count_labels
from lintrain.probe.child.experiments.tokenizer import find_tokenizer
from lintrain.probe.child.experiments.tokens import TokenCounts, count_tokens, lost_pieces
from lintrain.probe.child.kinds import is_mapping, is_row
from lintrain.probe.child.library import library
from lintrain.probe.child.replace import replaced
from lintrain.probe.child.run import Run

MOST_LENGTHS = 4_096


def collate_batches(run: Run) -> None:
    """Take the first batches of the training loader and describe the first; all of them count for the tokens."""
    with ExitStack() as stack:
        if _reads_every_length(run):
            rows = subset(run.trainer.train_dataset, MOST_LENGTHS)
            stack.enter_context(replaced(run.trainer, train_dataset=rows))
            run.session.shorten(f"batches by length were put together from {MOST_LENGTHS} rows")
        loader = run.trainer.get_train_dataloader()
        for batch in islice(iter(loader), run.session.batches):
            run.batches.append(batch)
            run.progress("batch", len(run.batches), run.session.batches)
    if not run.batches:
        raise ValueError("the training loader gives no batch")
    run.batch_evidence.append(describe(run, "train_dataset", run.batches))
    run.measured(batches=run.batch_evidence)


def _reads_every_length(run: Run) -> bool:
    """Whether the sampler would read the whole dataset to group its rows by length."""
    arguments = run.trainer.args
    groups = getattr(arguments, "group_by_length", False)
    strategy = str(getattr(arguments, "train_sampling_strategy", "random"))
    rows = number_of_rows(run.trainer.train_dataset) or 0
    return rows > MOST_LENGTHS and (groups or "length" in strategy or "rebalance" in strategy)


def collator_name(collator: Any) -> str:
    """The class of a collator, or the name of a function."""
    inner = getattr(collator, "data_collator", collator)
    return getattr(inner, "__name__", None) or type(inner).__name__


def describe(run: Run, argument: str, batches: list[Any]) -> BatchEvidence:
    """Tensors of the first batch, and the token counts of all."""
    first = batches[0]
    tensors = [_tensor(str(name), value) for name, value in entries(first).items() if hasattr(value, "dtype")]
    tokenizer = find_tokenizer(run)
    tokens = count_tokens(tokenizer, [entries(batch) for batch in batches]) or TokenCounts()
    return BatchEvidence(
        argument=argument,
        collator=collator_name(run.trainer.data_collator),
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
