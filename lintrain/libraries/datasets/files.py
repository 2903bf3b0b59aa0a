"""Data sets in CSV, JSON and Parquet files with a literal path: the file shows their columns and labels."""

from __future__ import annotations

import os.path
from collections.abc import Mapping as Named
from pathlib import Path
from typing import TYPE_CHECKING

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.knowledge.facts import DatasetFacts
from lintrain.pipeline.values.data import Column, Kind
from lintrain.pipeline.values.python import Absent, Constant, Mapping, Sequence, Value, literal
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.knowledge.facts import ColumnFacts, DatasetFacts

PLAIN = frozenset(
    {"path", "data_files", "path_or_paths", "path_or_buf", "split", "streaming", "cache_dir", "delimiter", "sep"}
    | {"encoding", "keep_in_memory", "num_proc", "download_mode", "verification_mode"}
)
"""Arguments that change nothing about what the columns are."""


@dataclass(frozen=True, slots=True)
class Content:
    """What files hold: the columns of all of them, whether there are no others, and what is known of each split."""

    columns: dict[str, Column]
    is_complete: bool
    rows: dict[str, int]
    sorted_by: str | None


def content_of(call: Call, form: str, files: Value) -> Content | None:
    """What a call reads from `csv`, `json` or `parquet` files; None where that is not certain, or they differ."""
    # Any argument outside PLAIN may rename, drop or convert columns (`names=`, `usecols=`), so the file
    # alone would not tell.
    separator = _separator(call) if form == "csv" else None
    if form not in {"csv", "json", "parquet"} or separator == "" or call.is_open or call.keywords.keys() - PLAIN:
        return None
    facts = {split: _facts(call, text, form, separator) for split, text in _paths(files).items()}
    known = {split: each for split, each in facts.items() if each is not None}
    if not known or len(known) < len(facts):
        return None
    first, *others = (_kinds(each) for each in known.values())
    # Splits with different columns make `load_dataset` raise, or it converts one of them. Neither is
    # followed.
    if any(other != first for other in others):
        return None
    train = known.get("train")
    rows = {split: count for split, each in known.items() if (count := each.splits.get("train")) is not None}
    columns = columns_of(train or next(iter(known.values())))
    return Content(columns, form != "json" or len(rows) == len(known), rows, train.sorted_by if train else None)


def _separator(call: Call) -> str:
    """What stands between the cells of a CSV file; empty where it is not known."""
    given = [value for name in ("delimiter", "sep") if not isinstance(value := call.value(name), Absent)]
    if not given:
        return ","
    text = literal(given[0])
    return text if isinstance(text, str) and len(text) == 1 else ""


def _paths(files: Value) -> Named[str, str]:
    """The one file of each split; nothing where a split has several, or one that is not certain."""
    match files:
        case Constant(value=str(text), is_default=False):
            return {"train": text}
        case Sequence(items=[only], is_complete=True):
            return _paths(only)
        case Mapping(entries=entries, is_complete=True):
            found = {str(split): _paths(file).get("train") for split, file in entries.items()}
            # All or nothing: with one unknown split the others would seem to be the whole data set.
            known = {split: text for split, text in found.items() if text is not None}
            return known if len(known) == len(found) else {}
        case _:
            return {}


def _facts(call: Call, text: str, form: str, separator: str | None) -> DatasetFacts | None:
    name = os.path.basename(text)  # noqa: PTH119
    if call.reader.source.text.count(name) != 1:
        return None  # the script may write the file before it reads it
    # The script's folder before the current one: people start scripts from either, and lintrain from the
    # project's root.
    beside = Path(os.path.dirname(call.reader.record.source.path)) / text  # noqa: PTH120
    return _read(beside, name, form, separator) or _read(Path(text), name, form, separator)


def _read(path: Path, name: str, form: str, separator: str | None) -> DatasetFacts | None:
    if form != "parquet":
        from lintrain.knowledge.data_files import file_facts

        return file_facts(path, name, separator)
    from lintrain.knowledge.parquet_files import parquet_facts

    return parquet_facts(path, name)


def _kinds(facts: DatasetFacts) -> dict[str, str]:
    return {name: column.kind for name, column in facts.columns.items()}


def facts_of(reader: Reader, path: str, config: str | None = None) -> DatasetFacts | None:
    """What a data set of this name or folder has, seen from the script's folder, else from where lintrain runs."""
    # Imported here: most scripts load no data set by name, and the tables take longer to load than such a
    # script to read.
    from lintrain.knowledge.dataset_facts import dataset_facts

    return dataset_facts(path, config, Path(reader.record.source.path).parent) or dataset_facts(path, config)


def columns_of(facts: DatasetFacts) -> dict[str, Column]:
    """The columns, each with the source of its facts."""
    return {name: _column(column, facts.source) for name, column in facts.columns.items()}


def _column(facts: ColumnFacts, source: str) -> Column:
    return Column(facts.name, Kind(facts.kind), facts.class_names, facts.num_classes, source=source)
