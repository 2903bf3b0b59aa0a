"""A pass over all rows of a data set: what it finds, what it leaves alone, and that it changes nothing of the run."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import datasets
import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, SubsetRandomSampler, TensorDataset, default_collate

from lintrain.evidence.run import Sweep
from lintrain.runtime.frameworks.loop.loaders import reading_of
from lintrain.runtime.measure import filled_values, swept_rows
from lintrain.runtime.measure import sweep as sweeping
from lintrain.runtime.measure.reread import reread
from lintrain.runtime.measure.row_values import Limits
from lintrain.runtime.measure.swept_rows import Reading

ROWS = 120
PLAIN = Reading(collate=default_collate, mixes=True, name="`default_collate`")
LIMITS = Limits(embedding=100, positions=16, classes=3, special=(0, 1, 2))


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run whose model reads 100 ids, 16 positions and three classes."""
    monkeypatch.setattr(sweeping, "limits_of", lambda _: LIMITS)
    for module in (filled_values, swept_rows):  # not the words of the tests that ran before in this process
        monkeypatch.setattr(module, "mentions", lambda _: False)
    # On a busy machine the usual bounds would end a pass before its last row.
    monkeypatch.setattr(sweeping, "SECONDS", (30.0, 30.0))
    monkeypatch.setattr(sweeping, "AT_LEAST_SECONDS", 30.0)
    session = SimpleNamespace(elapsed=lambda: 4.0, also=frozenset[str]())
    return SimpleNamespace(session=session, sweep_seconds=None)


def swept(run: Any, dataset: Any, reading: Reading = PLAIN) -> Sweep:
    found = sweeping.sweep(run, dataset, reading, [dataset[0]])
    assert found is not None
    return found[1]


def faults(result: Sweep) -> list[tuple[str, str, int, tuple[int, ...]]]:
    return [(each.fault, each.column, each.count, each.first) for each in result.wrong]


def pairs() -> list[Any]:
    return [(torch.randn(8), number % 3) for number in range(ROWS)]


class Listed(torch.utils.data.Dataset[Any]):
    """Rows of a list, as a data set."""

    def __init__(self, rows: list[Any]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.rows[index], Exception):
            raise self.rows[index]
        return self.rows[index]


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ((torch.randn(9), 0), "row 71: `0` has 9 entries instead of 8; `default_collate` raises RuntimeError: "),
        ((torch.randn(8, 2), 0), "row 71: `0` has shape [8, 2] instead of [8]; `default_collate` raises "),
        ((torch.randn(8),), "row 71: it has 1 values instead of 2; `default_collate` raises "),
        ((None, 0), "row 71: `0` has None instead of float32 [8]; `default_collate` raises TypeError: "),
        ((torch.randn(8, dtype=torch.float64), 0), "row 71: `0` makes its batch float64 instead of float32"),
        ((torch.full((8,), float("nan")), 0), "row 71: `0` is NaN or infinite (8 of 8 values)"),
        ((torch.randn(8), 7), "row 71: `1` is 7"),
        (OSError("no such file: 71.png"), "row 71: cannot be read: OSError: no such file: 71.png"),
    ],
)
def test_the_wrong_row_is_named_with_its_number_and_why(run: Any, row: Any, words: str) -> None:
    rows = pairs()
    rows[71] = row
    result = swept(run, Listed(rows))
    assert [each.in_words().startswith(words) for each in result.wrong] == [True], result.wrong


def test_the_first_rows_with_the_lowest_and_the_highest_label_are_known(run: Any) -> None:
    rows = pairs()
    rows[71], rows[95], rows[40], rows[41] = (rows[0][0], 7), (rows[0][0], 7), (rows[0][0], -2), (rows[0][0], -100)
    found = sweeping.sweep(run, Listed(rows), PLAIN, [rows[0]])
    assert found is not None
    column = found[0][1]
    assert (column.minimum, column.maximum, column.lowest_row, column.highest_row) == (-100, 7, 40, 71)


