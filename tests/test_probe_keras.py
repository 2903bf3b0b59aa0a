"""Probes of `Model.fit` of Keras on torch: its own training step on a few batches, its validation data on two."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.probing import Probed, path_for_lintrain, probe

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("warm"), pytest.mark.turns(one_in=3, of="file")]

HEAD = """
import keras
import numpy as np

keras.utils.set_random_seed(0)
x = np.random.default_rng(0).normal(size=(400, 6)).astype("float32")
y = np.abs(x).argmax(axis=1) % 3
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.1), keras.layers.Dense(3)])
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(1e-2), loss=loss, metrics=["accuracy"])
"""
FIT = 'model.fit(x, y, batch_size=32, epochs=3, validation_split=0.25)\nraise SystemExit("trained")\n'
PASSED = ("dataset", "batch", "forward", "backward", "step", "evaluation")


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)


def passes(folder: Path, script: str) -> Probed:
    """Probe a correct script: every stage passes and nothing is confirmed."""
    probed = probe(folder, script)
    assert {name: probed.stages[name] for name in PASSED} == dict.fromkeys(PASSED, "passed"), probed.out
    assert (probed.code, probed.verdicts) == (0, [])
    return probed


@pytest.mark.turns(one_in=1)
def test_every_stage_of_a_fit_is_measured(tmp_path: Path) -> None:
    run = passes(tmp_path, HEAD + FIT).run
    assert (run["framework"], run["trainer"], run["call"]["line"]) == ("keras", "Model.fit", 11)
    assert [(split["argument"], split["rows"]) for split in run["splits"]] == [
        ("train_dataset", 300),
        ("eval_dataset", 100),
    ]
    assert sum(rows for _, rows in run["splits"][0]["columns"][1]["counts"]) == 300
    assert [tensor["shape"] for tensor in run["batches"][0]["tensors"]] == [[32, 6], [32]]
    assert (len(run["forward"]["losses"]), run["forward"]["logits_shape"]) == (4, [32, 3])
    assert len(run["backward"]["norms"]) == 4
    step = run["step"]
    assert (step["optimizer"], step["changed_tensors"], step["trainable_tensors"]) == ("Adam", 4, 4)
    assert run["evaluation"]["rows"] == 64
    assert (run["evaluation"]["batches"], run["evaluation"]["passes_in_training_mode"]) == (2, 0)
    assert set(run["evaluation"]["metrics"]) == {"accuracy", "loss"}
    assert (run["arguments"]["loss"], run["arguments"]["from_logits"]) == ("sparse_categorical_crossentropy", True)


def test_frozen_layers_are_no_part_of_training(tmp_path: Path) -> None:
    run = passes(tmp_path, HEAD.replace("loss = ", "model.layers[0].trainable = False\nloss = ") + FIT).run
    assert (run["step"]["trainable_tensors"], run["step"]["changed_tensors"]) == (2, 2)
    assert run["model"]["parameters"] - run["model"]["trainable_parameters"] == 6 * 16 + 16


def test_a_model_of_which_nothing_trains_has_no_backward_pass(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD.replace("loss = ", "model.trainable = False\nloss = ") + FIT)
    assert (probed.stages["forward"], probed.stages["backward"], probed.stages["step"]) == (
        "passed",
        "not reached",
        "not reached",
    )


def test_a_warm_up_is_stepped_at_its_highest_rate(tmp_path: Path) -> None:
    warms = "keras.optimizers.schedules.CosineDecay(0.0, 100, warmup_target=1e-2, warmup_steps=10)"
    (group,) = passes(tmp_path, HEAD.replace("Adam(1e-2)", f"Adam({warms})") + FIT).run["step"]["groups"]
    assert group["first_learning_rate"] == 0.0
    assert abs(group["learning_rate"] - 1e-2) < 1e-6


def test_a_training_step_of_ones_own_is_followed(tmp_path: Path) -> None:
    own = """
