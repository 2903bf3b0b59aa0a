"""What worker processes read from their copies of a data set: tried with real processes, without a probe."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

from lintrain.evidence.run import CopiedRows
from lintrain.runtime.measure.objects import copies
from lintrain.runtime.measure.objects.copies import generators_of, is_own, read_copies


class Counting(IterableDataset[int]):
    """The same stream in every process."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(8))


class Shared(IterableDataset[int]):
    """Each process gives rows of its own."""

    first, step = 0, 1

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        return iter(range(first + self.first, 8, step * self.step))


class Drawn(IterableDataset[float]):
    """Other rows each time."""

    def __iter__(self) -> Iterator[float]:
        return (random.random() for _ in range(8))


class Broken(IterableDataset[int]):
    """No stream at all."""

    def __iter__(self) -> Iterator[int]:
        raise OSError("no such file")


class Slow(IterableDataset[int]):
    """A stream that keeps its reader waiting."""

    def __iter__(self) -> Iterator[int]:
        time.sleep(60)
        return iter(range(8))


@dataclass
class Noisy(Dataset[Any]):
    """Rows with noise from a generator that is kept, now and then."""

    generator: Any
    chance: float = 1.0
    asks: bool = True

    def __len__(self) -> int:
        return 32

    def __getitem__(self, row: int) -> tuple[torch.Tensor, dict[str, Any]]:
        return torch.full((3,), float(row)), {"noise": self.asks and self.drawn() < self.chance, "text": "kept"}

    def drawn(self) -> float:
        if isinstance(self.generator, torch.Generator):
            return float(torch.rand((), generator=self.generator))
        return float(self.generator.random())


def read(dataset: Any, **options: Any) -> CopiedRows | str:
    return read_copies(DataLoader(dataset, batch_size=2, num_workers=2, **options))


def test_two_workers_read_the_same_stream() -> None:
    assert read(Counting()) == CopiedRows(is_stream=True, read=8, different=8, alike=8, shared=8, alone=8)


def test_a_stream_that_is_shared_out_comes_once() -> None:
    assert read(Shared()) == CopiedRows(is_stream=True, read=4, different=4, alike=0, shared=0, alone=1)


def test_the_function_that_a_loader_starts_its_workers_with_is_called() -> None:
    def share_out(worker: int) -> None:
        stream: Any = get_worker_info()
        stream.dataset.__class__ = Shared

    found = read(Counting(), worker_init_fn=share_out)
    assert isinstance(found, CopiedRows)
    assert (found.alike, found.shared) == (0, 0)


def test_a_stream_of_random_rows_is_not_steady() -> None:
    found = read(Drawn())
    assert isinstance(found, CopiedRows)
    assert (found.alike, found.shared, found.is_steady) == (0, 0, False)


@pytest.mark.parametrize(
    "generator", [np.random.default_rng(0), np.random.RandomState(0), random.Random(0), torch.Generator()]
)
def test_a_generator_that_is_kept_goes_through_the_same_states(generator: Any) -> None:
    same = CopiedRows(is_stream=False, read=16, different=16, alike=16, shared=16)
    assert read(Noisy(generator)) == same
    assert read(Noisy(generator, chance=0.0)) == same  # what is drawn does not show in the rows

    def seed(worker: int) -> None:
        found: Any = get_worker_info()
        found.dataset.generator = np.random.default_rng(worker)

    seeded = read(Noisy(generator), worker_init_fn=seed)
    assert seeded == CopiedRows(is_stream=False, read=16, different=16, alike=0, shared=0)


def test_a_generator_that_no_row_asks_stays_as_it_is() -> None:
    idle = read(Noisy(np.random.default_rng(0), asks=False))
    assert idle == CopiedRows(is_stream=False, read=16, different=1, alike=16, shared=16)


def test_reading_leaves_the_random_state_and_the_stream_alone() -> None:
    noisy = Noisy(np.random.default_rng(0))
    before = (random.getstate(), torch.get_rng_state().tolist(), noisy.generator.bit_generator.state)
    read(noisy)
    assert (random.getstate(), torch.get_rng_state().tolist(), noisy.generator.bit_generator.state) == before
    assert get_worker_info() is None


def test_workers_that_fail_or_wait_are_the_reason_that_nothing_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copies, "SECONDS", 0.2)
    assert read(Broken()) == "a worker ended with OSError: no such file"
    started = time.monotonic()
    assert read(Slow()) == "a worker ended with no result after 0.2 s"
    assert time.monotonic() - started < 10


def test_only_data_of_the_scripts_own_and_generators_in_it_are_tried() -> None:
    assert is_own(Counting())
    assert not is_own(torch.utils.data.TensorDataset(torch.zeros(2)))
    kept = [np.random.default_rng(0), np.random.RandomState(0), random.Random(0), torch.Generator()]
    assert [len(generators_of(Noisy(each))) for each in [*kept, np.random]] == [1, 1, 1, 1, 0]
