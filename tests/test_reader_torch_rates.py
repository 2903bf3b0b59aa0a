"""Learning rates and devices: where the rules find them wrong, and where they cannot know and are silent."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.run import Evidence, ForwardEvidence, ModelEvidence, OverfitEvidence
from lintrain.model.finding import Finding
from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules
from tests.support.loops import lines_of, pipeline_of

IMPORTS = """\
from transformers import AutoModel, AutoModelForImageClassification, AutoModelForSeq2SeqLM
from transformers import AutoModelForSequenceClassification as Classifier, Trainer, TrainingArguments
"""
BERT = IMPORTS + "model = Classifier.from_pretrained('bert-base-uncased', num_labels=3)\n"


def of(name: str) -> str:
    return IMPORTS + f"model = Classifier.from_pretrained('{name}', num_labels=3)\n"


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        (BERT + "optimizer = optim.Adam(model.parameters())\n", [4]),
        (BERT + "optimizer = optim.AdamW(model.parameters(), lr=5e-4)\n", [4]),
        (of("roberta-large") + "optimizer = optim.AdamW(model.parameters(), lr=1e-4)\n", [4]),
        (of("roberta-large") + "optimizer = optim.AdamW(model.parameters(), lr=5e-5)\n", []),
        (BERT + "trainer = Trainer(model, TrainingArguments('out', learning_rate=2e-3))\n", [4]),
        (BERT + "optimizer = optim.AdamW(model.parameters(), lr=3e-5)\n", []),
        (BERT + "optimizer = optim.SGD(model.parameters(), lr=0.01)\n", []),
        (BERT + "optimizer = optim.AdamW(model.parameters(), lr=rate)\n", []),
        (BERT + "optimizer = optim.AdamW(model.classifier.parameters(), lr=1e-3)\n", []),
        (BERT + "optimizer = optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)\n", []),
        (
            BERT + "for p in model.bert.parameters():\n    p.requires_grad = False\n"
            "optimizer = optim.AdamW(model.parameters(), lr=1e-3)\n",
            [],
        ),
        (
            BERT + "optimizer = optim.AdamW(model.parameters())\nfor group in optimizer.param_groups:\n"
            "    group['lr'] = 2e-5\n",
            [],
        ),
        (
            BERT + "optimizer = optim.AdamW(model.parameters())\n"
            "schedule = optim.lr_scheduler.OneCycleLR(optimizer, 2e-5, 100)\n",
            [],
        ),
        (BERT + "trainer = Trainer(model, TrainingArguments('out'))\n", []),
        (BERT + "trainer = Trainer(model, TrainingArguments('out', learning_rate=1e-3, optim='adafactor'))\n", []),
        (of("prajjwal1/bert-tiny") + "optimizer = optim.AdamW(model.parameters())\n", []),
        (
            IMPORTS + "model = AutoModelForSeq2SeqLM.from_pretrained('t5-base')\n"
            "optimizer = optim.AdamW(model.parameters(), lr=1e-3)\n",
            [],
        ),
        (
            IMPORTS + "model = AutoModelForImageClassification.from_pretrained('google/vit-base-patch16-224')\n"
            "optimizer = optim.AdamW(model.parameters(), lr=1e-3)\n",
            [],
        ),
        (IMPORTS + "model = Classifier.from_config(config)\noptimizer = optim.AdamW(model.parameters())\n", []),
        (
            BERT + "from argparse import ArgumentParser\nparser = ArgumentParser()\n"
            "parser.add_argument('--lr', type=float, default=1e-3)\n"
            "optimizer = optim.AdamW(model.parameters(), lr=parser.parse_args().lr)\n",
            [7],
        ),
    ],
)
def test_learning_rates_are_judged_only_where_they_are_certain(code: str, lines: list[int]) -> None:
    assert lines_of("high-learning-rate", code) == lines


def claim() -> tuple[Finding, Evidence]:
    rule = next(each.rule for each in load_rules() if each.name == "high-learning-rate")
    code = BERT + "trainer = Trainer(model, TrainingArguments('out', learning_rate=2e-3))\n"
    (finding,) = rule.check(pipeline_of(code))
    return finding, Evidence("train.py", "transformers", "Trainer", None, None, "cpu", {})


@pytest.mark.parametrize(
    ("overfit", "outcome"),
    [
        (None, Outcome.INCONCLUSIVE),
        (OverfitEvidence(20, (1.1, 1.2), (), 2e-3, predicted_classes=1, batch_classes=3), Outcome.CONFIRMED),
        (OverfitEvidence(20, (1.1, 0.1), (), 2e-3, predicted_classes=3, batch_classes=3), Outcome.REFUTED),
        (OverfitEvidence(20, (1.1, 0.8), (), 2e-3, predicted_classes=2, batch_classes=3), Outcome.INCONCLUSIVE),
        (OverfitEvidence(20, (1.1, 1.2), (), 5e-5, predicted_classes=1, batch_classes=3), Outcome.REFUTED),
        (OverfitEvidence(20, (1.1, 1.2), (), 2e-3, losses_at_a_tenth=(1.1, 0.2)), Outcome.CONFIRMED),
        (OverfitEvidence(20, (1.1, float("nan")), (), 2e-3, losses_at_a_tenth=(1.1, 0.2)), Outcome.CONFIRMED),
        (OverfitEvidence(20, (1.1, 1.2), (), 2e-3, 1, 3, losses_at_a_tenth=(1.1, 1.1)), Outcome.INCONCLUSIVE),
        (OverfitEvidence(20, (1.1, 9.0, 1.2), (), 2e-3, 1, 3, losses_at_a_tenth=(1.1, 1.2)), Outcome.CONFIRMED),
        (OverfitEvidence(20, (-1.1, 1.2), (), 2e-3, losses_at_a_tenth=(1.1, 0.2)), Outcome.INCONCLUSIVE),
    ],
)
def test_a_high_learning_rate_is_judged_by_what_it_does_to_one_batch(
    overfit: OverfitEvidence | None, outcome: Outcome
) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "high-learning-rate")
    finding, evidence = claim()
    assert rule.verify(finding, replace(evidence, overfit=overfit)).outcome is outcome


BATCH = ModelEvidence("Net", (), (), "", None, (), None, False, False, 10, 10, True, False, "cpu")


def flat(last: float, at_ten_times: float, rate: float, with_new_adam: float | None = None) -> OverfitEvidence:
    """What a batch gives at three rates that do not learn it, and with a new optimizer."""
    fresh = () if with_new_adam is None else (1.0, with_new_adam)
    return OverfitEvidence(
        20,
        (1.0, last),
        (1.0, at_ten_times),
        rate,
        losses_at_a_tenth=(1.0, 1.0),
        fresh_rate=1e-3 if fresh else None,
        losses_of_fresh=fresh,
    )


@pytest.mark.parametrize(
    ("framework", "overfit", "outcome"),
    [
        ("transformers", flat(0.99, 0.97, 1e-4, 0.98), "confirmed"),
        ("transformers", flat(0.99, 0.97, 1e-4, 0.4), "refuted"),
        ("transformers", flat(0.99, 0.97, 1e-4), "inconclusive"),
        ("torch", flat(0.99, 0.97, 1e-4, 0.99), "inconclusive"),
        ("torch", flat(1.0, 1.0, 1e-9, 1.0), "confirmed"),
        ("torch", flat(1.0, 1.0, 2e-5, 0.3), "refuted"),
        ("torch", OverfitEvidence(20, (1.0, 3.0), (1.0, 9.0), 1e-1, losses_at_a_tenth=(1.0, 0.1)), "refuted"),
        ("torch", OverfitEvidence(20, (0.0, 0.0), (0.0, 0.0), 1e-3), "inconclusive"),
    ],
)
def test_a_batch_is_learnt_by_heart_at_one_of_three_rates(
    framework: str, overfit: OverfitEvidence, outcome: str
) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "cannot-overfit-batch")
    finding, evidence = claim()
    measured = replace(evidence, framework=framework, overfit=overfit, model=BATCH)
    assert rule.verify(finding, measured).outcome == Outcome(outcome)


@pytest.mark.parametrize(
    ("last", "at_ten_times", "reason"),
    [
        (1.95, 1.0, "after 20 steps, the loss is 98% of the initial 2, 50% at ten times the learning rate"),
        (
            1.4e15,
            float("inf"),
            "after 20 steps, the loss is 7e+14 times the initial 2, infinity at ten times the learning rate;"
            " 0 other optimizers were tried",
        ),
        (
            float("nan"),
            float("nan"),
            "after 20 steps, the loss is NaN, initially 2, NaN at ten times the learning rate",
        ),
    ],
)
def test_a_diverged_loss_is_no_share_in_percent(last: float, at_ten_times: float, reason: str) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "cannot-overfit-batch")
    finding, evidence = claim()
    overfit = OverfitEvidence(20, (2.0, last), (2.0, at_ten_times), 1e-3)
    assert rule.verify(finding, replace(evidence, overfit=overfit, model=BATCH)).reason == reason


@pytest.mark.parametrize(
    ("is_input_bad", "reason"),
    [
        (False, "1 of 1 losses are not finite; first in the output of `head`, whose input is finite (-2.3 to 0.0951)"),
        (
            True,
            "1 of 1 losses are not finite; first in the output of `head`, whose input is not finite either "
            "(-2.3 to 0.0951 apart from that)",
        ),
    ],
)
def test_the_range_of_a_bad_input_is_that_of_its_finite_values(*, is_input_bad: bool, reason: str) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "nan-loss")
    finding, evidence = claim()
    forward = ForwardEvidence(
        (float("nan"),),
        None,
        finite=False,
        first_non_finite="head",
        first_non_finite_input=is_input_bad,
        first_non_finite_range=(-2.3, 0.0951),
    )
    assert rule.verify(finding, replace(evidence, forward=forward)).reason == reason


ON_DEVICE = "AutoModel.from_pretrained('bert-base-uncased')"
TRAINS = "optimizer = optim.AdamW(model.parameters(), lr=2e-5)\n"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        (f"old = {ON_DEVICE}.cuda()\nold(x)\nmodel = {ON_DEVICE}.cuda()\n" + TRAINS, True),
        (f"old = {ON_DEVICE}.to('cpu')\nold(x)\nmodel = {ON_DEVICE}.cuda()\n" + TRAINS, False),
        (f"old = {ON_DEVICE}.cuda()\nold(x)\nold.cpu()\nmodel = {ON_DEVICE}.cuda()\n" + TRAINS, False),
        (f"old = {ON_DEVICE}.cuda()\nmodel = {ON_DEVICE}.cuda()\n" + TRAINS + "old(x)\n", False),
        (f"old = {ON_DEVICE}.cuda()\nkeep(old)\nmodel = {ON_DEVICE}.cuda()\n" + TRAINS, False),
        (f"model = {ON_DEVICE}.cuda()\nmodel(x)\nmodel = {ON_DEVICE}.cuda()\n" + TRAINS, False),
        (f"old = {ON_DEVICE}.to(where)\nold(x)\nmodel = {ON_DEVICE}.to(where)\n" + TRAINS, False),
        (f"for name in names:\n    model = {ON_DEVICE}.cuda()\n    model(x)\n", True),
        (f"for name in names:\n    models.append({ON_DEVICE}.cuda())\n", False),
        (f"for name in names:\n    model = {ON_DEVICE}.cuda()\n    model = None\n", False),
        (f"for name in names:\n    model = {ON_DEVICE}.cuda()\n    models.append(model)\n", False),
    ],
)
def test_models_left_on_the_device_are_found_where_nothing_uses_them(code: str, found: bool) -> None:
    assert bool(lines_of("two-models-on-device", IMPORTS + code)) is found