class Own(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, inputs, training=False):
        return self.inner(inputs, training=training)

    def train_step(self, data):
        import torch

        inputs, targets = data
        self.zero_grad()
        value = self.compute_loss(inputs, targets, self(inputs, training=True))
        value.backward()
        with torch.no_grad():
            self.optimizer.apply([each.value.grad for each in self.trainable_weights], self.trainable_weights)
        return {"loss": value}


model = Own(model)
loss = """
    assert passes(tmp_path, HEAD.replace("loss = ", own, 1) + FIT).run["step"]["changed_tensors"] == 4


def test_labels_beyond_the_units_fail_the_forward_stage(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD.replace("% 3", "% 5") + FIT)
    assert (probed.code, probed.stages["batch"], probed.stages["forward"]) == (1, "passed", "failed")
    assert probed.run["keras"]["output_shape"] == [32, 3]


def test_a_loader_of_torch_is_taken_as_it_is(tmp_path: Path) -> None:
    rows = "import torch\nrows = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))\n"
    fit = "model.fit(torch.utils.data.DataLoader(rows, batch_size=16), validation_data=(x[:40], y[:40]))\n"
    run = passes(tmp_path, HEAD + rows + fit).run
    assert run["batches"][0]["rows"] == 16


def test_nothing_of_the_callbacks_runs(tmp_path: Path) -> None:
    saves = 'model.fit(x, y, validation_split=0.2, callbacks=[keras.callbacks.ModelCheckpoint("kept.keras")])\n'
    passes(tmp_path, HEAD + saves)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


def test_a_batch_of_train_on_batch_is_measured_as_a_fit_of_one(tmp_path: Path) -> None:
    loop = "for start in range(0, 400, 40):\n    now = slice(start, start + 40)\n    "
    weighs = "model.train_on_batch(x[now], y[now], class_weight={0: 1.0, 1: 2.0, 2: 1.0})\n"
    probed = probe(tmp_path, HEAD + loop + weighs + 'model.save("kept.keras")\n')
    assert (probed.code, probed.run["trainer"], probed.run["call"]["line"]) == (0, "Model.train_on_batch", 13)
    assert {name: probed.stages[name] for name in PASSED} == {
        **dict.fromkeys(PASSED, "passed"),
        "dataset": "not reached",
        "evaluation": "not reached",
    }
    (batch,) = probed.run["batches"]
    weights = next(tensor for tensor in batch["tensors"] if tensor["name"] == "sample_weight")
    assert (batch["rows"], weights["minimum"], weights["maximum"]) == (40, 1.0, 2.0)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]


ROWS = """
class Rows(keras.utils.PyDataset):
    def __init__(self, start, end):
        super().__init__()
        self.start, self.end = start, end

    def __len__(self):
        return (self.end - self.start) // 20

    def __getitem__(self, number):
        now = slice(self.start + 20 * number, self.start + 20 * number + 20)
        return x[now], y[now]


class Training:
    def start(self):
        watches = [
            keras.callbacks.ModelCheckpoint("kept.keras", monitor="val_accuracy", save_best_only=True),
            keras.callbacks.EarlyStopping("val_acc"),
            keras.callbacks.TensorBoard("logs"),
            keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: logs.update(own=epoch)),
            keras.callbacks.ReduceLROnPlateau("own"),
        ]
        model.fit(Rows(0, 300), validation_data=Rows(300, 400), epochs=2, callbacks=watches)


Training().start()
"""


def test_data_that_gives_batches_and_names_that_callbacks_watch(tmp_path: Path) -> None:
    probed = probe(tmp_path, HEAD + ROWS)
    assert [(rule, outcome) for rule, _, outcome in probed.verdicts] == [("unavailable-monitor", "confirmed")]
    run = probed.run
    names = run["watched_names"]
    assert sorted(names["computed"]) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert (names["watched"], names["missing"]) == (["val_accuracy", "val_acc", "own"], ["val_acc"])
    assert (run["evaluation"]["rows"], run["evaluation"]["has_metric_function"]) == (0, True)
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
