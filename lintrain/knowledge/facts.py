"""Facts about a data set or a checkpoint, with their source. None means not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """A column: `kind` is "text", "integer", "float", "class label", "list", "image", "audio" or "unknown".

    A list of class labels is a "list" with `class_names` or `num_classes`.
    """

    name: str
    kind: str = "unknown"
    class_names: tuple[str, ...] = ()
    num_classes: int | None = None


@dataclass(frozen=True, slots=True)
class DatasetFacts:
    """A data set: its columns, and its splits with their rows (None where only the name is known).

    `splits` is empty where they are not known. `sorted_by` names the column that the train split is sorted by;
    `unlabelled` are splits whose labels are all -1.
    """

    columns: Mapping[str, ColumnFacts]
    splits: Mapping[str, int | None] = field(default_factory=dict[str, "int | None"])
    sorted_by: str | None = None
    unlabelled: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """A saved model: its architecture and what its tokenizer has.

    `max_positions` is the number of tokens that its position embeddings can take, None where there is no such
    limit or it is not known. `head` is the class that its weights were saved from
    (`BertForSequenceClassification`), None for a model without a head of its own; `num_labels` the outputs of
    that head. `size` is "small", "base", "large" or "huge".
    """

    model_type: str | None = None
    max_positions: int | None = None
    has_pad_token: bool | None = None
    has_eos_token: bool | None = None
    has_bos_token: bool | None = None
    size: str | None = None
    dtype: str | None = None
    vocab_size: int | None = None
    head: str | None = None
    num_labels: int | None = None
    label_names: tuple[str, ...] = ()
    source: str = ""
