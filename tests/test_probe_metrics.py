"""Probes of evaluations that no Trainer carries out: what metrics of libraries get and give in loops and Lightning."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lintrain.analysis.metric_verdicts import on_classes, on_scores, scored_ignored
from lintrain.evidence.run import EvaluationEvidence, Evidence, MetricUse, ModelEvidence, Stage, StageName
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rulebook import load_rules
from lintrain.runtime.child.frames import is_probes_own
from lintrain.runtime.frameworks.loop.metrics import MetricUses
from lintrain.runtime.parent.record import read_record
from lintrain.verdicts.judging import judge
from tests.support.probing import probe

EVIDENCE = "evidence.json"

HEAD = """
import torch
from accelerate import Accelerator
from sklearn.metrics import accuracy_score, f1_score
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
rows = TensorDataset(torch.randn(400, 6), torch.randint(3, (400,)))
held_out = TensorDataset(torch.randn(80, 6), torch.randint(3, (80,)))
model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
train_loader, eval_loader = DataLoader(rows, batch_size=8, shuffle=True), DataLoader(held_out, batch_size=8)
"""
LOOP = """
for epoch in range(3):
    model.train()
    for x, y in train_loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    model.eval()
    guessed, wanted = [], []
    with torch.no_grad():
        for x, y in eval_loader:
            guessed.append(model(x))
            wanted.append(y)
    classes = torch.cat(guessed).argmax(-1)
    print(accuracy_score(torch.cat(wanted), torch.cat(guessed)))
    print(f1_score(torch.cat(wanted), classes))
"""
ACCELERATED = LOOP.replace("loss.backward()", "accelerator.backward(loss)")
PREPARED = """
accelerator = Accelerator()
model, optimizer, train_loader, eval_loader = accelerator.prepare(model, optimizer, train_loader, eval_loader)
"""
MODULE = """
import lightning as L
from torchmetrics.classification import MulticlassAccuracy


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = model
        self.accuracy = MulticlassAccuracy(3)
        self.guessed, self.wanted = [], []

    def training_step(self, batch, index):
        return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

    def validation_step(self, batch, index):
        logits = self.layers(batch[0])
        self.accuracy(logits, batch[1])
        self.log("val_accuracy", self.accuracy)
        self.log("val_loss", nn.functional.cross_entropy(logits, batch[1]))
        self.guessed.append(logits.argmax(-1))
        self.wanted.append(batch[1])

    def on_validation_epoch_end(self):
        accuracy = accuracy_score(torch.cat(self.wanted), torch.cat(self.guessed))
        self.log("val_f1", f1_score(torch.cat(self.wanted), torch.cat(self.guessed), average="macro"))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


L.Trainer(max_epochs=2, logger=False, enable_checkpointing=False).fit(Net(), train_loader, eval_loader)
"""
HERE = Location("train.py", 3, 1, 3, 9)


def line_of(script: str, text: str) -> int:
    return next(number for number, line in enumerate(script.splitlines(), start=1) if text in line)


def evidence_in(folder: Path) -> Evidence:
    (run,) = read_record(folder / EVIDENCE).runs
    return run


def planted(rule: str, script: str, text: str, evidence: Evidence) -> Verdict:
    """What evidence says of a rule's finding on a line of a script that has no such mistake."""
    line = line_of(script, text)
    finding = Finding(rule, Level.ERROR, Location("train.py", line, 1, line, 99), "`x` is planted")
    return judge([evidence], [finding], [each for each in load_rules() if each.name == rule])[0][1]


@pytest.mark.usefixtures("warm")
def test_logits_that_a_loop_gives_to_a_metric_are_confirmed(tmp_path: Path) -> None:
    script = HEAD + LOOP
    probed = probe(tmp_path, script)
    line = line_of(script, "print(accuracy_score")
    assert (probed.code, probed.verdicts) == (1, [("logits-in-metric", line, "confirmed")])
    assert probed.document["findings"][0]["verdict"]["measured"] == {"shape": [16, 3]}
    evaluation = probed.run["evaluation"]
    assert (evaluation["batches"], evaluation["rows"], evaluation["passes"]) == (2, 16, 2)
    assert (evaluation["passes_in_training_mode"], evaluation["recorded_passes"]) == (0, 0)
    assert evaluation["predictions_shape"] == [8, 3]


@pytest.mark.usefixtures("warm")
def test_classes_that_an_accelerated_loop_gives_to_a_metric_of_two_are_confirmed(tmp_path: Path) -> None:
    script = HEAD + PREPARED + ACCELERATED.replace("torch.cat(guessed)))", "classes))")
    probed = probe(tmp_path, script, "--evidence", EVIDENCE)
    line = line_of(script, "print(f1_score")
    assert (probed.code, probed.verdicts) == (1, [("binary-average", line, "confirmed")])
    mended = planted("logits-in-metric", script, "print(accuracy_score", evidence_in(tmp_path))
    assert mended == (Verdict(Outcome.REFUTED, mended.reason, {"shape": [16]}))
    assert mended.reason == "`accuracy_score` received predictions of shape [16] (int64) in 1 call"


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_metrics_in_the_validation_of_lightning_are_followed(tmp_path: Path) -> None:
    script = HEAD + MODULE
    probed = probe(tmp_path, script, "--evidence", EVIDENCE)
    assert (probed.code, probed.verdicts) == (0, [])
    evidence = evidence_in(tmp_path)
    evaluation = evidence.evaluation
    assert evaluation is not None
    assert (evaluation.batches, evaluation.rows, evaluation.passes, len(evaluation.losses)) == (2, 16, 2, 2)
    assert {"val_accuracy", "val_f1", "val_loss"} <= set(evaluation.metrics)
    assert evaluation.metric_uses[0].function == "MulticlassAccuracy"
    assert evaluation.metric_uses[0].predictions_shape == (8, 3)
    assert planted("logits-in-metric", script, "accuracy = accuracy_score", evidence).outcome is Outcome.REFUTED
    assert planted("binary-average", script, "f1_score(torch", evidence).outcome is Outcome.REFUTED
    assert planted("binary-average", script, "self.guessed.append", evidence).outcome is Outcome.INCONCLUSIVE


