"""Rows that the training set and the evaluation set have in common."""

from __future__ import annotations

from typing import Any

from lintrain.evidence.run import SharedRows
from lintrain.runtime.child.given import Given
from lintrain.runtime.child.label_rows import spread
from lintrain.runtime.child.quick_datasets import is_repeated
from lintrain.runtime.measure.subset import is_arrow

LOOKED_AT = 500
"""Evaluation rows that are looked for among the training rows."""

READ = 20_000
"""Training rows that are read; where there are more, only rows that are found prove anything."""

TELLING = ("input_ids", "text", "sentence", "premise", "question", "prompt", "messages")
"""Columns by which a row is known again."""


def shared_rows(given: list[Given]) -> SharedRows | None:
    """How many evaluation rows are training rows too; None if that cannot be determined."""
    train = next((each.dataset for each in given if each.argument == "train_dataset"), None)
    held_out = [each for each in given if each.argument == "eval_dataset" and each.key is None]
    if train is None or len(held_out) != 1:
        return None
    evaluation = held_out[0].dataset
    # The same object given twice: nothing has to be read.
    if evaluation is train and hasattr(train, "__len__"):
        return SharedRows(len(train), len(train))
    # Rows of a repeated sample are copies of each other: comparing them would find overlap that is ours.
    if not all(is_arrow(each) and not is_repeated(each) for each in (train, evaluation)):
        return None
    return _counted(train, evaluation)


def _counted(train: Any, evaluation: Any) -> SharedRows | None:
    columns = [name for name in TELLING if name in train.column_names and name in evaluation.column_names]
    if not columns or not len(train) or not len(evaluation):
        return None
    known = set(_keys(train, columns[0], READ))
    looked_for = _keys(evaluation, columns[0], LOOKED_AT)
    shared = sum(key in known for key in looked_for)
    if len(train) > READ and not shared:
        return None
    return SharedRows(shared, len(looked_for))


def _keys(dataset: Any, column: str, most: int) -> list[str]:
    """Rows as text, by one column without its padding."""
    rows = dataset.with_format(None).select(list(spread(len(dataset), most)), keep_in_memory=True)
    values = rows.with_format(None)[:][column]
    return [_without_padding(value) for value in values]


def _without_padding(value: Any) -> str:
    items: Any = value
    return str([item for item in items if item]) if isinstance(value, list) else str(value)
