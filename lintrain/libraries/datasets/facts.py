"""What is known of a data set by its name or its folder, in the reader's words."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.interpreter.core.reader import Reader
from lintrain.pipeline.values.data import Column, Kind

if TYPE_CHECKING:
    from lintrain.knowledge.facts import ColumnFacts, DatasetFacts


def facts_of(reader: Reader, path: str, config: str | None = None) -> DatasetFacts | None:
    """What a data set of this name or folder has, seen from the script's folder, else from where lintrain runs."""
    from lintrain.knowledge.dataset_facts import dataset_facts

    return dataset_facts(path, config, Path(reader.record.source.path).parent) or dataset_facts(path, config)


def columns_of(facts: DatasetFacts) -> dict[str, Column]:
    """The columns, each with the source of what is said of it."""
    return {name: _column(column, facts.source) for name, column in facts.columns.items()}


def _column(facts: ColumnFacts, source: str) -> Column:
    return Column(facts.name, Kind(facts.kind), facts.class_names, facts.num_classes, source=source)
