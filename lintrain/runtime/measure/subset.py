"""Smaller datasets of the same kind: rows from all over, one of every label value among them."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any

from lintrain.runtime.child.label_rows import one_of_every_label, spread
from lintrain.runtime.child.library import library, loaded


def is_arrow(dataset: Any) -> bool:
    """Whether a dataset is a table of `datasets` whose rows are not made by the user's own transform."""
    module = loaded("datasets.arrow_dataset")
    if module is None or not isinstance(dataset, module.Dataset):
        return False
    # `set_transform` runs the user's code for each row that is read; such a data set is read through it or not at
    # all.
    return bool(dataset.format["type"] != "custom")


def number_of_rows(dataset: Any) -> int | None:
    """The length of a dataset, or None for one that only streams."""
    try:
        return len(dataset)
    except (TypeError, NotImplementedError):
        return None


def has_rows(dataset: Any) -> bool:
    """Whether a dataset has a length and gives rows by their number; a stream, which may count its rows, does not."""
    torch_data = loaded("torch.utils.data")
    is_stream = torch_data is not None and isinstance(dataset, torch_data.IterableDataset)
    return number_of_rows(dataset) is not None and hasattr(dataset, "__getitem__") and not is_stream


def subset(dataset: Any, rows: int) -> Any:
    """At most `rows` rows of a dataset, with every label among them where that fits; a stream gives its first rows."""
    # A stream can be read once: its first rows are taken, in order.
    if not has_rows(dataset):
        return dataset.take(rows) if hasattr(dataset, "take") else first_rows(dataset, rows)
    chosen = chosen_rows(dataset, len(dataset), rows)
    if hasattr(dataset, "select"):
        return dataset.select(chosen)
    return library("torch.utils.data").Subset(dataset, chosen)


def first_rows(dataset: Iterable[Any], rows: int) -> list[Any]:
    """The first rows of a stream."""
    return list(islice(dataset, rows))


def chosen_rows(dataset: Any, length: int, rows: int) -> list[int]:
    """Row numbers, in order."""
    chosen = set(one_of_every_label(dataset)[:rows] if is_arrow(dataset) else ())
    for row in spread(length, rows):
        if len(chosen) >= min(rows, length):
            break
        chosen.add(row)
    return sorted(chosen)
