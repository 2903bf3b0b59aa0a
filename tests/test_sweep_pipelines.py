"""The rows of a `tf.data` pipeline: stand-ins with the few methods that a pass over it calls.

`test_probe_tensorflow.py` reads real ones, in an environment that has TensorFlow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from lintrain.evidence.run import Sweep
from lintrain.runtime.measure import filled_values, swept_pipelines, swept_rows
from lintrain.runtime.measure import sweep as sweeping

ROWS = 60


class Step:
    """A step of a pipeline over another, or over rows."""

    def __init__(self, below: Any, *operations: str) -> None:
        self.below = below
        self.operations = operations
        self.iterations = 0

    def _inputs(self) -> list[Any]:
        return [self.below] if isinstance(self.below, Step) else []

    def _functions(self) -> list[Any]:
        nodes = [SimpleNamespace(op=name) for name in self.operations]
        definition = SimpleNamespace(node=nodes, library=SimpleNamespace(function=[]))
        graph = SimpleNamespace(as_graph_def=lambda: definition)
        return [SimpleNamespace(function=SimpleNamespace(graph=graph))] if nodes else []

    def as_numpy_iterator(self) -> Any:
        self.iterations += 1
        return Elements(self.below.as_numpy_iterator() if isinstance(self.below, Step) else iter(self.below))

    def cardinality(self) -> int:
        return -2 if isinstance(self.below, Step) else len(self.below)


class Elements:
    """What goes on after an error, as an iterator of TensorFlow does and a generator does not."""

    def __init__(self, source: Iterator[Any]) -> None:
        self.source = source

    def __iter__(self) -> Elements:
        return self

    def __next__(self) -> Any:
        element = next(self.source)
        if isinstance(element, Exception):
            raise element
        return element


def step(name: str) -> Callable[..., Any]:
    """A kind of step with the name that TensorFlow gives it."""
    return type(name, (Step,), {})


SLICES, BATCH, SHUFFLE, REPEAT = map(
    step, ("_TensorSliceDataset", "_BatchDataset", "_ShuffleDataset", "_RepeatDataset")
)
PREFETCH, MAP, GENERATOR = map(step, ("_PrefetchDataset", "_MapDataset", "_GeneratorDataset"))


@pytest.fixture(autouse=True)
def _no_words_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (filled_values, swept_rows):
        monkeypatch.setattr(module, "mentions", lambda _: False)
    monkeypatch.setattr(sweeping, "AT_LEAST_SECONDS", 30.0)


def swept(dataset: Any) -> tuple[list[Any], Sweep] | None:
    session = SimpleNamespace(elapsed=lambda: 4.0, also=frozenset[str]())
    return swept_pipelines.sweep_pipeline(SimpleNamespace(session=session, sweep_seconds=None), dataset)


def pairs() -> list[Any]:
    return [(np.full(3, number, "float32"), np.int64(number % 3)) for number in range(ROWS)]


def test_rows_below_batch_shuffle_and_repetition_have_the_numbers_of_their_source() -> None:
    rows = pairs()
    rows[41] = (np.array([0, np.nan, 0], "float32"), np.int64(0))
    found = swept(PREFETCH(BATCH(REPEAT(SHUFFLE(SLICES(rows))))))
    assert found is not None
    columns, result = found
    assert (result.rows, result.of, result.numbered) == (ROWS, ROWS, True)
    assert [each.in_words() for each in result.wrong] == ["row 41: `x` is NaN or infinite (1 of 3 values)"]
    assert [(each.name, each.counts) for each in columns][1] == ("y", ((0, 21), (1, 20), (2, 19)))
    assert [each.runs for each in columns] == [None, None]


def test_a_step_after_the_batch_leaves_batches_whose_rows_are_counted_without_numbers() -> None:
    batches = [({"text": np.array([b"good", b" ", "caf\u00e9".encode()], object)}, np.arange(3)) for _ in range(2)]
    found = swept(PREFETCH(MAP(SHUFFLE(SLICES(batches)), "Mul")))
    assert found is not None
    columns, result = found
    assert (result.rows, result.of, result.numbered) == (6, 6, False)
    assert [each.name for each in columns] == ["x.text", "y"]
    assert [each.in_words(numbered=result.numbered) for each in result.wrong] == ["2 rows: `x.text` is empty"]


def test_a_row_that_raises_is_named_and_the_others_are_read() -> None:
    rows = pairs()
    rows[5] = ValueError("{{function_node __wrapped__IteratorGetNext_device_CPU:0}} Unknown image file format")
    found = swept(BATCH(SLICES(rows)))
    assert found is not None
    assert found[1].rows == ROWS
    assert [each.in_words() for each in found[1].wrong] == [
        "row 5: cannot be read: ValueError: Unknown image file format"
    ]


def test_a_pipeline_that_only_raises_or_never_ends_is_left_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = swept(BATCH(SLICES([OSError("gone")] * ROWS)))
    assert found is not None
    assert (found[1].rows, found[1].is_whole) == (sweeping.FEW_ERRORS + 1, False)
    monkeypatch.setattr(sweeping, "AT_LEAST_SECONDS", 0.0)
    monkeypatch.setattr(sweeping, "SECONDS", (0.0, 0.0))

    class Endless(Step):
        def as_numpy_iterator(self) -> Any:
            return iter(lambda: (np.zeros(3), np.int64(0)), None)

    found = swept(Endless([]))
    assert found is not None
    assert (0 < found[1].rows < 100, found[1].of) == (True, None)


@pytest.mark.parametrize(
    "made",
    [
        lambda rows: MAP(SLICES(rows), "Identity", "EagerPyFunc"),
        lambda rows: MAP(SLICES(rows), "RngReadAndSkip"),
        lambda rows: BATCH(GENERATOR(rows)),
    ],
)
def test_a_pipeline_that_calls_python_or_moves_a_generator_is_left(made: Callable[[Any], Step]) -> None:
    dataset = made(pairs())
    assert swept(dataset) is None
    assert dataset.iterations == 0
    assert swept_pipelines.is_pipeline(dataset)
    assert not swept_pipelines.is_pipeline(np.zeros(3))
