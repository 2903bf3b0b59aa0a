"""Token rows of different lengths: which data sets have them, and where they are tokenized."""

from __future__ import annotations

from collections.abc import Mapping

from lintrain.analysis.run_data import is_read_as_text, is_text
from lintrain.model.finding import Related
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Column, Dataset, Kind, Padding
from lintrain.pipeline.values.python import Value, is_missing, options_of

NOTE = "tokenized without `padding`"


def ragged_at(pipeline: Pipeline, value: Value) -> tuple[Related, ...]:
    """The calls that create rows of different lengths; empty if all rows may have the same length."""
    options = [option for option in options_of(value) if not is_missing(option)]
    found = [_ragged_rows(pipeline, option) for option in options]
    return found[0] if found and all(found) else ()


def ragged_copy_at(pipeline: Pipeline, value: Value) -> tuple[Related, ...]:
    """The calls that tokenize the copies of a text data set, if all of them have rows of different lengths."""
    if not isinstance(value, Dataset) or value.has_transform or not (is_text(value) or is_read_as_text(value)):
        return ()
    copies = pipeline.cached(_tokenized_by_origin, pipeline).get(id(value), ())
    return _tokenized_at(copies[0]) if copies and all(pipeline.cached(_is_ragged_set, each) for each in copies) else ()


def _tokenized_by_origin(pipeline: Pipeline, _: Pipeline) -> dict[int, list[Dataset]]:
    """The tokenized data sets that result from each data set, by its identity."""
    found = dict[int, list[Dataset]]()
    for made in pipeline.datasets:
        if isinstance(made, Dataset) and made.is_tokenized:
            for origin in made.lineage:
                found.setdefault(id(origin), []).append(made)
    return found


def _is_ragged_set(_: Pipeline, dataset: Dataset) -> bool:
    return _is_ragged(dataset)


def _ragged_rows(pipeline: Pipeline, value: Value) -> tuple[Related, ...]:
    if isinstance(value, Dataset):
        return _tokenized_at(value) if _is_ragged(value) else ()
    own = [rows for rows in pipeline.own_rows if rows.instance is value and _has_ragged(rows.columns)]
    return tuple(Related(rows.location, f"each row is {NOTE}", "tokenized") for rows in own if rows.location)


def _is_ragged(dataset: Dataset) -> bool:
    """Whether token rows certainly differ in length: tokenized without padding, and not filtered afterwards."""
    after_map = dataset.operations[_last_map(dataset) :]
    return _has_ragged(dataset.columns or {}) and not dataset.has_transform and "filter" not in after_map


def _has_ragged(columns: Mapping[str, Column]) -> bool:
    tokens = columns.get("input_ids")
    return tokens is not None and tokens.kind is Kind.TOKENS and tokens.padding is Padding.NONE


def _last_map(dataset: Dataset) -> int:
    return max((index for index, name in enumerate(dataset.operations) if name == "map"), default=0)


def _tokenized_at(dataset: Dataset) -> tuple[Related, ...]:
    step = dataset.steps[_last_map(dataset)]
    return (Related(step.location, NOTE, "tokenized", step.text),)