def test_rows_of_a_mapping_are_judged_by_what_the_model_reads(run: Any) -> None:
    rows = [{"input_ids": [1, 3 + n % 90, 5, 2], "attention_mask": [1] * 4, "labels": n % 3} for n in range(ROWS)]
    rows[20]["input_ids"] = [1, 100, 5, 2]
    rows[30]["attention_mask"] = [1] * 3
    rows[40]["attention_mask"] = [0] * 4
    rows[50]["input_ids"] = [1, 2, 2, 2]
    del rows[60]["labels"]
    found = faults(swept(run, Listed(rows)))
    assert ("token id", "input_ids", 1, (20,)) in found
    assert ("mask length", "attention_mask", 1, (30,)) in found
    assert ("empty mask", "attention_mask", 1, (40,)) in found
    assert ("only special tokens", "input_ids", 1, (50,)) in found
    assert ("collation", "", 1, (60,)) in found


def test_texts_and_images_without_content_are_found(run: Any) -> None:
    texts = [{"text": f"review {n} of a film", "note": ""} for n in range(ROWS)]
    texts[3]["text"], texts[5]["text"], texts[7]["text"] = " \n", "caf\ufffd", "cafÃ©"
    found = faults(swept(run, Listed(texts)))
    assert ("empty text", "text", 1, (3,)) in found
    assert ("replaced characters", "text", 1, (5,)) in found
    assert ("mangled characters", "text", 1, (7,)) in found
    assert not [each for each in found if each[1] == "note"]
    pictures = [(torch.rand(3, 16, 16) * (n % 10 > 0), n % 3) for n in range(ROWS)]
    assert faults(swept(run, Listed(pictures))) == [("constant image", "0", 12, (0, 10, 20))]


def padded(rows: list[Any]) -> Any:
    longest = max(len(row) for row, _ in rows)
    return torch.stack([nn.functional.pad(row, (0, longest - len(row))) for row, _ in rows]), [y for _, y in rows]


@pytest.mark.parametrize(
    ("rows", "reading"),
    [
        ([(torch.ones(3 + n % 7), n % 3) for n in range(ROWS)], Reading(collate=padded, mixes=True)),
        ([(torch.ones(8 if n != 71 else 9), n % 3) for n in range(ROWS)], Reading(collate=padded, mixes=True)),
        ([(torch.ones(8 if n != 71 else 9), n % 3) for n in range(ROWS)], Reading(collate=default_collate)),
        ([({"boxes": torch.rand(n % 4, 4)}, n % 3) for n in range(ROWS)], Reading(collate=list, mixes=True)),
        (
            [{"x": torch.full((4,), float("nan") if n == 9 else 1.0), "y": 0} for n in range(ROWS)],
            Reading(collate=lambda rows: torch.nan_to_num(torch.stack([row["x"] for row in rows])), mixes=True),
        ),
        (
            [{"input_ids": [1, 5, 6, 2], "labels": [-100, 5, -100, 2]} for _ in range(ROWS)],
            Reading(collate=list, mixes=True),
        ),
        ([(torch.rand(3, 16, 16), torch.zeros(1, 16, 16)) for _ in range(ROWS)], PLAIN),
    ],
    ids=["lengths", "one longer row", "rows by length", "boxes", "missing values", "ignored labels", "empty masks"],
)
def test_sound_rows_have_no_fault(run: Any, rows: list[Any], reading: Reading) -> None:
    assert faults(swept(run, Listed(rows), reading)) == []


def test_rows_that_a_sampler_leaves_out_are_not_read(run: Any) -> None:
    rows = pairs()
    rows[71] = OSError("damaged")
    loader = DataLoader(Listed(rows), batch_size=8, sampler=SubsetRandomSampler([*range(71), *range(72, ROWS)]))
    result = swept(run, loader.dataset, reading_of(loader))
    assert (result.rows, result.of, faults(result)) == (ROWS - 1, ROWS - 1, [])


