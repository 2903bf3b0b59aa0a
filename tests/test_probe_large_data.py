"""Large datasets: mapped on a sample where the answer cannot change, in full where it can."""

from __future__ import annotations

import functools
from collections import Counter
from pathlib import Path

import pytest
from datasets import ClassLabel, Dataset, Features, Value

from lintrain.runtime.child.label_rows import one_of_every_label, sample_by_label, spread
from lintrain.runtime.child.quick_datasets import side_effect
from tests.support.probing import HEAD, REST, Probed, path_for_lintrain, probe

COUNTER: Counter[str] = Counter()
SEEN: list[str] = []
LABEL_NUMBERS = {"no": 0, "yes": 1}


def rare_labels(rows: int = 5000) -> Dataset:
    features = Features({"text": Value("string"), "label": ClassLabel(names=["a", "b", "c"])})
    labels = [2 if row == 1234 else int(row % 400 == 0) for row in range(rows)]
    return Dataset.from_dict({"text": [f"text {row}" for row in range(rows)], "label": labels}, features=features)


def test_a_sample_holds_every_label_and_stands_in_for_rows_of_the_same_label() -> None:
    dataset = rare_labels()
    sampling = sample_by_label(dataset, 100)
    assert sampling is not None
    labels = list(dataset["label"])
    assert {labels[row] for row in sampling.rows} == {0, 1, 2}
    assert [labels[sampling.rows[location]] for location in sampling.stand_ins] == labels


def test_a_sample_of_selected_rows_goes_by_the_selection() -> None:
    dataset = rare_labels().select(range(1000, 4000))
    assert [dataset[row]["label"] for row in one_of_every_label(dataset)] == [0, 1, 2]


def test_rows_are_drawn_from_all_over_and_always_the_same() -> None:
    rows = spread(1000, 10)
    assert [row // 100 for row in rows] == list(range(10))
    assert rows == spread(1000, 10)
    assert spread(5, 10) == [0, 1, 2, 3, 4]


def pure(batch: dict[str, list[str]]) -> dict[str, list[int]]:
    batch["kept"] = list(batch["word"])
    lengths: list[int] = []
    lengths.append(LABEL_NUMBERS["yes"])
    return {"n": lengths}


def counts(batch: dict[str, list[str]]) -> dict[str, list[str]]:
    COUNTER.update(batch["word"])
    return batch


def appends(row: dict[str, str]) -> dict[str, str]:
    return note(row)


def note(row: dict[str, str]) -> dict[str, str]:
    SEEN.append(row["word"])
    return row


def writes(row: dict[str, str]) -> dict[str, str]:
    with open("words.txt", "a") as file:  # noqa: PTH123 - the plain way, to be recognised
        file.write(row["word"])
    return row


class Numbering:
    def __init__(self) -> None:
        self.next = 0

    def __call__(self, row: dict[str, int]) -> dict[str, int]:
        self.next += 1
        return {"number": self.next}


def test_functions_that_only_turn_rows_into_rows_have_no_side_effect() -> None:
    assert side_effect(pure) is None
    assert side_effect(functools.partial(pure)) is None
    assert side_effect(lambda row: {"n": len(row["word"])}) is None
    assert side_effect(str.upper) is None


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (counts, "changes `COUNTER`"),
        (appends, "calls `note`, which changes `SEEN`"),
        (writes, "changes `a file`"),
        (Numbering(), "changes `self`"),
        (lambda row: SEEN.append(row["word"]), "changes `SEEN`"),
    ],
)
def test_functions_that_change_something_else_are_recognised(function: object, said: str) -> None:
    assert side_effect(function) == said


def test_a_counter_in_a_closure_is_recognised() -> None:
    total = 0

    def count(row: dict[str, str]) -> dict[str, int]:
        nonlocal total
        total += 1
        return {"n": total}

    assert side_effect(count) == "changes `total`"


MANY = """
from datasets import concatenate_datasets
raw["train"] = concatenate_datasets([raw["train"]] * 10)
"""


@pytest.fixture
def large(tmp_path: Path, assets: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path_for_lintrain(monkeypatch)
    return tmp_path


def probe_large(folder: Path, between: str = "", *options: str) -> Probed:
    rest = REST.replace("model = Auto", between + "\nmodel = Auto")
    return probe(folder, HEAD + MANY + rest + "trainer.train()\n", *options)


def shortcut_texts(probed: Probed) -> str:
    return " ".join([*probed.run["shortcuts"], *probed.run["notes"]])


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_labels_of_a_sampled_dataset_are_still_counted_exactly(large: Path) -> None:
    probed = probe_large(large)
    split = probed.run["splits"][0]
    assert (probed.code, split["rows"]) == (0, 4800)
    label = next(column for column in split["columns"] if column["name"] == "label")
    assert label["counts"] == [[0, 1600], [1, 1600], [2, 1600]]
    assert "processed 259 of 4800 rows" in shortcut_texts(probed)


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_full_data_turns_the_sampling_off(large: Path) -> None:
    assert "rows" not in shortcut_texts(probe_large(large, "", "--full-data"))


@pytest.mark.turns(one_in=3)
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    "use",
    [
        "longest = max(len(row['input_ids']) for row in tokenized['train'])",
        "ids = tokenized['train']['input_ids']",
        "tokenized['train'] = tokenized['train'].add_column('weight', [1.0] * 4800)",
    ],
)
def test_a_script_that_looks_at_all_mapped_rows_is_run_again_in_full(large: Path, use: str) -> None:
    probed = probe_large(large, use)
    assert probed.code == 0
    assert "all of the data was processed: the script uses" in shortcut_texts(probed)


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_mapping_with_row_numbers_works_on_all_rows(large: Path) -> None:
    probed = probe_large(large, "tokenized = tokenized.map(lambda row, i: {'i': i}, with_indices=True)")
    assert "`map` processed all 4800 rows: its function receives row indices" in shortcut_texts(probed)
    numbers = next(column for column in probed.run["splits"][0]["columns"] if column["name"] == "i")
    assert (numbers["minimum"], numbers["maximum"]) == (0, 4799)


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_selecting_splitting_and_filtering_still_work_on_a_sampled_dataset(large: Path) -> None:
    use = """
part = tokenized["train"].filter(lambda row: row["label"] != 2).shuffle(seed=1).select(range(3000))
tokenized["train"] = part.train_test_split(0.1, stratify_by_column="label", seed=0)["train"]
"""
    probed = probe_large(large, use)
    label = next(column for column in probed.run["splits"][0]["columns"] if column["name"] == "label")
    assert sum(rows for _, rows in label["counts"]) == 2700
    assert [value for value, _ in label["counts"]] == [0, 1]


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_the_classes_of_chosen_rows_are_asked_for_before_they_are_mapped(large: Path) -> None:
    asked = "assert raw['train'].select([*range(0, 4800, 2)]).unique('label')\n"
    probed = probe(large, HEAD + MANY + asked + REST + "trainer.train()\n")
    assert (probed.code, probed.stages["step"]) == (0, "passed")
    assert "processed 259 of 4800 rows" in shortcut_texts(probed)
