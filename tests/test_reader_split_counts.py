"""How many rows the parts of a data set have, as `train_test_split` counts them."""

from __future__ import annotations

import pytest

from tests.support.columns import dataset

ROWS = "many = Dataset.from_dict({'a': " + str(list(range(21))) + "})\n"


@pytest.mark.parametrize(
    ("given", "train", "test"),
    [
        ("", 15, 6),
        ("0.2", 16, 5),
        ("test_size=0.5", 10, 11),
        ("test_size=4", 17, 4),
        ("train_size=0.7", 14, 7),
        ("train_size=5", 5, 16),
        ("0.1, 0.3", 6, 3),
        ("test_size=3, train_size=4", 4, 3),
    ],
)
def test_parts_have_as_many_rows_as_datasets_gives_them(given: str, train: int, test: int) -> None:
    code = f"{ROWS}parts = many.shuffle(seed=1).train_test_split({given})\nx, y = parts['train'], parts['test']\n"
    assert (dataset(code, "x").rows, dataset(code, "y").rows) == (train, test)


@pytest.mark.parametrize("given", ["share", "**options", "test_size=options.share", "test_size=1.5", "test_size=30"])
def test_parts_of_an_unknown_size_are_not_counted(given: str) -> None:
    assert dataset(f"{ROWS}x = many.train_test_split({given})['train']").rows is None


def test_a_default_share_may_be_another_one() -> None:
    code = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--share', type=float, default=0.2)\n"
    assert dataset(f"{code}{ROWS}x = many.train_test_split(p.parse_args().share)['train']").rows is None


def test_parts_of_rows_that_nobody_counted_have_no_count() -> None:
    assert dataset("x = load_dataset('some/name', split='train').train_test_split(0.2)['test']").rows is None
