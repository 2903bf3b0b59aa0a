"""Data sets made of other things: literals, tables, files, and other data sets."""

from __future__ import annotations

from lintrain.interpreter.core import dispatch
from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import ITEMS_A_STEP
from lintrain.interpreter.core.registry import function
from lintrain.libraries.datasets.columns import column_of
from lintrain.libraries.datasets.deriving import derived, recolumned, started
from lintrain.libraries.datasets.loading import TEXT_ONLY, Content, content_of
from lintrain.libraries.datasets.rows import columns_of, encoding_entries
from lintrain.pipeline.record import Misuse
from lintrain.pipeline.values.columns import DataFrame
from lintrain.pipeline.values.data import Column, Dataset, DatasetDict, Encoding, Features, Kind
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Mapping,
    Sequence,
    Value,
    is_missing,
    literal,
    number_of,
)


@function("datasets.Dataset.from_dict", "datasets.IterableDataset.from_dict")
def _from_dict(call: Call) -> Value:
    made = _columns_of(call, call.value("mapping", 0))
    return _with_features(call, made, 1)


def _columns_of(call: Call, given: Value) -> Dataset:
    """A data set with one column for each key of a dictionary of lists."""
    name = call.path.rpartition(".")[2]
    if isinstance(given, Encoding):
        given = Mapping(*encoding_entries(given))
    if not isinstance(given, Mapping):
        return started(call, name, None, is_complete=False)
    call.reader.spend(len(given.entries))
    columns = {str(key): column_of(str(key), value, is_batch=True) for key, value in given.entries.items()}
    made = started(call, name, columns, is_complete=given.is_complete)
    made.rows = _length_of(given)
    return made


def _length_of(given: Mapping) -> int | None:
    first = next(iter(given.entries.values()), None)
    return len(first.items) if isinstance(first, Sequence) and first.is_complete else None


def _with_features(call: Call, made: Dataset, position: int) -> Dataset:
    """`features=` sets the types of all columns."""
    features = call.value("features", position)
    if isinstance(features, Features):
        made.columns = {**(made.columns or {}), **features.columns}
        made.is_complete = features.is_complete
    elif not is_missing(features):
        # Unknown types may turn any column into another kind: `features=my_features` can make classes of
        # numbers.
        made.columns = {name: Column(name) for name in made.columns or {}}
    return made