def test_a_table_and_tensors_show_the_same_as_rows(run: Any) -> None:
    ids = [[1, 3 + n % 90, 5, 2] for n in range(ROWS)]
    ids[20] = [1, 100, 5, 2]
    table = datasets.Dataset.from_dict({"input_ids": ids, "label": [7 if n == 50 else n % 3 for n in range(ROWS)]})
    assert faults(swept(run, table)) == [("token id", "input_ids", 1, (20,)), ("label", "label", 1, (50,))]
    turned = table.select(range(ROWS - 1, -1, -1))
    assert faults(swept(run, turned))[0][3] == (ROWS - 21,)
    features = torch.randn(ROWS, 8)
    features[[9, 4, 90, 91], 3] = float("inf")
    rows = TensorDataset(features, torch.arange(ROWS) % 3)
    assert faults(swept(run, rows)) == [("non-finite", "0", 4, (4, 9, 90))]


def test_equal_rows_of_other_labels_conflict_as_the_model_reads_them(run: Any) -> None:
    ids = [[1, 3 + n % 60, 5, 2] for n in range(ROWS)]
    table = datasets.Dataset.from_dict({"input_ids": ids, "label": [n // 60 for n in range(ROWS)]})
    for dataset in (table, Listed([dict(row) for row in table])):
        repeats = swept(run, dataset).repeats
        assert repeats is not None
        assert (repeats.compared, repeats.repeated, repeats.conflicting) == (ROWS, 60, ROWS)


class Drawing(Listed):
    """Rows that draw from three generators, count and use up an iterator."""

    def __init__(self) -> None:
        super().__init__(pairs())
        self.generator = np.random.default_rng(5)
        self.given = 0
        self.source = iter(range(100_000))
        self.kept: dict[int, Any] = {}

    def __getitem__(self, index: int) -> Any:
        self.given += 1
        noise = torch.rand(8) + self.generator.random() + random.random() + np.random.rand() + next(self.source)
        self.kept[index] = noise
        return self.rows[index][0] + noise, self.rows[index][1]


class Stream(torch.utils.data.IterableDataset[Any]):
    """A stream that begins again each time, with random numbers."""

    def __iter__(self) -> Iterator[Any]:
        return (torch.rand(4) for _ in range(ROWS))


def trained(dataset: Any) -> list[Any]:
    """The weights after an epoch."""
    net = nn.Linear(8, 3)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for inputs, labels in DataLoader(dataset, batch_size=16, shuffle=True):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(inputs), labels).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return [weight.detach().clone() for weight in net.parameters()]


def seeded() -> Drawing:
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(3)
    return Drawing()


def test_a_training_is_bit_equal_with_and_without_the_pass(run: Any) -> None:
    with_pass = seeded()
    first = [with_pass[0]]
    assert sweeping.sweep(run, with_pass, PLAIN, first) is not None
    assert (with_pass.given, list(with_pass.kept)) == (1, [0])
    weights = trained(with_pass)
    without = seeded()
    assert without[0] is not None
    assert all(torch.equal(one, other) for one, other in zip(weights, trained(without), strict=True))


def test_where_no_process_is_forked_random_generators_are_put_back(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    dataset = seeded()
    assert swept(run, dataset).rows == ROWS
    after = (torch.rand(1), random.random(), np.random.rand(), dataset.generator.random())
    other = seeded()
    assert other[0] is not None
    assert after == (torch.rand(1), random.random(), np.random.rand(), other.generator.random())


def test_a_stream_is_read_only_if_it_begins_again(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "is_users", lambda _: True)
    found = sweeping.sweep(run, Stream(), PLAIN, [])
    assert found is not None
    assert (found[1].rows, found[1].of) == (ROWS, ROWS)
    holder = Stream()
    holder.source = iter(range(3))  # type: ignore[attr-defined]
    assert sweeping.sweep(run, holder, PLAIN, []) is None
    assert list(holder.source) == [0, 1, 2]  # type: ignore[attr-defined]


def test_a_stream_of_datasets_is_read_if_its_rows_are_here(run: Any, tmp_path: Path) -> None:
    rows = datasets.Dataset.from_dict({"text": [f"text {each}" for each in range(ROWS)]})
    stream = rows.to_iterable_dataset(num_shards=2).map(lambda row: {"size": len(row["text"])}).shuffle(seed=1)
    found = sweeping.sweep(run, stream, PLAIN, [])
    assert found is not None
    assert (found[1].rows, found[1].of) == (ROWS, ROWS)
    assert next(iter(stream))["size"] > 0
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n{"text": "b"}\n')
    file = datasets.load_dataset("json", data_files=str(tmp_path / "rows.jsonl"), streaming=True, split="train")
    found = sweeping.sweep(run, file, PLAIN, [])
    assert found is not None
    assert found[1].rows == 2


def test_missing_values_of_a_stream_that_the_script_fills_in_are_no_fault(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"value": float("nan") if each == 7 else 1.0, "text": "" if each == 9 else "a"} for each in range(ROWS)]
    stream = datasets.Dataset.from_list(rows).to_iterable_dataset().map(lambda row: {"one": 1.0})
    found = sweeping.sweep(run, stream, PLAIN, [])
    assert found is not None
    assert faults(found[1]) == [("empty text", "text", 1, (9,)), ("non-finite", "value", 1, (7,))]
    monkeypatch.setattr(filled_values, "mentions", lambda _: True)
    found = sweeping.sweep(run, stream, PLAIN, [])
    assert found is not None
    assert faults(found[1]) == [("empty text", "text", 1, (9,))]


def test_a_stream_of_datasets_that_cannot_begin_again_or_is_far_is_left(run: Any, tmp_path: Path) -> None:
    source = iter(range(3))
    stream = datasets.IterableDataset.from_generator(lambda: ({"number": each} for each in source))
    assert sweeping.sweep(run, stream, PLAIN, []) is None
    assert list(source) == [0, 1, 2]
    (tmp_path / "rows.jsonl").write_text('{"text": "a"}\n')
    file = datasets.load_dataset("json", data_files=str(tmp_path / "rows.jsonl"), streaming=True, split="train")
    far = {"base_files": ["hf://datasets/somebody/rows/rows.jsonl"]}
    file._ex_iterable.kwargs = {**file._ex_iterable.kwargs, **far}
    assert sweeping.sweep(run, file, PLAIN, []) is None


def test_a_slow_data_set_is_left_in_time_and_the_share_is_told(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sweeping, "AT_LEAST", 2)
    monkeypatch.setattr(sweeping, "GRACE", 60.0)
    monkeypatch.setattr(sweeping, "SECONDS", (0.05, 0.1))

    class Slow(Listed):
        def __getitem__(self, index: int) -> Any:
            torch.rand(200, 200) @ torch.rand(200, 200)
            return super().__getitem__(index % ROWS)

        def __len__(self) -> int:
            return 1_000_000

    result = swept(run, Slow(pairs()))
    assert 0 < result.rows < 1_000_000
    assert not result.is_whole


def test_what_only_the_copy_of_the_process_cannot_read_is_no_fault(run: Any) -> None:
    home = os.getpid()

    class Opened(Listed):
        def __getitem__(self, index: int) -> Any:
            if os.getpid() != home and index % 40 == 7:
                raise OSError("this file is open in another process")
            return super().__getitem__(index)

    assert faults(swept(run, Opened(pairs()))) == []


def test_masks_over_more_than_the_tokens_and_counts_beside_an_embedding_are_no_fault(run: Any) -> None:
    rows = [{"input_ids": [1, 5, 6, 2], "attention_mask": [1] * 8, "counts": [n % 70, n] * 4} for n in range(ROWS)]
    assert faults(swept(run, Listed(rows), Reading(collate=list, mixes=True))) == []
    assert faults(swept(run, Listed([(torch.tensor([n % 70, n] * 4), n % 3) for n in range(ROWS)]))) == []


@pytest.mark.parametrize(
    ("changes", "counts"),
    [((), (16, 0)), ((9,), (10, 1)), ((0, 1, 2, 3), (4, 4)), ((2,), (4, 1))],
)
def test_pictures_that_stay_the_same_are_read_twice_more_often(
    changes: tuple[int, ...], counts: tuple[int, int]
) -> None:
    class Pictures:
        def __init__(self) -> None:
            self.asked = 0

        def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
            self.asked += 1
            return torch.full((3, 2, 2), float(self.asked if number in changes else 0)), 1

    assert reread(Pictures(), [*range(16)]) == counts
