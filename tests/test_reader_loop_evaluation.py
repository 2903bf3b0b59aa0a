"""Evaluation with autograd on: found where nobody can have turned it off, left alone elsewhere."""

from __future__ import annotations

import pytest

from tests.support.loops import MADE, fixes_of, lines_of, related_of

PLAIN = MADE + "net.eval()\n{before}for x, y in val_loader:\n    {body}\n"
LEVELS = {"kept.append(net(x))": 1, "kept.append(net(x).detach())": 1}


@pytest.mark.parametrize("body", LEVELS)
def test_an_evaluation_that_keeps_gradients_is_found(body: str) -> None:
    assert len(lines_of("missing-no-grad", PLAIN.format(before="", body=body))) == LEVELS[body]


def test_the_loop_around_the_evaluation_is_shown_and_wrapped() -> None:
    code = PLAIN.format(before="", body="kept.append(net(x))")
    assert related_of("missing-no-grad", code) == [(4, "evaluated here with autograd enabled")]
    (fix,) = fixes_of("missing-no-grad", code)
    assert fix.safe


@pytest.mark.parametrize(
    "before",
    [
        "net.train()\n",
        # whose parameters are frozen is not known
        "frozen.requires_grad_(False)\nnet.requires_grad_(False)\n",
        "for p in network_of_another_module.parameters():\n    p.requires_grad = False\n",
        "import other\nother.net.requires_grad_(False)\n",
    ],
)
def test_what_may_want_no_gradients_is_left_alone(before: str) -> None:
    assert lines_of("missing-no-grad", PLAIN.format(before=before, body="kept.append(net(x))")) == []


def test_freezing_another_known_module_hides_nothing() -> None:
    before = "other = nn.Linear(2, 2)\nother.requires_grad_(False)\n"
    assert lines_of("missing-no-grad", PLAIN.format(before=before, body="kept.append(net(x))"))


PRETRAINED = "from transformers import {0}\nmodel = {0}.from_pretrained('bert-base-uncased')\nmodel.eval()\n"


@pytest.mark.parametrize(
    ("name", "is_found"),
    [("AutoModelForSequenceClassification", True), ("TFAutoModelForSequenceClassification", False)],
)
def test_a_model_of_another_framework_has_no_autograd(name: str, is_found: bool) -> None:
    code = PRETRAINED.format(name) + "for batch in val_loader:\n    kept.append(model(**batch))\n"
    assert bool(lines_of("missing-no-grad", code)) is is_found


@pytest.mark.parametrize(
    ("training", "is_found"),
    [
        ("        net(x).mean().backward()\n", True),
        # it switches to eval mode itself, and would switch autograd off as well
        ("        pass\n", True),
    ],
)
def test_a_function_that_nobody_calls_is_judged_where_it_trains_too(training: str, is_found: bool) -> None:
    code = (
        MADE
        + "def run():\n    net.train()\n    for x, y in loader:\n"
        + training
        + "    net.eval()\n    for x, y in val_loader:\n        kept.append(net(x))\n"
    )
    assert bool(lines_of("missing-no-grad", code)) is is_found
