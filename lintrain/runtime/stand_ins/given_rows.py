"""The rows of a file that the user gave with `--stand-in-data`."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.library import library

FEW_ROWS = 10
"""Rows of a file below which training and evaluation get the same ones."""


def rows_of_file(path: str) -> Any:
    """The rows of a file that the user gave, as a table of pandas; its ending says how it is read."""
    pandas = library("pandas")
    match path.rpartition(".")[2].lower():
        case "json":
            return pandas.read_json(path)
        case "jsonl" | "ndjson":
            return pandas.read_json(path, lines=True)
        case "parquet":
            return pandas.read_parquet(path)
        case "tsv":
            return pandas.read_csv(path, sep="\t")
        case _:
            return pandas.read_csv(path)


def part_of_file(datasets: Any, path: str, *, is_train: bool) -> Any:
    """The first four fifths of a file's rows for training, the others for evaluation; all where there are few."""
    table = rows_of_file(path)
    first = len(table) * 4 // 5
    part = table if len(table) < FEW_ROWS else table[:first] if is_train else table[first:]
    return datasets.Dataset.from_pandas(part, preserve_index=False)
