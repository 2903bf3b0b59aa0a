"""Probes of Keras on TensorFlow: Keras 3, `tf_keras`, and the TensorFlow models of transformers 4 on top of it.

They need an environment of their own, which `LINTRAIN_TENSORFLOW_PYTHON` names (CONTRIBUTING.md tells how it is made).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules
from tests.pages import judging
from tests.pages.assembly import Script
from tests.pages.demands import findings_of
from tests.pages.tensorflow import TensorFlowRunner
from tests.support.probing import Probed, command, path_for_lintrain

PYTHON = os.environ.get("LINTRAIN_TENSORFLOW_PYTHON", "")
pytestmark = [
    pytest.mark.tensorflow,
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON, reason="LINTRAIN_TENSORFLOW_PYTHON names no Python that has TensorFlow"),
]

BOTH = pytest.mark.parametrize("package", ["keras", "tf_keras"])
RULES = {rule.name: rule for rule in load_rules()}
HEAD = """
import {package} as keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(400, 6)).astype("float32")
y = np.abs(x).argmax(axis=1) % 3
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.1), keras.layers.Dense(3)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy"])
"""
FIT = 'model.fit(x, y, batch_size=32, epochs=3, validation_split=0.25)\nraise SystemExit("trained")\n'
OTHER_WORDS = "the page says that it raises"
"""The errors on the pages are those of the torch backend."""
PASSED = ("batch", "forward", "backward", "step")


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path_for_lintrain(monkeypatch)
    monkeypatch.delenv("KERAS_BACKEND")
    monkeypatch.chdir(tmp_path)


def probed(folder: Path, script: str) -> Probed:
    """What the environment's Python shows of a script."""
    (folder / "train.py").write_text(script)
    return command(folder, "probe", "--json", "--python", PYTHON, "train.py")


def passes(folder: Path, script: str) -> Any:  # Any: JSON
    """Probe a correct script: every stage passes and nothing is confirmed."""
    found = probed(folder, script)
    assert {name: found.stages[name] for name in PASSED} == dict.fromkeys(PASSED, "passed"), found.out
    assert (found.code, [each for each in found.verdicts if each[2] == "confirmed"]) == (0, [])
    return found.run


@BOTH
def test_every_stage_of_a_fit_is_measured(tmp_path: Path, package: str) -> None:
    run = passes(tmp_path, HEAD.format(package=package) + FIT)
    assert (run["framework"], run["trainer"], run["call"]["line"]) == ("keras", "Model.fit", 11)
    assert {"torch", "transformers"}.isdisjoint(run["versions"])
    assert [(split["argument"], split["rows"]) for split in run["splits"]] == [
        ("train_dataset", 300),
        ("eval_dataset", 100),
    ]
    assert [tensor["shape"] for tensor in run["batches"][0]["tensors"]] == [[32, 6], [32]]
    assert (len(run["forward"]["losses"]), run["forward"]["logits_shape"]) == (4, [32, 3])
    assert len(run["backward"]["norms"]) == 4
    assert min(run["backward"]["norms"]) > 0.01
    step = run["step"]
    assert (step["optimizer"], step["changed_tensors"], step["trainable_tensors"]) == ("Adam", 4, 4)
    assert abs(step["groups"][0]["learning_rate"] - 1e-2) < 1e-6
    assert set(run["evaluation"]["metrics"]) == {"accuracy", "loss"}
    assert (run["arguments"]["loss"], run["arguments"]["from_logits"]) == ("sparse_categorical_crossentropy", True)
    keras = run["keras"]
    assert (keras["output_shape"], keras["modal_calls"], keras["modal_calls_in_training"]) == ([32, 3], 1, 1)
    assert run["shared_rows"]["shared"] == 0
    spread = run["responses"]["spread"]
    assert (spread["rows"], spread["dtype"], spread["before"] > 0.1, run["responses"]["mask"]) == (
        8,
        "float32",
        True,
        None,
    )


@BOTH
def test_a_model_that_reads_nothing_of_its_rows_is_confirmed(tmp_path: Path, package: str) -> None:
    dead = 'Dense(16, activation="relu", bias_initializer=keras.initializers.Constant(-1e4))'
    found = probed(tmp_path, HEAD.format(package=package).replace('Dense(16, activation="relu")', dead) + FIT)
    assert ("constant-output", "confirmed") in {(rule, outcome) for rule, _, outcome in found.verdicts}, found.out
    assert (found.run["responses"]["spread"]["before"], found.run["responses"]["spread"]["after"]) == (0.0, 0.0)