def agreement(y_true: object, y_pred: object) -> float:
    return float(y_true == y_pred)


def test_a_metric_that_is_called_wrongly_is_the_scripts_own_error() -> None:
    watch: Any = SimpleNamespace(is_on=True, optimizers=[1], is_evaluating=False, paused=nullcontext)
    watched = MetricUses(watch).watched("scikit-learn", agreement, "agreement")
    with pytest.raises(TypeError) as raised:
        watched([1, 2])
    assert not is_probes_own(raised.value)


SCORED = MetricUse("scikit-learn", "accuracy_score", (16, 3), "float32", (16,), "int64", 16, 3, 0, location=HERE)
RAISED = replace(SCORED, error="ValueError", message="Classification metrics can't handle a mix of multiclass and")
COMPARED = replace(SCORED, predictions_shape=(16,), predictions_dtype="int64", values={"": 0.25})
BINARY = replace(COMPARED, values={}, error="ValueError", message="Target is multiclass but average='binary'. Please")


@pytest.mark.parametrize(
    ("use", "outcome"),
    [
        (RAISED, Outcome.CONFIRMED),
        (replace(RAISED, message="Found array with 0 samples"), Outcome.INCONCLUSIVE),
        (replace(RAISED, predictions_shape=(16, 1)), Outcome.INCONCLUSIVE),  # one output is compared with a threshold
        (replace(RAISED, predictions_dtype="int64"), Outcome.INCONCLUSIVE),  # a table of labels, several for each row
        (COMPARED, Outcome.REFUTED),
        (replace(SCORED, values={"": 0.5}), Outcome.INCONCLUSIVE),  # this metric may take scores
        (MetricUse("evaluate", "bleu", location=HERE), Outcome.INCONCLUSIVE),
    ],
)
def test_scores_are_confirmed_only_where_the_metric_raises_for_them(use: MetricUse, outcome: Outcome) -> None:
    assert on_scores(use).outcome is outcome


@pytest.mark.parametrize(
    ("use", "outcome"),
    [
        (BINARY, Outcome.CONFIRMED),
        (replace(BINARY, classes=2), Outcome.INCONCLUSIVE),
        (replace(BINARY, classes=None), Outcome.INCONCLUSIVE),
        (replace(BINARY, message="y_true and y_pred have different lengths"), Outcome.INCONCLUSIVE),
        (COMPARED, Outcome.REFUTED),
        (replace(COMPARED, classes=2), Outcome.INCONCLUSIVE),
        (replace(COMPARED, values={}), Outcome.INCONCLUSIVE),
    ],
)
def test_classes_are_confirmed_only_where_the_metric_of_two_raises_for_them(use: MetricUse, outcome: Outcome) -> None:
    assert on_classes(use).outcome is outcome


@pytest.mark.parametrize(
    ("use", "locations"),
    [
        (replace(COMPARED, ignored=4), [HERE]),
        (COMPARED, []),
        (replace(COMPARED, ignored=4, options=("labels",)), []),
        (replace(COMPARED, ignored=4, options=("sample_weight",)), []),
        (replace(COMPARED, ignored=4, values={}), []),  # a number for each class: those of -100 may be left out later
        (replace(COMPARED, ignored=4, function="confusion_matrix"), []),
        (replace(COMPARED, ignored=4, library="torchmetrics"), []),
        (replace(COMPARED, ignored=4, error="ValueError", values={}), []),
    ],
)
def test_labels_of_minus_100_are_confirmed_where_they_are_scored(use: MetricUse, locations: list[Location]) -> None:
    evaluation = EvaluationEvidence(True, has_metric_function=False, is_followed=True, metric_uses=(use,))
    evidence = Evidence("train.py", "torch", "a loop", HERE, None, "cpu", {}, evaluation=evaluation)
    found = list(scored_ignored(evidence))
    assert [location for location, _, _ in found] == locations
    assert all(verdict.outcome is Outcome.CONFIRMED and verdict.measured == {"ignored": 4} for _, _, verdict in found)


@pytest.mark.parametrize("rule", ["missing-best-metric", "unset-label-names", "non-dict-metrics", "tuple-predictions"])
def test_findings_about_a_trainers_metric_function_stay_unsettled_where_a_loop_was_followed(rule: str) -> None:
    evaluation = EvaluationEvidence(True, has_metric_function=False, is_followed=True, rows=16, batches=2)
    model = ModelEvidence("Net", ("x",), (), "", None, (), None, False, False, 64, 64, True, True, "cpu")
    stages = (Stage.passed(StageName.EVALUATION),)
    evidence = Evidence("train.py", "torch", "a loop", HERE, None, "cpu", {}, stages, model=model)
    evidence = replace(evidence, evaluation=evaluation)
    finding = Finding(rule, Level.ERROR, HERE, "`x` is planted")
    judged = judge([evidence], [finding], [each for each in load_rules() if each.name == rule])
    assert [verdict.outcome for _, verdict in judged] == [Outcome.INCONCLUSIVE]
    assert judged[0][1].reason == "the evaluation stage passed and does not show it"
