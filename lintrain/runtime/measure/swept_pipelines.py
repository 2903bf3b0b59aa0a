"""The rows of a `tf.data` pipeline, read in the process itself: a copy of it would have none of TensorFlow's threads.

A pipeline is read below its last batches, shuffles and repetitions, so that a row's number is that of its source.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from lintrain.evidence.run import ColumnEvidence, Sweep
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, is_tuple
from lintrain.runtime.measure.missing_values import forget_missing_values
from lintrain.runtime.measure.row_values import Limits
from lintrain.runtime.measure.sweep import (
    FEW_ERRORS,
    MOST_ERRORS,
    Bound,
    bound_of,
    count,
    first_line,
    result_of,
)
from lintrain.runtime.measure.swept_rows import Reading, RowsSeen
from lintrain.startup.lazy_dataclass import dataclass

NAMES = ("x", "y", "sample_weight")
"""The parts of a row, as Keras unpacks them."""
OUTER = re.compile("Prefetch|Options|Repeat|Shuffle")
BATCH = re.compile(r"^_?(Parallel|Padded|MapAnd)?Batch")
UNNUMBERED = re.compile("Shuffle|Interleave|Sample|Random")
NODES = re.compile(r"\{\{\w+ [^}]*\}\}\s*")
EFFECTS = re.compile("PyFunc|Assign|Rng|Print|WriteFile|Generator")
"""Operations that call the script's Python, or change what the training reads later."""

Swept = tuple[list[ColumnEvidence], Sweep]


@dataclass(frozen=True)
class Pipeline:
    """A pipeline without its outer steps: does it give batches, and in the order of its source?"""

    source: Any
    batched: bool
    numbered: bool


def is_pipeline(given: Any) -> bool:
    """Whether that is a `tf.data.Dataset`, which gives arrays of NumPy on request."""
    return has(given, "as_numpy_iterator") and has(given, "_inputs")


def sweep_pipeline(run: Any, dataset: Any) -> Swept | None:
    """What the rows of a `fit` show; None if the pipeline cannot begin again, or reading it has effects."""
    if any(map(_has_effects, _steps(dataset))):
        return None
    found = _read(_without_outer(dataset), bound_of(run))
    if found is not None:
        count(run, found[1])
    return found


def _without_outer(dataset: Any) -> Pipeline:
    batched = True
    while (name := type(dataset).__name__) and (OUTER.search(name) or (batched and _is_plain_batch(dataset))):
        batched &= OUTER.search(name) is not None
        (dataset,) = dataset._inputs()
    is_ordered = not any(UNNUMBERED.search(type(step).__name__) for step in _steps(dataset))
    return Pipeline(dataset, batched, is_ordered)


def _is_plain_batch(dataset: Any) -> bool:
    return BATCH.match(type(dataset).__name__) is not None and not dataset._functions()


def _steps(dataset: Any) -> Iterator[Any]:
    """A data set, and all that it reads."""
    yield dataset
    for below in dataset._inputs():
        yield from _steps(below)


def _has_effects(step: Any) -> bool:
    """Whether a step is a generator of Python, writes a file, or has a function with effects."""
    name = type(step).__name__
    if EFFECTS.search(name) or "Snapshot" in name or ("Cache" in name and _writes(step)):
        return True
    return any(EFFECTS.search(operation) for function in step._functions() for operation in _operations(function))


def _writes(cache: Any) -> bool:
    return bool(cache._filename.numpy())


def _operations(function: Any) -> Iterator[str]:
    """The operations of a function and of those that it calls."""
    graph = function.function.graph.as_graph_def()
    yield from (node.op for node in graph.node)
    for called in graph.library.function:
        yield from (node.op for node in called.node_def)


def _read(pipeline: Pipeline, bound: Bound) -> Swept | None:
    started, seen = time.perf_counter(), RowsSeen(Limits())
    try:
        elements = pipeline.source.as_numpy_iterator()
    except (TypeError, RuntimeError):  # elements that NumPy has no form for, or graphs that run later
        return None
    is_whole = _read_elements(elements, pipeline, bound, seen)
    if not seen.rows:
        return None
    forget_missing_values(seen, None, Reading())
    of = seen.rows if is_whole else _size(pipeline)
    columns, swept = result_of(seen, of, started, numbered=pipeline.numbered)
    # The order of the source is not that in which a shuffle gives its rows.
    return [replace(each, runs=None) for each in columns], swept


def _read_elements(elements: Iterator[Any], pipeline: Pipeline, bound: Bound, seen: RowsSeen) -> bool:
    """Whether the pipeline ended within the bound; its elements are added to what was seen."""
    started, errors, in_a_row = time.perf_counter(), 0, 0
    while errors <= MOST_ERRORS and in_a_row <= FEW_ERRORS:
        if seen.rows and bound.is_over(seen.rows, time.perf_counter() - started):
            return False
        try:
            element = next(elements, seen)  # a value that no element is
        except Exception as error:  # noqa: BLE001 - what the pipeline raises is what training will meet
            seen.faults.add("raises", "", seen.rows, "", _message(error) + " (of a batch)" * pipeline.batched)
            seen.rows, errors, in_a_row = seen.rows + 1, errors + 1, in_a_row + 1
            continue
        if element is seen:
            return True
        in_a_row = 0
        for row in _rows(element) if pipeline.batched else (_named(element),):
            seen.label_names |= {name for name in row if name == "y" or name.startswith("y.")}
            seen.add(seen.rows, row)
    return False


def _message(error: Exception) -> str:
    """An error without the nodes of TensorFlow's graph."""
    return first_line(f"{type(error).__name__}: {NODES.sub('', str(error))}")


def _size(pipeline: Pipeline) -> int | None:
    size = int(pipeline.source.cardinality())
    return size if size >= 0 and not pipeline.batched else None


def _named(element: Any) -> dict[str, Any]:
    """The values of a row by name: `x`, `x.word_ids`, `y`."""
    parts: tuple[Any, ...] = element if is_tuple(element) and len(element) <= len(NAMES) else (element,)
    named: dict[str, Any] = {}
    for name, part in zip(NAMES, parts, strict=False):
        named |= dict(_leaves(name, part))
    return named


def _leaves(name: str, part: Any) -> Iterator[tuple[str, Any]]:
    if is_mapping(part):
        for key, inner in part.items():
            yield from _leaves(f"{name}.{key}", inner)
    elif is_row(part):
        for position, inner in enumerate(part):
            yield from _leaves(f"{name}.{position}", inner)
    else:
        yield name, _text(part)


def _text(value: Any) -> Any:
    """A string of TensorFlow as text; the bytes of a file stay bytes."""
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _rows(element: Any) -> Iterator[dict[str, Any]]:
    """The rows of a batch."""
    columns = {name: values for name, values in _named(element).items() if attribute(values, "shape", ())}
    for number in range(min(map(len, columns.values()), default=0)):
        yield {name: _text(values[number]) for name, values in columns.items()}
