"""What the reader makes of the last layer that a Keras loss gets, the loss itself, and the form of the labels."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.analysis.keras_runs import activation_of, loss_of, units_of
from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.values.keras import KerasLabels, LabelledBatches
from lintrain.pipeline.values.training import KerasRun
from lintrain.read import read_pipeline
from lintrain.source.source import Source


def run_of(code: str) -> KerasRun:
    text = "import keras\nfrom keras import layers\n" + dedent(code)
    (run,) = read_pipeline(Source("script.py", text), TargetVersions()).keras_runs
    return run


def test_what_a_subclass_returns_from_call_is_its_output() -> None:
    run = run_of("""
        class Net(keras.Model):
            def __init__(self):
                super().__init__()
                self.hidden = layers.Dense(8, activation="relu")
                self.last = layers.Dense(3, activation="softmax")

            def call(self, inputs):
                return self.last(self.hidden(inputs))

        net = Net()
        net.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    """)
    assert (activation_of(run.output), units_of(run.output)) == ("softmax", 3)


def test_a_subclass_with_a_step_of_its_own_has_no_output_that_is_known() -> None:
    run = run_of("""
        class Net(keras.Model):
            def call(self, inputs):
                return layers.Dense(3)(inputs)

            def train_step(self, data):
                return {}

        net = Net()
        net.compile(loss="mse")
    """)
    assert activation_of(run.output) is None


@pytest.mark.parametrize(
    ("loss", "name", "from_logits"),
    [
        ('"bce"', "binary_crossentropy", False),
        ("keras.losses.CategoricalCrossentropy(from_logits=True)", "categorical_crossentropy", True),
        ("keras.losses.SparseCategoricalCrossentropy(from_logits=flag)", "sparse_categorical_crossentropy", None),
        ("keras.losses.binary_crossentropy", "binary_crossentropy", False),
    ],
)
def test_a_loss_is_known_by_its_name_and_whether_it_takes_logits(
    loss: str, name: str, from_logits: bool | None
) -> None:
    known = loss_of(run_of(f"net = keras.Sequential([layers.Dense(3)])\nnet.compile(loss={loss})"))
    assert known is not None
    assert (known.name, known.from_logits) == (name, from_logits)


@pytest.mark.parametrize(
    ("labels", "is_one_hot"),
    [
        ("keras.utils.to_categorical(numbers, 3)", True),
        ("keras.utils.to_categorical(numbers, 3)[:100]", True),
        ("keras.datasets.mnist.load_data()[0][1]", False),
        ("keras.utils.to_categorical(numbers).argmax(axis=1)", False),
    ],
)
def test_labels_are_known_by_their_form(labels: str, is_one_hot: bool) -> None:
    run = run_of(f"net = keras.Sequential([layers.Dense(3)])\nnet.compile(loss='mse')\nnet.fit(x, {labels})")
    given = run.fits[0][1]["y"].value
    assert isinstance(given, KerasLabels)
    assert given.is_one_hot is is_one_hot


def test_a_folder_of_images_says_the_form_of_its_labels() -> None:
    run = run_of("""
        images = keras.utils.image_dataset_from_directory("images", label_mode="categorical").prefetch(2)
        net = keras.Sequential([layers.Dense(3)])
        net.compile(loss="categorical_crossentropy")
        net.fit(images)
    """)
    given = run.fits[0][1]["x"].value
    assert isinstance(given, LabelledBatches)
    assert given.is_one_hot