@BOTH
@pytest.mark.parametrize(
    "rule", ["keras-labels-in-inputs", "keras-logits-loss", "keras-single-unit-softmax", "keras-sparse-mismatch"]
)
def test_the_pages_of_keras_hold_on_tensorflow(tmp_path: Path, package: str, rule: str) -> None:
    runner = TensorFlowRunner(tmp_path, PYTHON, package)
    complaints = judging.unconfirmed(RULES[rule], runner) + judging.unrefuted(RULES[rule], runner)
    assert [each for each in complaints if not each.startswith(OTHER_WORDS)] == []


@BOTH
def test_keras_goes_back_behind_a_softmax_of_its_own(tmp_path: Path, package: str) -> None:
    found = probed(tmp_path, HEAD.format(package=package).replace("Dense(3)", 'Dense(3, activation="softmax")') + FIT)
    assert found.verdicts == [("keras-softmax-logits-loss", 10, "refuted")]
    own, other = found.run["keras"]["corrected"]
    assert abs(own - other) > 1e-3


@BOTH
def test_a_warm_up_is_stepped_at_its_highest_rate(tmp_path: Path, package: str) -> None:
    warms = "keras.optimizers.schedules.PolynomialDecay(0.0, 20, end_learning_rate=1e-2)"
    run = passes(tmp_path, HEAD.format(package=package).replace("Adam(1e-2)", f"Adam({warms})") + FIT)
    (group,) = run["step"]["groups"]
    assert group["first_learning_rate"] == 0.0
    assert abs(group["learning_rate"] - 1e-2) < 1e-6


@BOTH
def test_a_training_step_of_ones_own_is_followed(tmp_path: Path, package: str) -> None:
    own = """
import tensorflow as tf


class Own(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, inputs, training=False):
        return self.inner(inputs, training=training)

    def train_step(self, data):
        inputs, targets = data
        with tf.GradientTape() as tape:
            value = self.compute_loss(inputs, targets, self(inputs, training=True), None)
        gradients = tape.gradient(value, self.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": value}


model = Own(model)
loss = """
    fit = "rows = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)\nmodel.fit(rows, epochs=2)\n"
    run = passes(tmp_path, HEAD.format(package=package).replace("loss = ", own, 1) + fit)
    assert (run["step"]["changed_tensors"], run["batches"][0]["rows"]) == (4, 16)


@BOTH
def test_one_batch_of_a_loop_is_measured(tmp_path: Path, package: str) -> None:
    loop = "for start in range(0, 400, 40):\n    model.train_on_batch(x[start:start + 40], y[start:start + 40])\n"
    run = passes(tmp_path, HEAD.format(package=package) + loop)
    assert (run["trainer"], run["batches"][0]["rows"], len(run["forward"]["losses"])) == ("Model.train_on_batch", 40, 1)


BERT = """
import numpy as np
import tf_keras as keras
from transformers import BertConfig, TFBertForSequenceClassification

config = BertConfig(vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32)
made = TFBertForSequenceClassification(config)
made.build()
made.save_pretrained("checkpoint")
model = TFBertForSequenceClassification.from_pretrained("checkpoint", num_labels=3, ignore_mismatched_sizes=True)
generator = np.random.default_rng(0)
ids = generator.integers(1, 64, size=(64, 12)).astype("int32")
rows = {"input_ids": ids, "attention_mask": np.ones_like(ids)}
labels = (ids[:, 0] % 3).astype("int64")
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
"""
TRAINED = (
    "model.compile(optimizer={optimizer}, loss=loss, metrics=['accuracy'])\nmodel.fit(rows, labels, batch_size=8)\n"
)


def test_a_pretrained_model_under_the_name_of_an_optimizer_is_confirmed(tmp_path: Path) -> None:
    found = probed(tmp_path, BERT + TRAINED.format(optimizer='"adam"'))
    assert ("string-optimizer", 16, "confirmed") in found.verdicts, found.out + found.err
    assert (found.run["model"]["pretrained"], found.run["model"]["num_labels"]) == (True, 3)
    assert found.run["forward"]["logits_shape"] == [8, 3]


