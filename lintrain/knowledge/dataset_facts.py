"""Facts about data sets by name: from a folder that the script names, a cache on this machine, or the shipped table.

They are asked in this order. Every answer names its source; unknown facts are None.

    dataset_facts("glue", "mnli").columns["label"].class_names       ("entailment", "neutral", "contradiction")
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from lintrain.knowledge.data_files import (
    Json,
    as_int,
    as_object,
    as_text,
    as_texts,
    cached_dataset_infos,
    is_folder,
    read_json,
)
from lintrain.knowledge.tables import ColumnFacts, DatasetFacts
from lintrain.startup.lazy_pattern import lazy_pattern

_COLUMN = lazy_pattern(r"([\w-]+):([a-z-]+)(?:\(([^)]*)\)|#(\d+))?")
_TEXT_TYPES = frozenset({"string", "large_string"})


def dataset_facts(path: str, config: str | None = None, folder: Path | None = None) -> DatasetFacts | None:
    """What `load_dataset(path, config)` or `load_from_disk(path)` returns; paths are relative to `folder`.

    If a folder of that name exists, the libraries read it, so nothing else is read.
    """
    local = (folder or Path()) / path
    if is_folder(local):
        return _saved(local, path)
    cached, shipped = _cached(path, config), _shipped(path, config)
    if cached is None or shipped is None:
        return cached or shipped
    return replace(cached, sorted_by=shipped.sorted_by, unlabelled=shipped.unlabelled)


def _saved(folder: Path, shown_as: str) -> DatasetFacts | None:
    """A folder that `save_to_disk` wrote: one data set, or one folder for each split."""
    splits = as_texts((read_json(folder / "dataset_dict.json") or {}).get("splits"))
    parts = {split: folder / split for split in splits if is_folder(folder / split)} or {"": folder}
    infos = {
        split: info for split, part in parts.items() if (info := read_json(part / "dataset_info.json")) is not None
    }
    if not infos:
        return None
    first = next(iter(infos.values()))
    rows = {split: _rows_of(info, split) for split, info in infos.items() if split}
    return DatasetFacts(columns_of_info(first), rows, source=f"dataset_info.json in {shown_as}")


def _cached(path: str, config: str | None) -> DatasetFacts | None:
    for name in _names(path):
        for info_path in cached_dataset_infos(name, config or _default_config(path)):
            info = read_json(info_path)
            if info is not None and info.get("features"):
                splits = {split: _rows_of(info, split) for split in as_object(info.get("splits")) or {}}
                return DatasetFacts(columns_of_info(info), splits, source="cache of prepared data sets")
    return None


def _shipped(path: str, config: str | None) -> DatasetFacts | None:
    row = _table().get(path)
    known = row["configs"].get(config or row.get("default", "")) if row is not None else None
    if row is None or known is None:
        return None
    splits = (part.partition(":") for part in known.get("splits", "").split())
    return DatasetFacts(
        {column.name: column for column in map(_column, _COLUMN.finditer(known["columns"]))},
        {name: int(rows) if rows else None for name, _, rows in splits},
        known.get("sorted_by"),
        tuple(known.get("unlabelled", "").split()),
        f"shipped table ({row['source']})",
    )


def _column(found: re.Match[str]) -> ColumnFacts:
    """`label:class(neg|pos)` and the like, the notation of columns in the shipped table."""
    names = tuple(found[3].split("|")) if found[3] else ()
    count = int(found[4]) if found[4] else len(names) or None
    kind = {"class": "class label", "list-of-class": "list"}.get(found[2], found[2])
    return ColumnFacts(found[1], kind, names, count)


def columns_of_info(info: Json) -> Mapping[str, ColumnFacts]:
    """The columns in a description written by the library `datasets`, with their types."""
    features = as_object(info.get("features")) or {}
    return {name: _feature(name, feature) for name, feature in features.items()}


def _feature(name: str, feature: object) -> ColumnFacts:
    """A column as the library `datasets` writes it: old versions nest a list, newer ones use a `_type`."""
    if isinstance(feature, list):
        return _listed(name, feature[0] if feature else None)  # pyright: ignore[reportUnknownArgumentType]
    described = as_object(feature) or {}
    match described.get("_type"):
        case "ClassLabel":
            names = as_texts(described.get("names"))
            return ColumnFacts(name, "class label", names, len(names) or as_int(described.get("num_classes")))
        case "Value":
            return ColumnFacts(name, _value_kind(as_text(described.get("dtype")) or ""))
        case "Sequence" | "List" | "LargeList":
            return _listed(name, described.get("feature"))
        case "Image":
            return ColumnFacts(name, "image")
        case "Audio":
            return ColumnFacts(name, "audio")
        case _:
            return ColumnFacts(name)


def _listed(name: str, feature: object) -> ColumnFacts:
    item = _feature(name, feature)
    return ColumnFacts(name, "list", item.class_names, item.num_classes)


def _value_kind(dtype: str) -> str:
    if dtype in _TEXT_TYPES:
        return "text"
    if re.fullmatch(r"u?int\d+", dtype):
        return "integer"
    return "float" if re.fullmatch(r"float\d+", dtype) else "unknown"


def _rows_of(info: Json, split: str) -> int | None:
    described = as_object((as_object(info.get("splits")) or {}).get(split)) or {}
    return as_int(described.get("num_examples"))


def _names(path: str) -> tuple[str, ...]:
    """A data set's old and new names: the cache may use either."""
    row = _table().get(path)
    return tuple(row["names"]) if row is not None else (path,)


def _default_config(path: str) -> str | None:
    row = _table().get(path)
    default: str | None = row.get("default") if row is not None else None
    return default


@cache
def _table() -> Mapping[str, Any]:
    """The shipped rows under each of their names. `Any`: the file is our own."""
    rows: list[dict[str, Any]] = json.loads((Path(__file__).parent / "datasets.json").read_bytes())
    return {name: row for row in rows for name in row["names"]}
