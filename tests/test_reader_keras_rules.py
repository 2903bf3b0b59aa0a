"""Rules about losses and last layers of Keras: what is certain is found, what may be otherwise is left alone."""

from __future__ import annotations

import pytest

from tests.support.loops import lines_of, related_of

NETWORK = """
import keras
network = keras.Sequential([keras.layers.Dense(8, activation="relu"), {last}])
network.compile("adam", loss={loss})
"""


@pytest.mark.parametrize(
    ("last", "loss", "is_found"),
    [
        ("keras.layers.Dense(3)", "'sparse_categorical_crossentropy'", True),
        ("keras.layers.Dense(3)", "keras.losses.SparseCategoricalCrossentropy()", True),
        ("keras.layers.Dense(3, activation='linear')", "keras.losses.CategoricalCrossentropy(from_logits=False)", True),
        ("keras.layers.Dense(1)", "'binary_crossentropy'", True),
        ("keras.layers.Dense(3)", "keras.losses.SparseCategoricalCrossentropy(from_logits=True)", False),
        ("keras.layers.Dense(3)", "keras.losses.SparseCategoricalCrossentropy(from_logits=raw)", False),
        ("keras.layers.Dense(3)", "keras.losses.SparseCategoricalCrossentropy(**options)", False),
        ("keras.layers.Dense(3, activation='softmax')", "'sparse_categorical_crossentropy'", False),
        ("keras.layers.Dense(3, activation=last)", "'sparse_categorical_crossentropy'", False),
        ("keras.layers.Dense(3, **options)", "'sparse_categorical_crossentropy'", False),
        ("keras.layers.Dense(1)", "'mse'", False),
        ("keras.layers.Dense(3)", "own_loss", False),
        ("build()", "'sparse_categorical_crossentropy'", False),
    ],
)
def test_logits_are_found_in_a_loss_of_probabilities(last: str, loss: str, is_found: bool) -> None:
    assert bool(lines_of("keras-logits-loss", NETWORK.format(last=last, loss=loss))) is is_found


def test_the_layer_that_gives_logits_is_shown() -> None:
    code = NETWORK.format(last="keras.layers.Dense(3)", loss="'sparse_categorical_crossentropy'")
    assert [line for line, _ in related_of("keras-logits-loss", code)] == [2]
