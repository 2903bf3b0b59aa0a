"""The dataset stage: every split's columns, and label values over the whole column.

The longest and the shortest rows.

Datasets that give one row at a time: what a few of their rows show.

Rows that the training set and the evaluation set have in common.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import ColumnEvidence, SharedRows, SplitEvidence, StageName
from lintrain.runtime.child.hooks import Given
from lintrain.runtime.child.label_rows import spread
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, is_tuple, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.quick_datasets import is_repeated
from lintrain.runtime.measure.arrow import arrow_columns, row_lengths
from lintrain.runtime.measure.predictions import IGNORED
from lintrain.runtime.measure.row_values import LABEL_NAMES, Limits, as_numbers
from lintrain.runtime.measure.seen import chosen_rows, first_rows, has_rows, is_arrow, number_of_rows
from lintrain.runtime.measure.sweep import Swept, sweep
from lintrain.runtime.measure.swept_rows import Reading, RowsSeen


def measure_splits(run: MeasuredRun, given: list[Given], reading: Callable[[Given], Reading]) -> None:
    """Send the evidence of every split; an error is that of reading the user's data."""
    splits: list[SplitEvidence] = []
    for number, one in enumerate(given):
        run.progress(StageName.DATASET, number, len(given))
        splits.append(measure_split(run, one, reading(one)))
        run.measured(splits=splits)


def measure_split(run: MeasuredRun, given: Given, reading: Reading) -> SplitEvidence:
    """Columns, label range and wrong rows of one split."""
    dataset = given.dataset
    rows = sample_rows(dataset)
    run.texts += [value for row in rows if is_mapping(row) for value in row.values() if isinstance(value, str)]
    if is_arrow(dataset) and run.session.origins.texts is not None:
        run.session.origins.texts.note_rows(given.argument, dataset)
    found = sweep(run, dataset, reading, rows)
    columns = _columns(dataset, rows, found)
    label = label_column(columns, run.label_inputs)
    key = given.argument, given.key
    run.columns[key] = tuple(column.name for column in columns)
    run.class_names[key] = (label.names if label else ()) or _classes_of(dataset)
    return SplitEvidence(
        argument=given.argument,
        rows=number_of_rows(dataset),
        columns=tuple(columns),
        key=given.key,
        label_column=label.name if label else None,
        kind=type(dataset).__name__,
        given_at=given.location,
        masked=sum(map(_masked_in, rows)),
        sweep=found[1] if found is not None else None,
    )


def _classes_of(dataset: Any) -> tuple[str, ...]:
    """The names of classes that a data set of torchvision keeps, or one of the same form; also of a part of it."""
    # `random_split` gives a Subset, whose `dataset` may be a Subset again.
    while (names := attribute(dataset, "classes")) is None and (inner := attribute(dataset, "dataset")) is not None:
        dataset = inner
    return tuple(names) if is_row(names) and all(isinstance(name, str) for name in names) else ()


def _columns(dataset: Any, rows: list[Any], found: Swept | None) -> list[ColumnEvidence]:
    """Those of the rows that were read; of a table as it describes them, with the lengths of all of its lists."""
    if not is_arrow(dataset):
        return found[0] if found is not None else row_columns(rows)
    columns = arrow_columns(dataset)
    if found is None:
        return columns
    read = {column.name: column for column in found[0]}
    if found[1].numbered:
        columns = [replace(each, runs=read[each.name].runs) if each.name in read else each for each in columns]
    if not found[1].is_whole:
        return columns
    return [
        replace(column, lengths=own.lengths, length_bins=own.length_bins, rows_read=own.rows_read)
        if column.lengths and (own := read.get(column.name)) is not None and own.lengths
        else column
        for column in columns
    ]


def _masked_in(row: Any) -> int:
    """The labels of -100 at tokens of a row that are attended; 0 for labels that are not one for each token."""
    if not is_mapping(row):
        return 0
    labels, mask = _plain(row.get("labels")), _plain(row.get("attention_mask"))
    if not is_row(labels) or not is_row(mask) or len(labels) != len(mask):
        return 0
    return sum(bool(attended) and label == IGNORED for label, attended in zip(labels, mask, strict=True))