def test_the_rate_of_its_twin_refutes_it(tmp_path: Path) -> None:
    bad, good = (BERT + TRAINED.format(optimizer=optimizer) for optimizer in ('"adam"', "keras.optimizers.Adam(5e-5)"))
    rule = RULES["string-optimizer"]
    (claim,) = findings_of([rule], Script(bad, bad, 0))
    evidence = TensorFlowRunner(tmp_path, PYTHON, "keras").probe(Script(good, good, 0), overfit=False).evidence
    assert evidence is not None
    verdict = rule.rule.verify(claim, evidence)
    assert (verdict.outcome, verdict.reason) == (
        Outcome.REFUTED,
        "`Adam` trains 41 tensors of a pretrained model at a rate of 5e-05",
    )


def test_labels_beyond_the_head_of_a_pretrained_model_are_confirmed(tmp_path: Path) -> None:
    found = probed(tmp_path, BERT.replace("% 3", "% 5") + TRAINED.format(optimizer="keras.optimizers.Adam(5e-5)"))
    assert (found.code, found.stages["forward"]) == (1, "failed"), found.out
    assert "missing-num-labels" in {rule for rule, _, outcome in found.verdicts if outcome == "confirmed"}
    assert json.loads(found.out)["probe"]["runs"][0]["keras"]["output_shape"] == [8, 3]


def test_padding_that_a_mask_hides_moves_no_answer_and_is_told_when_it_is_attended(tmp_path: Path) -> None:
    padded = BERT.replace("labels = ", 'ids[::2, 7:], rows["attention_mask"][::2, 7:] = 0, 0\nlabels = ')
    run = passes(tmp_path, padded + TRAINED.format(optimizer="keras.optimizers.Adam(5e-5)"))
    mask = run["responses"]["mask"]
    assert (mask["given"], mask["cut_tokens"], mask["padding"] == 5 * mask["rows"] > 0) == (True, 5, True)
    assert mask["cut"] < 1e-5 < mask["change"]


PIPELINE = """
import tensorflow as tf


def scaled(row, label):
    return row * 2.0, label


rows = tf.data.Dataset.from_tensor_slices((x, y)).map(scaled).shuffle(400).batch(32).prefetch(1)
held_out = tf.data.Dataset.from_tensor_slices((x[:40], y[:40])).shuffle(40).map(scaled).batch(8)
model.fit(rows, validation_data=held_out, epochs=2)
"""


@BOTH
def test_the_rows_of_a_pipeline_are_read(tmp_path: Path, package: str) -> None:
    broken = HEAD.format(package=package) + "x[271, 3] = np.nan\nx[7, 1] = np.inf\n" + PIPELINE
    found = probed(tmp_path, broken)
    assert ("non-finite-data", "confirmed") in {(rule, outcome) for rule, _, outcome in found.verdicts}, found.out
    train, held_out = found.run["splits"]
    assert (train["rows"], train["label_column"], [each["name"] for each in train["columns"]]) == (400, "y", ["x", "y"])
    assert [(each["fault"], each["column"], each["first"]) for each in train["sweep"]["wrong"]] == [
        ("non-finite", "x", [7, 271])
    ]
    assert (train["sweep"]["rows"], train["sweep"]["numbered"]) == (400, True)
    assert (held_out["sweep"]["rows"], held_out["sweep"]["numbered"], held_out["sweep"]["wrong"][0]["count"]) == (
        40,
        False,
        1,
    )


@BOTH
def test_a_sound_pipeline_is_read_and_one_of_python_or_files_is_left(tmp_path: Path, package: str) -> None:
    run = passes(tmp_path, HEAD.format(package=package) + PIPELINE)
    assert [(split["sweep"]["rows"], split["sweep"]["wrong"]) for split in run["splits"]] == [(400, []), (40, [])]
    python = "tf.ensure_shape(tf.py_function(lambda v: v, [a], tf.float32), (None, 6))"
    calls_python = f"rows = rows.map(lambda a, b: ({python}, b))"
    cached = 'held_out = held_out.cache("cached")'
    left = PIPELINE.replace("model.fit", f"{calls_python}\n{cached}\nmodel.fit")
    run = probed(tmp_path, HEAD.format(package=package) + left).run
    assert [split["sweep"] for split in run["splits"]] == [None, None]
