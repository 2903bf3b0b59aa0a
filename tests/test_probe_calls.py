"""A probe follows a script through its training calls: each has stages and verdicts of its own."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from lintrain.model.location import Location
from lintrain.runtime.child.following import MOST_CALLS, Following, is_about_names
from tests.support.probing import HEAD, MENDED, REST, Probed, probe

MODEL, TRAINER = REST.split("args = ")
FOLDS = f"""{HEAD}{MODEL}
scores = []
for fold in range(2):
    args = {TRAINER.replace(chr(10), chr(10) + "    ").rstrip()}
    result = trainer.train()
    assert result.training_loss > 0 and result.global_step == trainer.state.global_step == 180
    scores.append(trainer.evaluate()["eval_accuracy"])
    predicted = trainer.predict(tokenized["validation_matched"]).predictions
    assert predicted.shape == (96, 3)
"""
SECOND = """
second = Trainer(model, TrainingArguments("second", learning_rate=2e-5), train_dataset=tokenized["train"])
second.train()
"""
LIGHTNING = """
import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

class Net(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
    def training_step(self, batch, index):
        rows, labels = batch
        return nn.functional.cross_entropy(self.layer(rows), labels)
    def test_step(self, batch, index):
        self.log("loss", nn.functional.cross_entropy(self.layer(batch[0]), batch[1]))
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01)

loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(0, 2, (64,))), batch_size=8, shuffle=True)
for fold in range(2):
    trainer = lightning.Trainer(max_epochs=1, limit_val_batches=0)
    trainer.fit(Net(), loader)
    assert "loss" in trainer.test(dataloaders=loader)[0]
"""
KERAS = """
import keras
import numpy as np

rows, labels = np.random.rand(64, 4), np.random.randint(0, 3, 64)
others = np.random.rand(16, 4), np.random.randint(0, 3, 16)
for fold in range(2):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="softmax")])
    model.compile(optimizer="adam", loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    history = model.fit(rows, labels, validation_data=others, batch_size=8, epochs=3, verbose=0)
    assert len(history.history["val_accuracy"]) == 3
    model.evaluate(*others, verbose=0)
"""


@pytest.fixture
def folder(tmp_path: Path, assets: Path, warm: None) -> Path:
    return tmp_path


def runs_of(probed: Probed) -> list[dict[str, Any]]:
    return list(probed.document["probe"]["runs"])


def failed_in(run: dict[str, Any]) -> list[str]:
    return [stage["name"] for stage in run["stages"] if stage["status"] == "failed"]


def test_every_fold_is_a_run_of_its_own(folder: Path) -> None:
    probed = probe(folder, FOLDS)
    runs = runs_of(probed)
    assert [run["call_number"] for run in runs] == [1, 2]
    assert [run["evaluation"]["metric_function_called"] for run in runs] == [True, True]
    assert [failed_in(run) for run in runs] == [[], []]
    assert (probed.code, probed.verdicts) == (0, [])


@pytest.mark.parametrize("script", [LIGHTNING, KERAS], ids=["lightning", "keras"])
def test_folds_of_other_frameworks_are_runs_too(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    probed = probe(folder, script)
    runs = runs_of(probed)
    assert [run["call_number"] for run in runs] == [1, 2]
    assert [stage["status"] for run in runs for stage in run["stages"] if stage["name"] == "step"] == ["passed"] * 2
    assert not any("ended after" in note for run in runs for note in run["notes"])
    assert probed.code == 0


def test_a_mistake_of_the_second_trainer_is_confirmed_in_its_call(folder: Path) -> None:
    probed = probe(folder, MENDED + SECOND)
    line = MENDED.count("\n") + 2
    assert probed.verdicts == [("unpadded-batch", line, "confirmed")]
    [finding] = probed.document["findings"]
    assert finding["verdict"]["reason"].endswith("(in training call 2)")
    assert [(run["call_number"], failed_in(run)) for run in runs_of(probed)] == [(1, []), (2, ["batch"]), (2, [])]
    assert probed.code == 1


def test_a_wrong_argument_of_the_second_trainer_is_confirmed(folder: Path) -> None:
    probed = probe(folder, MENDED + SECOND.replace('"second",', '"second", warmup_stepz=3,'))
    assert ("unknown-argument", MENDED.count("\n") + 2, "confirmed") in probed.verdicts


def test_an_error_that_a_shortened_training_may_cause_is_no_failure_of_the_script(folder: Path) -> None:
    after = "assert trainer.state.best_metric > 0.9\nsecond = Trainer(model, args)\nsecond.train()\n"
    probed = probe(folder, MENDED + after)
    [run] = runs_of(probed)
    assert failed_in(run) == []
    assert any("the script ended after its measured training with TypeError" in note for note in run["notes"])
    assert probed.code == 0


def test_a_script_that_trains_once_ends_at_its_call(folder: Path) -> None:
    probed = probe(folder, MENDED + "open('reached', 'w').close()\nraise SystemExit('reached the end')\n")
    assert len(runs_of(probed)) == 1
    assert not any("ended after" in note for note in probed.run["notes"])


def test_calls_are_followed_within_a_number_and_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    following, call = Following(), Location("train.py", 3, 1, 3, 9)
    for number in range(1, MOST_CALLS + 1):
        assert following.number == number
        assert following.enter(call)
        is_last = number == MOST_CALLS
        assert following.has_room() is not is_last
        if not is_last:
            following.leave(lambda: None)
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now + 1_000)
    following.number = 2
    assert not following.has_room()


def test_a_call_that_was_measured_is_not_measured_again_when_the_script_begins_again() -> None:
    following, call = Following(), Location("train.py", 3, 1, 3, 9)
    assert following.enter(call)
    following.leave(lambda: None)
    following.start_over(measures_again=False)
    assert [following.enter(call), following.enter(call)] == [False, True]
    following.start_over(measures_again=True)
    assert following.enter(call)


@pytest.mark.parametrize(
    ("error", "is_named"),
    [
        (NameError("name 'x' is not defined"), True),
        (TypeError("f() got an unexpected keyword argument 'x'"), True),
        (ImportError("cannot import name 'x'"), True),
        (UnboundLocalError("x"), False),
        (TypeError("unsupported operand"), False),
        (ValueError("x"), False),
    ],
)
def test_only_errors_about_names_count_after_a_shortened_training(error: Exception, is_named: bool) -> None:
    assert is_about_names(error) is is_named


LOOPS = """
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows, labels = torch.randn(256, 10), torch.randint(0, 3, (256,))
loader = DataLoader(TensorDataset(rows, labels), batch_size=32, shuffle=True)
"""
STAGES = f"""{LOOPS}
encoder, decoder = nn.Sequential(nn.Linear(10, 16), nn.ReLU()), nn.Linear(16, 10)

def pretrain(epochs):
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-3)
    for epoch in range(epochs):
        for x, _ in loader:
            optimizer.zero_grad()
            F.mse_loss(decoder(encoder(x)), x).backward()
            optimizer.step()

