"""What the reader makes of predictions: from the model through arrays and metric functions to the metrics."""

from __future__ import annotations

from textwrap import dedent

import pytest

from lintrain.knowledge.versions import TargetVersions
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Role, Tensor
from lintrain.pipeline.values.training import Metric, MetricCall
from lintrain.read import read_pipeline
from lintrain.source.source import Source

SCRIPT = """
import evaluate
import numpy as np
import torch
from scipy.special import softmax
from sklearn.metrics import accuracy_score, precision_recall_fscore_support, roc_auc_score
from transformers import AutoModelForSeq2SeqLM, AutoModelForSequenceClassification
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

plain = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", num_labels=3)
talkative = AutoModelForSequenceClassification.from_pretrained("bert-base-uncased", output_hidden_states=True)
writer = AutoModelForSeq2SeqLM.from_pretrained("t5-small")
accuracy = evaluate.load("accuracy")
"""


def read(code: str) -> Pipeline:
    return read_pipeline(Source("script.py", SCRIPT + dedent(code)), TargetVersions())


def judged(body: str, trainer: str = "Trainer(plain, compute_metrics=judge)") -> Role | None:
    """What the metric is given as predictions, when the function's body calls the prediction `p`."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    (call,) = read(f"def judge(p):\n{lines}\n{trainer}\n").metric_calls
    return role_of(call)


def role_of(call: MetricCall) -> Role | None:
    value = call.predictions.value if call.predictions else None
    return value.role if isinstance(value, Tensor) else None


@pytest.mark.parametrize(
    ("body", "role"),
    [
        ("logits, labels = p\naccuracy.compute(predictions=logits, references=labels)", Role.LOGITS),
        ("accuracy_score(p.label_ids, p.predictions)", Role.LOGITS),
        ("accuracy_score(p[1], np.squeeze(np.array(p[0])))", Role.LOGITS),
        ("accuracy_score(p.label_ids, np.argmax(p.predictions, axis=1))", Role.CLASSES),
        ("accuracy_score(p.label_ids, p.predictions.argmax(-1))", Role.CLASSES),
        ("accuracy_score(p.label_ids, torch.tensor(p.predictions).argmax(dim=-1).numpy())", Role.CLASSES),
        ("accuracy_score(p.label_ids, softmax(p.predictions, axis=1))", Role.PROBABILITIES),
        ("accuracy_score(p.label_ids, p.predictions > 0.5)", Role.CLASSES),
        ("accuracy_score(p.label_ids, np.where(p.predictions > 0.5, 1, 0))", Role.CLASSES),
        ("accuracy_score(p.label_ids, np.round(p.predictions))", Role.CLASSES),
        ("accuracy_score(p.label_ids, p.predictions[p.label_ids != -100])", Role.LOGITS),
        ("accuracy_score(p.label_ids, p.predictions[:, 1])", Role.SCORES),
        ("accuracy_score(p.label_ids, [row.argmax() for row in p.predictions])", None),
        ("accuracy_score(p.label_ids, decode(p.predictions))", None),
    ],
)
def test_predictions_are_followed_to_the_metric(body: str, role: Role | None) -> None:
    assert judged(body) == role


def test_either_branch_of_a_metric_function_makes_it_uncertain() -> None:
    assert (
        judged("preds = np.squeeze(p[0]) if regression else np.argmax(p[0], -1)\naccuracy_score(p[1], preds)") is None
    )


def test_what_is_chosen_before_the_metric_function_is_what_it_gets() -> None:
    trainer = "Trainer(plain, compute_metrics=judge, preprocess_logits_for_metrics=lambda x, y: x.argmax(-1))"
    assert judged("accuracy_score(p.label_ids, p.predictions)", trainer) is Role.CLASSES


def test_a_guard_against_tuples_takes_the_logits_out() -> None:
    body = "x = p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions\naccuracy_score(p.label_ids, x)"
    assert judged(body, "Trainer(talkative, compute_metrics=judge)") is Role.LOGITS
    assert judged(body, "Trainer(plain, compute_metrics=judge)") is Role.LOGITS


@pytest.mark.parametrize("model", ["talkative", "writer"])
def test_an_argmax_over_the_tuple_of_a_models_outputs_is_a_misuse(model: str) -> None:
    pipeline = read(f"def judge(p):\n    return np.argmax(p.predictions, -1)\nTrainer({model}, compute_metrics=judge)")
    assert [(misuse.use, misuse.text) for misuse in pipeline.misuses] == [("argmax", "p.predictions")]


@pytest.mark.parametrize(
    "trainer",
    [
        "Trainer(unknown, compute_metrics=judge)",
        "Trainer(AutoModelForSequenceClassification.from_pretrained('x', **more), compute_metrics=judge)",
        "Seq2SeqTrainer(writer, arguments, compute_metrics=judge)",
    ],
)
def test_predictions_of_what_is_not_understood_are_unknown(trainer: str) -> None:
    assert judged("accuracy_score(p.label_ids, p.predictions)", trainer) is None


def test_generated_predictions_are_tokens() -> None:
    trainer = "Seq2SeqTrainer(writer, Seq2SeqTrainingArguments('x', predict_with_generate=True), compute_metrics=judge)"
    assert judged("accuracy_score(p.label_ids, p.predictions)", trainer) is Role.TOKENS


@pytest.mark.parametrize(
    ("returned", "role"),
    [("(loss, outputs) if return_outputs else loss", Role.LOGITS), ("(loss, {'scores': 1})", None)],
)
def test_a_trainers_own_loss_decides_what_its_predictions_are(returned: str, role: Role | None) -> None:
    pipeline = read(f"""
        class Weighted(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                outputs = model(**inputs)
                loss = weigh(outputs.logits)
                return {returned}
        def judge(p):
            return accuracy.compute(predictions=p.predictions, references=p.label_ids)
        Weighted(plain, compute_metrics=judge)
    """)
    assert [role_of(call) for call in pipeline.metric_calls] == [role]


def test_the_result_of_predict_holds_predictions_and_labels() -> None:
    (call,) = read("""
        predictions, labels, metrics = Trainer(plain).predict(rows)
        accuracy_score(labels, predictions)
    """).metric_calls
    assert role_of(call) is Role.LOGITS


def test_logits_of_a_plain_loop_reach_the_metric() -> None:
    (call,) = read("""
        for batch in loader:
            outputs = plain(**batch)
            accuracy.add_batch(predictions=outputs.logits, references=batch["labels"])
    """).metric_calls
    assert role_of(call) is Role.LOGITS


@pytest.mark.parametrize(
    ("load", "wants_classes"),
    [
        ('evaluate.load("f1")', True),
        ('evaluate.load("glue", "mnli")', True),
        ('evaluate.load("glue", "stsb")', False),
        ('evaluate.load("glue", task)', None),
        ('evaluate.load("mse")', None),
        ("evaluate.load(name)", None),
        ('evaluate.combine(["accuracy", "f1"])', True),
        ('evaluate.combine(["accuracy", "rouge"])', None),
    ],
)
def test_a_metric_tells_whether_it_wants_classes(load: str, wants_classes: bool | None) -> None:
    assert read(f"metric = {load}").metrics[1].takes_classes is wants_classes


def test_a_metric_function_of_scikit_learn_tells_the_same_and_may_be_unpacked() -> None:
    pipeline = read("""
        precision, recall, f1, _ = precision_recall_fscore_support(truth, classes)
        roc_auc_score(truth, y_score=scores)
    """)
    metrics: list[Metric] = [call.metric for call in pipeline.metric_calls]
    assert [(metric.name, metric.takes_classes) for metric in metrics] == [
        ("precision_recall_fscore_support", True),
        ("roc_auc_score", False),
    ]


def test_a_metric_taken_for_a_data_set_is_a_misuse() -> None:
    pipeline = read('accuracy["train"]\naccuracy.map(print)')
    assert [misuse.use for misuse in pipeline.misuses] == ["subscript", "map"]


@pytest.mark.parametrize(
    ("body", "count"),
    [
        ("(p.predictions.argmax(-1) == p.label_ids).mean()", 1),
        ("float(np.mean(p.label_ids == np.argmax(p.predictions, -1)))", 1),
        ("hits = p.predictions.argmax(-1) == p.label_ids\nhits[p.label_ids != -100].mean()", 0),
        ("hits = p.predictions.argmax(-1) == p.label_ids\n(hits * (p.label_ids != -100)).mean()", 0),
        ("hits = p.predictions.argmax(-1) == p.label_ids\nhits.sum() / 3", 0),
        ("labels = np.where(p.label_ids == -100, 0, p.label_ids)\n(p.predictions.argmax(-1) == labels).mean()", 0),
        ("kept = p.label_ids != -100\n(p.predictions.argmax(-1)[kept] == p.label_ids[kept]).mean()", 0),
        ("kept = p.label_ids != -100\nkept.mean()", 0),
    ],
)
def test_a_mean_over_all_hits_is_one_over_labels_that_are_left_out_too(body: str, count: int) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    misuses = read(f"def judge(p):\n{lines}\nTrainer(plain, compute_metrics=judge)\n").misuses
    assert [misuse.use for misuse in misuses if misuse.use == "mean of hits"] == ["mean of hits"] * count


def test_the_own_loss_of_a_trainer_is_evaluated_with_autograd_off() -> None:
    pipeline = read("""
        class Focal(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(**inputs)
                return (outputs.loss, outputs) if return_outputs else outputs.loss


        def judge(p):
            return accuracy.compute(predictions=p.predictions.argmax(-1), references=p.label_ids)


        Focal(plain, compute_metrics=judge).evaluate()
    """)
    assert [each.without_grad for each in pipeline.acts(Act.FORWARD)] == [True]
