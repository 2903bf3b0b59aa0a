"""Checkpoint facts from a saved model, the hub cache, or the shipped table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from lintrain.knowledge.data_files import (
    Json,
    as_int,
    as_object,
    as_text,
    as_texts,
    cached_snapshots,
    is_folder,
    read_json,
)
from lintrain.knowledge.tables import CheckpointFacts

_POSITIONS = ("max_position_embeddings", "n_positions", "max_source_positions")
_WIDTHS = ("hidden_size", "d_model", "dim", "n_embd")
# These count positions from the padding token on, so two of the embeddings are never used.
_OFFSET_POSITIONS = frozenset(
    {"roberta", "xlm-roberta", "camembert", "longformer", "roberta-prelayernorm", "xmod", "mpnet"}
)
# Relative positions, or positions computed for any length: no text is too long.
_RELATIVE_POSITIONS = frozenset(
    {"t5", "mt5", "umt5", "longt5", "switch_transformers", "bloom", "mpt", "xlnet", "m2m_100", "nllb-moe", "xglm"}
)


def checkpoint_facts(name: str, folder: Path | None = None) -> CheckpointFacts | None:
    """What `from_pretrained(name)` reads; paths are relative to `folder`.

    If a folder of that name exists, the libraries read it, so nothing else is read.
    """
    local = (folder or Path()) / name
    if is_folder(local):
        return _saved(local, f"config.json in {name}")
    row = _table().get(name)
    for known_as in row["names"] if row is not None else [name]:
        for snapshot in cached_snapshots(known_as):
            if (facts := _saved(snapshot, "hub cache")) is not None:
                return facts
    return _shipped(row) if row is not None else None


def _saved(folder: Path, source: str) -> CheckpointFacts | None:
    config = read_json(folder / "config.json")
    if config is None:
        return None
    tokens = {
        **(read_json(folder / "special_tokens_map.json") or {}),
        **(read_json(folder / "tokenizer_config.json") or {}),
    }
    model_type = as_text(config.get("model_type"))
    head = next(iter(as_texts(config.get("architectures"))), None)
    names = as_object(config.get("id2label")) or {}
    return CheckpointFacts(
        model_type=model_type,
        max_positions=_positions(config, model_type),
        has_pad_token=_has(tokens, "pad_token"),
        has_eos_token=_has(tokens, "eos_token"),
        has_bos_token=_has(tokens, "bos_token"),
        size=_size(config),
        dtype=as_text(config.get("dtype")) or as_text(config.get("torch_dtype")) or "float32",
        vocab_size=as_int(config.get("vocab_size")),
        head=head if head is not None and not head.endswith("Model") else None,
        num_labels=_num_labels(config, head, len(names)),
        label_names=tuple(str(names[key]) for key in sorted(names, key=_location)),
        source=source,
    )


def _shipped(row: Mapping[str, Any]) -> CheckpointFacts:
    tokens: str = row["tokens"]
    labels = tuple(row.get("labels", ()))
    return CheckpointFacts(
        model_type=row["model_type"],
        max_positions=row["positions"],
        has_pad_token=_signed(tokens, "pad"),
        has_eos_token=_signed(tokens, "eos"),
        has_bos_token=_signed(tokens, "bos"),
        size=row["size"],
        dtype=row["dtype"],
        vocab_size=row.get("vocab"),
        head=row.get("head"),
        num_labels=row.get("num_labels", len(labels) or None),
        label_names=labels,
        source=f"shipped table ({row['source']})",
    )


def _positions(config: Json, model_type: str | None) -> int | None:
    if model_type in _RELATIVE_POSITIONS:
        return None
    found = next((positions for key in _POSITIONS if (positions := as_int(config.get(key))) is not None), None)
    if found is None or model_type not in _OFFSET_POSITIONS:
        return found
    pad = as_int(config.get("pad_token_id"))
    return found - (1 if pad is None else pad) - 1


def _has(tokens: Mapping[str, object], name: str) -> bool | None:
    """Whether a tokenizer's files define a token; None if they define none at all, so that the class decides."""
    return bool(tokens.get(name)) if any(key.endswith("_token") for key in tokens) else None


def _signed(tokens: str, name: str) -> bool | None:
    return True if f"+{name}" in tokens else False if f"-{name}" in tokens else None


def _size(config: Json) -> str | None:
    width = next((width for key in _WIDTHS if (width := as_int(config.get(key))) is not None), None)
    if width is None:
        return None
    return "small" if width < 768 else "base" if width < 1024 else "large" if width < 2048 else "huge"


def _num_labels(config: Json, head: str | None, named: int) -> int | None:
    """The outputs of a classification head; a config without labels means two."""
    if head is None or "Classification" not in head:
        return None
    return named or as_int(config.get("num_labels")) or 2


def _location(key: str) -> int:
    return int(key) if key.isdecimal() else 0


@cache
def _table() -> Mapping[str, Any]:
    """The shipped rows under each of their names. `Any`: the file is our own."""
    rows: list[dict[str, Any]] = json.loads((Path(__file__).parent / "checkpoints.json").read_bytes())
    return {name: row for row in rows for name in row["names"]}
