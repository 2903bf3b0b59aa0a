"""Whether evaluation reads rows that are trained on: what is certain is found, what may be other rows is left alone."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of, related_of

NETWORK = """
from tensorflow import keras
network = keras.Sequential([keras.layers.Dense(3)])
network.compile("adam", "mse")
"""


@pytest.mark.parametrize(
    ("fit", "is_found"),
    [
        ("x, y, validation_data=(x, y)", True),
        ("x, y, validation_data=[x, y]", True),
        ("x=x, y=y, validation_data=(x, y)", True),
        ("rows, validation_data=rows", True),
        ("x, y", False),
        ("x, y, validation_data=(a, b)", False),
        ("x, y, validation_data=held_out", False),
        ("validation_data=(x, y)", False),
        ("x, y, validation_data=None", False),
        # the same code may give other rows each time
        ("make(0), validation_data=make(0)", False),
        ("x[:8], y, validation_data=(x[8:], y)", False),
    ],
)
def test_rows_of_keras_are_compared_by_their_names(fit: str, is_found: bool) -> None:
    assert bool(lines_of("train-data-in-eval", NETWORK + f"network.fit({fit})\n")) is is_found


TRAINS = """
from datasets import load_dataset
from transformers import Trainer
rows = load_dataset("imdb", split="train"){steps}
{named}
trainer = Trainer(model, train_dataset=rows, eval_dataset={held_out})
"""


@pytest.mark.parametrize(
    ("steps", "named", "held_out", "is_found"),
    [
        ("", "", "rows", True),
        (".shuffle(seed=1)", "", "rows.select(range(8))", True),
        # names that say so: the score on training rows is what is wanted
        ("", "train_eval = rows.select(range(8))", "train_eval", False),
        ("", "eval_on_train = rows", "eval_on_train", False),
        ("", "held_out = rows.select(range(8))", "held_out", True),
        ("", "training_rows = rows.select(range(8))", "training_rows", True),
        ("", "val_rows = rows.select(range(8))", "val_rows", True),
        # a trial
        ("", "# smoke test", "rows", False),
        ("", "# overfit on a few rows", "rows", False),
        # in one of two branches it is another split
        ("", "", "rows if quick else load_dataset('imdb', split='test')", False),
        ("", "other = load_dataset('imdb', split='test')", "other", False),
        ("", "", "{'train': rows}", False),
        ("", "", "load()", False),
    ],
)
def test_rows_of_a_trainer_are_compared(steps: str, named: str, held_out: str, is_found: bool) -> None:
    code = TRAINS.format(steps=steps, named=named, held_out=held_out)
    assert bool(lines_of("train-data-in-eval", code)) is is_found


@pytest.mark.parametrize(
    "change", ["trainer.eval_dataset = others()", "trainer.train_dataset = others()", "trainer.eval_dataset = None"]
)
def test_rows_that_a_trainer_is_given_later_are_not_known(change: str) -> None:
    code = TRAINS.format(steps="", named="", held_out="rows") + change + "\n"
    assert lines_of("train-data-in-eval", code) == []


def test_the_step_that_both_come_from_is_shown() -> None:
    code = TRAINS.format(steps="", named="", held_out="rows")
    assert related_of("train-data-in-eval", code) == [(3, "both come from here")]
    assert related_of("train-data-in-eval", NETWORK + "network.fit(x, y, validation_data=(x, y))\n") == []


LOADERS = """
from datasets import load_dataset
from torch.utils.data import DataLoader
rows = load_dataset("imdb", split="train")
{first} = DataLoader(rows, shuffle=True)
{second} = DataLoader(rows{given})
"""


@pytest.mark.parametrize(
    ("first", "second", "given", "is_found"),
    [
        ("train_loader", "val_loader", "", True),
        ("trn_dl", "dev_dl", "", True),
        ("train_loader", "train_eval_loader", "", False),
        ("train_val_loader", "test_loader", "", False),
        ("loader", "val_loader", "", False),
        ("train_loader", "loader", "", False),
        # what else chooses the rows may choose others
        ("train_loader", "val_loader", ", sampler=others", False),
        ("train_loader", "val_loader", ", batch_sampler=others", False),
        ("train_loader", "val_loader", ", **options", False),
        ("train_loader", "val_loader", ".select(chosen)", True),
    ],
)
def test_loaders_are_compared_where_their_names_tell_what_they_are_for(
    first: str, second: str, given: str, is_found: bool
) -> None:
    code = LOADERS.format(first=first, second=second, given=given)
    assert bool(lines_of("train-data-in-eval", code)) is is_found
