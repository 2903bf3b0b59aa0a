"""A few rows in words: what the model is about to read, and the name of its label."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lintrain.evidence.run import ColumnEvidence, Sample
from lintrain.runtime.child.kinds import is_mapping, is_row
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.measure.model import base_model
from lintrain.runtime.measure.tokenizer import find_tokenizer

SHOWN = 3
LONGEST = 300
CLASSES_OF_TOKENS = ("ForTokenClassification", "ForSequenceClassification", "ForQuestionAnswering")


def decoded_samples(run: MeasuredRun, rows: list[Any], label: ColumnEvidence | None) -> tuple[Sample, ...]:
    """Up to three rows, of different labels where there are any; empty for rows without text or token ids."""
    tokenizer = find_tokenizer(run)
    chosen: dict[str, Sample] = {}
    for row in rows:
        text = _text(row, tokenizer) if is_mapping(row) else None
        if text is None:
            continue
        value = _plain(row.get(label.name)) if label else ""
        said = _in_words(run, value, tokenizer) if is_row(value) else str(value)
        chosen.setdefault(said or text, Sample(text[:LONGEST], said[:LONGEST], _name(run, label, value)))
        if len(chosen) == SHOWN:
            break
    return tuple(chosen.values())


def _text(row: Mapping[str, Any], tokenizer: Any) -> str | None:
    ids = _plain(row.get("input_ids"))
    if is_row(ids) and ids and isinstance(ids[0], int) and tokenizer is not None:
        mask = _plain(row.get("attention_mask")) or [1] * len(ids)
        kept = [token for token, attended in zip(ids, mask, strict=False) if attended]
        return str(tokenizer.decode(kept))
    texts = [f"{name}: {value}" for name, value in row.items() if isinstance(value, str)]
    return " | ".join(texts) or None


def _in_words(run: MeasuredRun, labels: Any, tokenizer: Any) -> str:
    """The labels of a language model as text, those that are left out aside; other lists as they are."""
    if tokenizer is None or base_model(run.model).__class__.__name__.endswith(CLASSES_OF_TOKENS):
        return str(labels)
    return f"→ {tokenizer.decode([token for token in labels if isinstance(token, int) and token >= 0])}"


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def _name(run: MeasuredRun, label: ColumnEvidence | None, value: Any) -> str | None:
    if label is None or not isinstance(value, int):
        return None
    if 0 <= value < len(label.names):
        return label.names[value]
    names: dict[int, str] = getattr(getattr(run.model, "config", None), "id2label", None) or {}
    name = names.get(value)
    return str(name) if name is not None and name != f"LABEL_{value}" else None