@function("datasets.Dataset.from_list")
def _from_list(call: Call) -> Value:
    given = call.value("mapping", 0)
    if not isinstance(given, Sequence) or not given.is_complete or not given.items:
        return _with_features(call, _of_rows(call, "from_list", given), 1)
    rows = [item for item in given.items if isinstance(item, Mapping)]
    # The order of first appearance, over all rows: they may differ in their keys.
    names = {str(name): None for row in rows for name in row.entries}
    call.reader.spend(len(names) * len(rows) // ITEMS_A_STEP)
    columns = {name: column_of(name, _values_of(rows, name), is_batch=True) for name in names}
    is_complete = len(rows) == len(given.items) and all(row.is_complete for row in rows)
    made = started(call, "from_list", columns, is_complete=is_complete)
    made.rows = len(given.items)
    return _with_features(call, made, 1)


def _of_rows(call: Call, name: str, rows: Value) -> Dataset:
    """A data set of rows that a loop made: its columns are what each of them certainly has."""
    columns, is_complete = columns_of(call.reader, dispatch.element(call.reader, rows))
    return started(call, name, columns or None, is_complete=is_complete and bool(columns))


@function("datasets.Dataset.from_generator", "datasets.IterableDataset.from_generator")
def _from_generator(call: Call) -> Value:
    """What the function yields are the rows; without a known size, since it may yield them in a loop."""
    given = call.value("gen_kwargs", 4 if call.path.startswith("datasets.Dataset.") else 2)
    keywords = {str(name): value for name, value in given.entries.items()} if isinstance(given, Mapping) else {}
    generator = call.value("generator", 0)
    rows = dispatch.call(call.reader, generator, [], keywords, location=call.location)
    made = _of_rows(call, "from_generator", rows)
    made.is_streaming = "IterableDataset" in call.path
    return _with_features(call, made, 1)


def _values_of(rows: list[Mapping], name: str) -> Sequence:
    return Sequence([row.entries[name] for row in rows if name in row.entries])


@function("datasets.Dataset.from_pandas")
def _from_pandas(call: Call) -> Value:
    """A frame's columns; an index that does not count the rows from 0 becomes one more."""
    frame = call.value("df", 0)
    if not isinstance(frame, DataFrame):
        return _with_features(call, started(call, "from_pandas", None, is_complete=False), 1)
    # An index that was filtered becomes the column `__index_level_0__`.
    is_complete = frame.is_complete and (frame.is_numbered or literal(call.value("preserve_index")) is False)
    columns = dict(frame.columns) if frame.columns or is_complete else None
    made = started(call, "from_pandas", columns, is_complete=is_complete)
    made.rows, made.sorted_by = frame.rows, frame.sorted_by
    return _with_features(call, made, 1)


@function(
    "datasets.Dataset.from_csv",
    "datasets.Dataset.from_json",
    "datasets.Dataset.from_parquet",
    "datasets.Dataset.from_sql",
    "datasets.Dataset.from_polars",
    "datasets.Dataset.from_file",
)
def _from_files(call: Call) -> Value:
    made = started(call, call.path.rpartition(".")[2], None, is_complete=False)
    features = call.value("features")
    if not is_missing(features):
        return _with_features(call, made, 99)
    file = call.value("path_or_paths", 0)
    content = content_of(call, made.operations[0].removeprefix("from_"), file)
    return _with_content(made, content) if content else made


def _with_content(made: Dataset, content: Content) -> Dataset:
    """A data set with what its file holds."""
    made.columns, made.is_complete = content.columns, content.is_complete
    made.rows, made.sorted_by = content.rows.get("train"), content.sorted_by
    return made


@function("datasets.Dataset.from_text")
def _from_text(call: Call) -> Value:
    return started(call, "from_text", dict(TEXT_ONLY), is_complete=True)


@function("transformers.TextDataset", "transformers.LineByLineTextDataset")
def _tokenized_file(call: Call) -> Value:
    """The lines of a file, or blocks of its text, as token ids."""
    made = started(
        call, call.path.rpartition(".")[2], {"input_ids": Column("input_ids", Kind.TOKENS)}, is_complete=True
    )
    made.library = "transformers"
    return made


@function("datasets.DatasetDict.from_csv", "datasets.DatasetDict.from_json", "datasets.DatasetDict.from_parquet")
def _splits_from_files(call: Call) -> Value:
    made = DatasetDict(depth=len(call.reader.conditions), origin=call.location)
    made.template = started(call, call.path.rpartition(".")[2], None, is_complete=False)
    call.reader.record.datasets.append(made)
    return made


@function("datasets.concatenate_datasets", "datasets.interleave_datasets")
def _together(call: Call) -> Value:
    """Several data sets as one: the columns that all of them have; none are known where one of them is not."""
    given = call.value("dsets" if call.path.endswith("concatenate_datasets") else "datasets", 0)
    parts = given.items if isinstance(given, Sequence) and given.knows_items else []
    sets = [part for part in parts if isinstance(part, Dataset)]
    name = call.path.rpartition(".")[2]
    _note_shares(call, parts if isinstance(given, Sequence) and given.is_complete else [])
    if not sets or len(sets) < len(parts):
        return started(call, name, None, is_complete=False)
    made = derived(call, sets[0], name)
    are_complete = all(part.is_complete for part in sets)
    if not are_complete or any(part.columns != sets[0].columns for part in sets):
        recolumned(made, _common(sets), is_complete=are_complete, opens=not are_complete)
    made.split = None
    made.has_transform = any(part.has_transform for part in sets)
    return made


@function("datasets.distributed.split_dataset_by_node")
def _part_of_node(call: Call) -> Value:
    """The rows of one process, or of one node."""
    dataset = call.value("dataset", 0)
    return derived(call, dataset, "split_dataset_by_node") if isinstance(dataset, Dataset) else UNKNOWN


def _note_shares(call: Call, parts: list[Value]) -> None:
    """Record probabilities that are not one for each data set, or do not add up to 1."""
    shares = call.value("probabilities", 1)
    if not call.path.endswith("interleave_datasets") or not isinstance(shares, Sequence) or not shares.is_complete:
        return
    numbers = [number_of(each) for each in shares.items]
    known = [number for number in numbers if number is not None]
    text = ""
    if parts and len(parts) != len(numbers):
        text = f"{len(numbers)} probabilities are given for {len(parts)} data sets"
    elif known and len(known) == len(numbers) and abs(sum(known) - 1) > MOST_LEFT:
        text = f"the probabilities add up to {sum(known):g}, and not to 1"
    if text:
        call.reader.record.misuses.append(Misuse(call.location, shares, "shares of data sets", text))


MOST_LEFT = 1e-6
"""What probabilities may differ from 1 in all; NumPy refuses them from 1.5e-8 on."""


def _common(sets: list[Dataset]) -> dict[str, Column]:
    """The columns by name; of those that differ between the sets, what they have in common."""
    columns: dict[str, Column] = {}
    for name in dict.fromkeys(name for part in sets for name in part.columns or {}):
        found = [part.columns[name] for part in sets if part.columns and name in part.columns]
        kinds = {column.kind for column in found}
        is_alike = all(column == found[0] for column in found)
        columns[name] = found[0] if is_alike else Column(name, kinds.pop() if len(kinds) == 1 else Kind.UNKNOWN)
    return columns