def label_column(columns: list[ColumnEvidence], label_names: tuple[str, ...]) -> ColumnEvidence | None:
    """The column that the trainer takes as labels."""
    by_name = {column.name: column for column in columns}
    named = next((by_name[name] for name in (*label_names, *LABEL_NAMES) if name in by_name), None)
    # A row that is a pair: what the model reads, and its class.
    is_pair = list(by_name) == ["0", "1"] and by_name["1"].kind == "integer"
    return by_name["1"] if named is None and is_pair else named


def _plain(value: Any) -> Any:
    return value.tolist() if has(value, "tolist") else value


SAMPLED = 32
KEY_SECONDS = 0.7


def sample_rows(dataset: Any) -> list[Any]:
    """A few rows as the dataset gives them, from all over it where it has a length."""
    if not has_rows(dataset):
        return first_rows(dataset, SAMPLED)
    return [dataset[row] for row in chosen_rows(dataset, len(dataset), SAMPLED)]


def row_columns(rows: list[Any]) -> list[ColumnEvidence]:
    """The keys of some rows as columns, or the positions of a tuple."""
    seen = RowsSeen(Limits())
    for number, row in enumerate(rows):
        seen.add(number, row)
    return seen.columns()


def rows_in_order(dataset: Any, order: str, count: int) -> list[int]:
    """The numbers of the longest, the shortest or of any rows; empty for a data set that only streams."""
    if not has_rows(dataset):
        return []
    if order == "random":
        # Not the generator of the script: what it draws next would be something else.
        return sorted(random.SystemRandom().sample(range(len(dataset)), min(count, len(dataset))))
    # Of a table all lengths are read from its columns. Other rows have to be made for it, hence the bound.
    lengths = dict(enumerate(row_lengths(dataset))) if is_arrow(dataset) else _read_lengths(dataset)
    return sorted(lengths, key=lambda row: lengths[row], reverse=order == "longest")[:count]


def _read_lengths(dataset: Any) -> dict[int, int]:
    """The lengths of rows that are read one by one, within a second or two."""
    found: dict[int, int] = {}
    end = time.perf_counter() + READ_SECONDS
    for row in spread(len(dataset), READ):
        found[row] = _row_length(dataset[row])
        if time.perf_counter() > end:
            break
    return found


def _row_length(row: Any) -> int:
    parts = list(row.values()) if is_mapping(row) else list(row) if is_tuple(row) else [row]
    if is_mapping(row) and "input_ids" in row:
        parts = [row["input_ids"]]
    return next((len(part) for part in parts if has(part, "__len__") and attribute(part, "ndim", 1) != 0), 0)


LOOKED_AT = 500
"""Evaluation rows that are looked for among the training rows."""

READ, READ_SECONDS = 2_000, 1.5
"""Rows whose length is looked at where each has to be made, and the time for it."""

ROWS_READ = 20_000
"""Training rows that are read; where there are more, only rows that are found prove anything."""

TELLING = ("input_ids", "text", "sentence", "premise", "question", "prompt", "messages")
"""Columns by which a row is known again."""


def shared_rows(given: list[Given]) -> SharedRows | None:
    """How many evaluation rows are training rows too; None if that cannot be determined."""
    train = next((each.dataset for each in given if each.argument == "train_dataset"), None)
    held_out = [each for each in given if each.argument == "eval_dataset" and each.key is None]
    # Several evaluation sets would need a result for each, and one number for all says nothing.
    if train is None or len(held_out) != 1:
        return None
    evaluation = held_out[0].dataset
    # The same object given twice: nothing has to be read.
    if evaluation is train and has(train, "__len__"):
        return SharedRows(len(train), len(train))
    # Rows of a repeated sample are copies of each other: comparing them would find overlap that is ours.
    if all(is_arrow(each) and not is_repeated(each) for each in (train, evaluation)):
        return _counted(train, evaluation)
    if any(is_arrow(each) or not has_rows(each) for each in (train, evaluation)):
        return None
    return _counted_by_row(train, evaluation)


