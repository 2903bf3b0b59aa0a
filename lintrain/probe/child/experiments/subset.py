"""Smaller datasets of the same kind: evenly spaced rows, and one of every label value."""

from __future__ import annotations

from itertools import islice
from typing import Any

from lintrain.probe.child.experiments.arrow import label_rows
from lintrain.probe.child.experiments.columns import LABEL_NAMES, is_arrow, number_of_rows
from lintrain.probe.child.experiments.rows import spread
from lintrain.probe.child.library import library


def subset(dataset: Any, rows: int) -> Any:
    """At most `rows` rows of a dataset, with every label among them where that fits; a stream gives its first rows."""
    length = number_of_rows(dataset)
    if length is None or not hasattr(dataset, "__getitem__"):
        return _first_rows(dataset, rows)
    chosen = chosen_rows(dataset, length, rows)
    if hasattr(dataset, "select"):
        return dataset.select(chosen)
    return library("torch.utils.data").Subset(dataset, chosen)


def chosen_rows(dataset: Any, length: int, rows: int) -> list[int]:
    """Row numbers, in order."""
    labels = list(islice(_label_rows(dataset), rows))
    chosen = set(labels)
    for row in spread(length, rows):
        if len(chosen) >= min(rows, length):
            break
        chosen.add(row)
    return sorted(chosen)


def _label_rows(dataset: Any) -> Any:
    if not is_arrow(dataset):
        return iter(())
    name = next((name for name in LABEL_NAMES if name in dataset.column_names), None)
    return label_rows(dataset, name) if name else iter(())


def _first_rows(dataset: Any, rows: int) -> Any:
    if hasattr(dataset, "take"):
        return dataset.take(rows)
    return list(islice(iter(dataset), rows))