def tune(epochs):
    net = nn.Sequential(encoder, nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for epoch in range(epochs):
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()

pretrain(20)
tune(20)
"""
GAN = f"""{LOOPS}
maker, judge = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 10)), nn.Linear(10, 1)
of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
of_maker = torch.optim.Adam(maker.parameters(), lr=1e-3)
for epoch in range(4):
    for x, _ in loader:
        made = maker(torch.randn(len(x), 4))
        of_judge.zero_grad()
        (F.softplus(-judge(x)).mean() + F.softplus(judge(made.detach())).mean()).backward()
        of_judge.step()
        of_maker.zero_grad()
        F.softplus(-judge(made)).mean().backward()
        of_maker.step()
"""
KFOLD = f"""{LOOPS}
for fold in range(3):
    held_out = torch.arange(256) % 3 == fold
    net = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    part = DataLoader(TensorDataset(rows[~held_out], labels[~held_out]), batch_size=32, shuffle=True)
    for epoch in range(3):
        net.train()
        for x, y in part:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            print((net(rows[held_out]).argmax(1) == labels[held_out]).float().mean())
"""
ONE_LOOP = """
net = nn.Linear(10, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in loader:
    optimizer.zero_grad()
    F.cross_entropy(net(x), y).backward()
    optimizer.step()
"""
FEW_STEPS = f"""{LOOPS}
first, second = nn.Linear(10, 3), nn.Linear(10, 3)
for net, size in ((first, 128), (second, 64)):
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in DataLoader(TensorDataset(rows, labels), batch_size=size, shuffle=True):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("script", "calls"), [(STAGES, 2), (GAN, 2), (KFOLD, 3), (FEW_STEPS, 2)], ids=["stages", "gan", "folds", "short"]
)
def test_each_sound_loop_is_a_run_of_its_own(folder: Path, script: str, calls: int) -> None:
    probed = probe(folder, script)
    runs = runs_of(probed)
    assert [run["call_number"] for run in runs] == [*range(1, calls + 1)]
    assert [stage["status"] for run in runs for stage in run["stages"] if stage["name"] == "step"] == ["passed"] * calls
    assert not any("ended after" in note for run in runs for note in run["notes"])
    assert (probed.code, probed.verdicts) == (0, [])


def line_of(script: str, text: str) -> int:
    return script[: script.index(text)].count("\n") + 1


MISTAKES = [
    (STAGES, "F.cross_entropy(net(x), y)", "F.cross_entropy(net(x).softmax(1), y)", "softmax-before-cross-entropy"),
    (STAGES, "= torch.optim.Adam(net.parameters()", "= torch.optim.Adam(net[0].parameters()", "unchanged-parameters"),
    (GAN, "of_maker.zero_grad()\n        F.softplus(-judge(made))", "F.softplus(-judge(made))", "missing-zero-grad"),
    (KFOLD, "net.eval()\n        with torch.no_grad():\n            print((net(", "print((net(", "train-mode-in-eval"),
]


@pytest.mark.parametrize(("script", "sound", "planted", "rule"), MISTAKES, ids=[each[-1] for each in MISTAKES])
def test_a_mistake_of_a_later_loop_is_confirmed(folder: Path, script: str, sound: str, planted: str, rule: str) -> None:
    wrong = script.replace(sound, planted)
    assert wrong != script
    probed = probe(folder, wrong)
    assert (rule, line_of(wrong, planted), "confirmed") in probed.verdicts
    assert probed.code == 1


def test_an_error_of_the_second_loop_is_one_of_its_stages(folder: Path) -> None:
    probed = probe(folder, STAGES.replace("nn.Linear(16, 3))", "nn.Linear(15, 3))"))
    assert [(run["call_number"], failed_in(run)) for run in runs_of(probed)] == [(1, []), (2, ["forward"])]
    assert probed.code == 1


def test_a_loop_before_a_trainer_is_a_run_of_its_own(folder: Path) -> None:
    probed = probe(folder, LOOPS + ONE_LOOP + MENDED)
    assert [(run["call_number"], run["framework"]) for run in runs_of(probed)] == [(1, "torch"), (2, "transformers")]
    assert probed.code == 0