def _counted_by_row(train: Any, evaluation: Any) -> SharedRows | None:
    """The same for rows that are read one by one, by the numbers and texts that the model reads of them."""
    trained_on = list(_read_keys(train, ROWS_READ))
    known = set(trained_on)
    looked_for = list(_read_keys(evaluation, LOOKED_AT))
    are_numbered = len(known) < len(trained_on) and _are_identified(train, len(trained_on))
    # Few different rows may be all that there are, as of a truth table.
    if not looked_for or (len(known) < MOSTLY * len(trained_on) and not are_numbered):
        return None
    shared = sum(key in known for key in looked_for)
    repeated = 0.0 if are_numbered else 1 - len(known) / len(trained_on)
    # Time may have ended the reading: rows that were found are found, but none found means something only after all.
    return SharedRows(shared, len(looked_for), repeated) if shared or len(trained_on) == len(train) else None


MOSTLY = 0.9
"""The least share of different rows in a data set that is compared by its rows."""
LEAST_ROWS = 100


def _are_identified(dataset: Any, rows: int) -> bool:
    """Whether rows are a few numbers each, one of which identifies nearly every different row."""
    numpy = library("numpy")
    found = [first_part(dataset[row]) for row in spread(len(dataset), min(rows, AT_MOST_COMPARED))]
    if any(each is None or each.dtype.kind != "f" or each.ndim != 1 or each.shape != found[0].shape for each in found):
        return False
    different = numpy.unique(numpy.stack(found), axis=0)
    own = max((len(numpy.unique(column)) for column in different.T), default=0)
    return len(different) >= LEAST_ROWS and own >= MOSTLY * len(different)


AT_MOST_COMPARED = 2_000


def first_part(row: Any) -> Any:
    """The first part of a row as an array of NumPy; None for anything else."""
    return as_numbers(row[0] if isinstance(row, tuple) and row else row)


def _read_keys(dataset: Any, most: int) -> Iterator[bytes]:
    end = time.perf_counter() + KEY_SECONDS
    for row in spread(len(dataset), most):
        if (key := _row_key(dataset[row])) is not None:
            yield key
        if time.perf_counter() > end:
            return


def _row_key(row: Any) -> bytes | None:
    """What is read of a row, without its label: a row with another label is the same row."""
    if is_mapping(row):
        parts: list[Any] = [value for name, value in row.items() if name not in LABEL_NAMES]
    else:
        parts = [row[0]] if isinstance(row, tuple) and row else [row]
    keys = [_part_key(part) for part in parts]
    return b"|".join(key for key in keys if key is not None) or None


def _part_key(part: Any) -> bytes | None:
    if isinstance(part, str):
        return part.encode()
    try:
        array = library("numpy").asarray(part)
    except (TypeError, ValueError, RuntimeError):
        return None
    # A single number is no row that could be known again: a label, or one of few values.
    return array.tobytes() if array.dtype.kind in "biuf" and array.size > 1 else None


def _counted(train: Any, evaluation: Any) -> SharedRows | None:
    columns = [name for name in TELLING if name in train.column_names and name in evaluation.column_names]
    if not columns or not len(train) or not len(evaluation):
        return None
    trained_on = _keys(train, columns[0], ROWS_READ)
    known = set(trained_on)
    looked_for = _keys(evaluation, columns[0], LOOKED_AT)
    shared = sum(key in known for key in looked_for)
    if len(train) > ROWS_READ and not shared:
        return None
    return SharedRows(shared, len(looked_for), 1 - len(known) / len(trained_on))


def _keys(dataset: Any, column: str, most: int) -> list[str]:
    """Rows as text, by one column without its padding."""
    # Without the script's format and transform, which could crop at random or raise.
    rows = dataset.with_format(None).select(list(spread(len(dataset), most)), keep_in_memory=True)
    values = rows.with_format(None)[:][column]
    return [_without_padding(value) for value in values]


def _without_padding(value: Any) -> str:
    items: Any = value
    # Padding is 0 in nearly all vocabularies, and its length may differ between the two splits.
    return str([item for item in items if item]) if isinstance(value, list) else str(value)
