"""What the reader makes of Keras, and where the rules about it cannot know and are silent."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.analysis.keras_runs import backbones, keras_name
from lintrain.pipeline.values.model import Network
from lintrain.pipeline.values.python import text_of
from lintrain.rulebook import load_rules
from tests.support.loops import pipeline_of

IMPORTS = """\
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
from transformers import TFAutoModel, TFAutoModelForSequenceClassification
"""
BERT = "model = TFAutoModelForSequenceClassification.from_pretrained('bert-base-uncased', num_labels=3)\n"
SMALL = "model = keras.Sequential([layers.Dense(32, activation='relu'), layers.Dense(3)])\n"


def lines_of(rule: str, code: str) -> list[int]:
    checked = next(each.rule for each in load_rules() if each.name == rule)
    findings = checked.check(pipeline_of(IMPORTS + dedent(code).lstrip("\n")))
    return [finding.location.line - IMPORTS.count("\n") for finding in findings]


def test_compile_and_fit_belong_together() -> None:
    code = IMPORTS + SMALL + "model.compile('adam', 'mse')\nmodel.fit(x, y, epochs=3)\nmodel.fit(x, y)\n"
    (run,) = pipeline_of(code).keras_runs
    assert isinstance(run.model, Network)
    assert (text_of(run.value("optimizer")), text_of(run.value("loss"))) == ("adam", "mse")
    assert [sorted(arguments) for _, arguments in run.fits] == [["epochs", "x", "y"], ["x", "y"]]


@pytest.mark.parametrize(
    ("code", "last"),
    [
        (SMALL, "Dense"),
        ("model = keras.Sequential()\nmodel.add(layers.Dense(3))\nmodel.add(layers.Softmax())\n", "Softmax"),
        ("x = layers.Input((8,))\nmodel = keras.Model(x, layers.Dense(3)(layers.Dense(8)(x)))\n", "Dense"),
        ("x = layers.Input((8,))\nmodel = keras.Model(x, [layers.Dense(3)(x), layers.Dense(1)(x)])\n", None),
        ("model = keras.Sequential(found)\n", None),
        ("model = keras.Sequential()\nmodel.add(layers.Dense(3))\nif soft:\n    model.add(layers.Softmax())\n", None),
        ("model = keras.Sequential([layers.Dense(3), tf.nn.softmax])\n", None),
    ],
)
def test_the_last_layer_is_known_only_where_that_is_certain(code: str, last: str | None) -> None:
    (run,) = pipeline_of(IMPORTS + code + "model.compile('adam', 'mse')\n").keras_runs
    assert isinstance(run.model, Network)
    assert (run.model.last.name if run.model.last else None) == last


def test_a_pretrained_model_is_seen_through_the_layers_on_top_of_it() -> None:
    code = IMPORTS + dedent("""
        bert = TFAutoModel.from_pretrained("bert-base-uncased")
        tokens = layers.Input((128,), dtype="int32")
        hidden = bert(tokens).last_hidden_state
        model = keras.Model(tokens, layers.Dense(3)(layers.Dropout(0.1)(hidden)))
        model.compile("adam", "mse")
    """)
    (run,) = pipeline_of(code).keras_runs
    assert [text_of(model.checkpoint) for model in backbones(run.model)] == ["bert-base-uncased"]


@pytest.mark.parametrize(
    ("imports", "name"),
    [
        ("import keras", "keras"),
        ("import tensorflow as tf", "tf.keras"),
        ("from tensorflow import keras as k", "k"),
        ("import numpy", None),
    ],
)
def test_keras_is_named_as_the_script_names_it(imports: str, name: str | None) -> None:
    assert keras_name(pipeline_of(imports + "\n")) == name


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (BERT + "model.compile('adam')\nmodel.fit(rows)\n", [2]),
        (BERT + "model.compile(optimizer='rmsprop', loss='mse')\nmodel.fit(rows)\n", [2]),
        (BERT + "model.compile(optimizer='rmsprop', loss='mse')\nmodel.train_on_batch(rows)\n", []),
        (BERT + "model.layers[0].trainable = False\nmodel.compile('adam')\n", []),
        (BERT + "model.trainable = False\nmodel.compile('adam')\n", []),
        (BERT + "model.compile(keras.optimizers.Adam(5e-5))\n", []),
        (BERT + "model.compile('adam')\nmodel.optimizer.learning_rate = 5e-5\n", []),
        (
            BERT + "model.compile('adam')\nmodel.fit(x, callbacks=[keras.callbacks.LearningRateScheduler(rate)])\n",
            [],
        ),
        (BERT + "model.compile('adam')\nmodel.fit(x, callbacks=callbacks)\n", []),
        (BERT + "model.compile('adam')\nmodel.fit(x, callbacks=[keras.callbacks.EarlyStopping()])\n", [2]),
        (BERT + "model.compile(chosen)\n", []),
        ("model = TFAutoModelForSequenceClassification.from_config(config)\nmodel.compile('adam')\n", []),
        (SMALL + "model.compile('adam', 'mse')\n", []),
    ],
)
def test_the_name_of_an_optimizer_is_found_on_pretrained_models_only(code: str, lines: list[int]) -> None:
    assert lines_of("string-optimizer", code) == lines


LOSS = "loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)\n"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (BERT + LOSS + "model.compile('adam', loss)\nmodel.fit({'input_ids': x, 'labels': y})\n", [4]),
        (
            BERT + LOSS + "model.compile('adam', loss)\n"
            "rows = tf.data.Dataset.from_tensor_slices({'input_ids': x, 'labels': y}).batch(8)\nmodel.fit(rows)\n",
            [5],
        ),
        # transformers' models compute a loss of their own
        (BERT + "model.compile('adam')\nmodel.fit({'input_ids': x, 'labels': y})\n", []),
        (BERT + LOSS + "model.compile('adam', loss)\nmodel.fit({'input_ids': x}, y)\n", []),
        (BERT + LOSS + "model.compile('adam', loss)\nmodel.fit({'input_ids': x, 'labels': y}, y)\n", []),
        (
            BERT + LOSS + "model.compile('adam', loss)\n"
            "rows = tf.data.Dataset.from_tensor_slices(({'input_ids': x}, y))\nmodel.fit(rows)\n",
            [],
        ),
        (
            BERT + LOSS + "model.compile('adam', loss)\n"
            "rows = tf.data.Dataset.from_tensor_slices({'input_ids': x, 'labels': y}).map(split)\nmodel.fit(rows)\n",
            [],
        ),
        (BERT + "model.compile('adam', chosen)\nmodel.fit({'input_ids': x, 'labels': y})\n", []),
    ],
)
def test_labels_among_the_inputs_are_found_where_a_loss_waits_for_them(code: str, lines: list[int]) -> None:
    assert lines_of("keras-labels-in-inputs", code) == lines


TO_TF = "from datasets import load_dataset\nraw = load_dataset('glue', 'mrpc', split='train')\n"


@pytest.mark.parametrize(
    ("columns", "found"),
    [
        ("columns=['input_ids', 'labels']", True),
        ("columns=['input_ids'], label_cols='labels'", False),
        ("columns=['input_ids', 'labels'], label_cols=['labels']", False),
        ("columns=names", False),
    ],
)
def test_columns_of_a_hugging_face_data_set_are_inputs_unless_they_are_label_columns(columns: str, found: bool) -> None:
    code = TO_TF + BERT + LOSS + f"model.compile('adam', loss)\nmodel.fit(raw.to_tf_dataset({columns}))\n"
    assert bool(lines_of("keras-labels-in-inputs", code)) is found


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (SMALL + "model.compile('adam', 'sparse_categorical_crossentropy')\n", [2]),
        (SMALL + "model.compile('adam', keras.losses.SparseCategoricalCrossentropy())\n", [2]),
        (BERT + "model.compile('adam', 'sparse_categorical_crossentropy')\n", [2]),
        (SMALL + LOSS + "model.compile('adam', loss)\n", []),
        (SMALL + "model.add(layers.Softmax())\nmodel.compile('adam', 'sparse_categorical_crossentropy')\n", []),
        (SMALL + "model.compile('adam', own_loss)\n", []),
        (SMALL + "model.compile('adam', 'mse')\n", []),
        (
            "model = keras.Sequential([layers.Dense(3, activation=chosen)])\n"
            "model.compile('adam', 'categorical_crossentropy')\n",
            [],
        ),
        (
            "class Net(keras.Model):\n    def call(self, x):\n        return tf.nn.softmax(x)\n"
            "model = Net()\nmodel.compile('adam', 'sparse_categorical_crossentropy')\n",
            [],
        ),
        (
            "model = TFAutoModel.from_pretrained('bert-base-uncased')\n"
            "model.compile('adam', 'sparse_categorical_crossentropy')\n",
            [],
        ),
    ],
)
def test_logits_are_found_in_losses_that_expect_probabilities(code: str, lines: list[int]) -> None:
    assert lines_of("keras-logits-loss", code) == lines


@pytest.mark.parametrize(
    ("order", "lines"),
    [
        ("np.random.default_rng(3).permutation(400)", [6]),
        ("np.random.permutation(len(images))", [6]),
        ("np.random.permutation(images.shape[0])", [6]),
        ("np.random.permutation(images)", []),
        ("own.permutation(400)", []),
        ("np.where(images > 3)", []),
    ],
)
def test_labels_in_another_order_are_the_labels_that_they_were(order: str, lines: list[int]) -> None:
    code = f"""
        import numpy as np
        labels = keras.utils.to_categorical(digits, 10)
        order = {order}
        images, labels = images[order], labels[order]
        model = keras.Sequential([layers.Dense(10, activation="softmax")])
        model.compile("adam", loss="sparse_categorical_crossentropy")
        model.fit(images, labels)
    """
    assert lines_of("keras-sparse-mismatch", code) == lines
