"""Data sets made of other things: literals, tables, files, and other data sets."""

from __future__ import annotations

import ast

from lintrain.pipeline.call import Argument, Call
from lintrain.pipeline.library.datasets_columns import column_of
from lintrain.pipeline.library.datasets_deriving import derived, recolumned, started
from lintrain.pipeline.library.datasets_files import Content, content_of
from lintrain.pipeline.library.datasets_loading import TEXT_ONLY
from lintrain.pipeline.library.pandas_frames import may_have_changed
from lintrain.pipeline.registry import function
from lintrain.pipeline.values.data import Column, Dataset, DatasetDict, Features
from lintrain.pipeline.values.python import UNKNOWN, LibraryObject, Mapping, Sequence, Value, is_missing, literal


@function("datasets.Dataset.from_dict", "datasets.IterableDataset.from_dict")
def _from_dict(call: Call) -> Value:
    made = _columns_of(call, call.value("mapping", 0))
    return _with_features(call, made, 1)


def _columns_of(call: Call, given: Value) -> Dataset:
    """A data set with one column for each key of a dictionary of lists."""
    name = call.path.rpartition(".")[2]
    if not isinstance(given, Mapping):
        return started(call, name, None, is_complete=False)
    columns = {str(key): column_of(str(key), value, is_batch=True) for key, value in given.entries.items()}
    made = started(call, name, columns, is_complete=given.is_complete)
    made.rows = _length_of(given)
    return made


def _length_of(given: Mapping) -> int | None:
    first = next(iter(given.entries.values()), None)
    return len(first.items) if isinstance(first, Sequence) and first.is_complete else None


def _with_features(call: Call, made: Dataset, position: int) -> Dataset:
    """`features=` tells the types of all columns."""
    features = call.value("features", position)
    if isinstance(features, Features):
        made.columns = {**(made.columns or {}), **features.columns}
        made.is_complete = features.is_complete
    elif not is_missing(features):
        made.columns = {name: Column(name) for name in made.columns or {}}
    return made


@function("datasets.Dataset.from_list")
def _from_list(call: Call) -> Value:
    given = call.value("mapping", 0)
    if not isinstance(given, Sequence) or not given.is_complete or not given.items:
        return started(call, "from_list", None, is_complete=False)
    rows = [item for item in given.items if isinstance(item, Mapping)]
    names = {str(name): None for row in rows for name in row.entries}
    columns = {name: column_of(name, _values_of(rows, name), is_batch=True) for name in names}
    is_complete = len(rows) == len(given.items) and all(row.is_complete for row in rows)
    made = started(call, "from_list", columns, is_complete=is_complete)
    made.rows = len(given.items)
    return _with_features(call, made, 1)


def _values_of(rows: list[Mapping], name: str) -> Sequence:
    return Sequence([row.entries[name] for row in rows if name in row.entries])


@function("datasets.Dataset.from_pandas")
def _from_pandas(call: Call) -> Value:
    """A frame shows its columns that is made of a dictionary of lists, or read from a file in the call itself."""
    frame = call.value("df", 0)
    content = _content_of_frame(call, frame)
    if content is not None and is_missing(call.value("features", 1)):
        return _with_content(started(call, "from_pandas", content.columns, is_complete=False), content)
    is_known = isinstance(frame, LibraryObject) and not may_have_changed(call.reader, frame)
    if isinstance(frame, LibraryObject) and is_known and frame.path == "pandas.DataFrame":
        made = _columns_of(call, frame.arguments.get("data", frame.arguments.get("0", UNKNOWN)))
        return _with_features(call, made, 1)
    return _with_features(call, started(call, "from_pandas", None, is_complete=False), 1)


@function(
    "datasets.Dataset.from_csv",
    "datasets.Dataset.from_json",
    "datasets.Dataset.from_parquet",
    "datasets.Dataset.from_sql",
    "datasets.Dataset.from_generator",
    "datasets.Dataset.from_polars",
    "datasets.IterableDataset.from_generator",
    "datasets.Dataset.from_file",
)
def _from_files(call: Call) -> Value:
    made = started(call, call.path.rpartition(".")[2], None, is_complete=False)
    made.is_streaming = "IterableDataset" in call.path
    features = call.value("features")
    if not is_missing(features):
        return _with_features(call, made, 99)
    file = call.value("path_or_paths", 0)
    content = content_of(call, made.operations[0].removeprefix("from_"), file) if not made.is_streaming else None
    return _with_content(made, content) if content else made


def _content_of_frame(call: Call, frame: Value) -> Content | None:
    """What `pd.read_csv(...)` inside of the call reads; a frame with a name of its own may be changed before."""
    is_inside = call.node is not None and bool(call.node.args) and isinstance(call.node.args[0], ast.Call)
    if not is_inside or not isinstance(frame, LibraryObject) or frame.path != "pandas.read_csv":
        return None
    given = {("path_or_buf" if name == "0" else name): value for name, value in frame.arguments.items()}
    keywords = {name: Argument(value, call.place, "") for name, value in given.items()}
    reading = Call(call.reader, None, call.place, "", frame.path, keywords=keywords)
    return content_of(reading, "csv", given.get("path_or_buf", UNKNOWN))


def _with_content(made: Dataset, content: Content) -> Dataset:
    """A data set with what its file holds."""
    made.columns, made.is_complete = content.columns, content.is_complete
    made.rows, made.sorted_by = content.rows.get("train"), content.sorted_by
    return made


@function("datasets.Dataset.from_text")
def _from_text(call: Call) -> Value:
    return started(call, "from_text", dict(TEXT_ONLY), is_complete=True)


@function("datasets.DatasetDict.from_csv", "datasets.DatasetDict.from_json", "datasets.DatasetDict.from_parquet")
def _splits_from_files(call: Call) -> Value:
    made = DatasetDict(depth=len(call.reader.conditions), origin=call.place)
    made.template = started(call, call.path.rpartition(".")[2], None, is_complete=False)
    call.reader.record.datasets.append(made)
    return made


@function("datasets.concatenate_datasets", "datasets.interleave_datasets")
def _together(call: Call) -> Value:
    """Several data sets as one: the columns that all of them have; none are known where one of them is not."""
    given = call.value("dsets" if call.path.endswith("concatenate_datasets") else "datasets", 0)
    parts = given.items if isinstance(given, Sequence) and given.is_complete else []
    sets = [part for part in parts if isinstance(part, Dataset)]
    name = call.path.rpartition(".")[2]
    if not sets or len(sets) < len(parts):
        return started(call, name, None, is_complete=False)
    made = derived(call, sets[0], name)
    alike = all(part.columns == sets[0].columns and part.is_complete for part in sets)
    if not alike or literal(call.value("axis")) == 1:
        recolumned(made, _common(sets), is_complete=False)
    made.split = None
    made.has_transform = any(part.has_transform for part in sets)
    return made


def _common(sets: list[Dataset]) -> dict[str, Column]:
    """The columns by name; of those that differ between the sets, only the name is known."""
    columns: dict[str, Column] = {}
    for part in sets:
        for name, column in (part.columns or {}).items():
            columns[name] = column if columns.get(name, column) == column else Column(name)
    return columns
