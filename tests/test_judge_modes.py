"""What the evidence of a loop says about the mode of a model that may not be the measured one."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from lintrain.evidence.run import Evidence, LoopEvidence
from lintrain.evidence.training import ModelEvidence
from lintrain.model.finding import Finding, Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules

HERE = Location("train.py", 3, 1, 3, 5)
LOOP = Related(HERE, "the loop that trains it", "loop")
TRAINED = Related(HERE, "trained here", "training")


def measured(*, pretrained: bool) -> Evidence:
    plain: dict[str, Any] = {each.name: None for each in fields(ModelEvidence) if each.name != "__slots__"}
    model = ModelEvidence(
        **{**plain, "name": "Linear", "training": True, "has_dropout_or_batch_norm": False, "pretrained": pretrained}
    )
    return Evidence("train.py", "torch", "a loop", HERE, None, "cpu", {}, model=model, loop=LoopEvidence(trained=4))


@pytest.mark.parametrize(
    ("related", "pretrained", "outcome"),
    [
        ((LOOP,), False, Outcome.INCONCLUSIVE),
        ((LOOP,), True, Outcome.REFUTED),
        ((LOOP, TRAINED), False, Outcome.REFUTED),
    ],
)
def test_a_head_does_not_refute_the_mode_of_the_loaded_model_below_it(
    related: tuple[Related, ...], pretrained: bool, outcome: Outcome
) -> None:
    rule = next(each.rule for each in load_rules() if each.name == "eval-mode-in-training")
    finding: Finding[Any] = Finding(
        rule.name, Level.WARNING, HERE, "`encoder` is trained in eval mode", related=related
    )
    assert rule.verify(finding, measured(pretrained=pretrained)).outcome is outcome
