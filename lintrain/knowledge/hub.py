"""Facts about data sets and checkpoints by name.

Asked in this order: a folder that the script names, the caches on this machine (JSON files only), the shipped tables
of well-known ones. Every answer names its source; unknown facts are None.

    dataset_facts("glue", "mnli").columns["label"].class_names       ("entailment", "neutral", "contradiction")
    checkpoint_facts("gpt2").has_pad_token                            False
"""

from __future__ import annotations

from lintrain.knowledge.checkpoint_facts import checkpoint_facts
from lintrain.knowledge.dataset_facts import dataset_facts
from lintrain.knowledge.facts import CheckpointFacts, ColumnFacts, DatasetFacts

__all__ = ["CheckpointFacts", "ColumnFacts", "DatasetFacts", "checkpoint_facts", "dataset_facts"]
