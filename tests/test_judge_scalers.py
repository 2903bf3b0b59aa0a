"""What a followed loop makes of the claims about its gradient scaler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lintrain.evidence.run import Evidence, Failure, LoopEvidence, Stage, StageName
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rulebook import load_rules

HERE = Location("train.py", 3, 1, 3, 5)
FOLLOWED = LoopEvidence(steps=4, clips=4, scaled=4)
LOOP = Evidence("train.py", "torch", "a loop", HERE, None, "cpu", {}, loop=FOLLOWED)


def verdict(rule: str, evidence: Evidence) -> Verdict:
    found = next(each.rule for each in load_rules() if each.name == rule)
    return found.verify(Finding(rule, Level.ERROR, HERE, "it is claimed"), evidence)


@pytest.mark.parametrize("rule", ["missing-scaler-update", "clip-before-unscale"])
def test_a_disabled_scaler_refutes_nothing(rule: str) -> None:
    assert verdict(rule, LOOP).outcome is Outcome.REFUTED
    off = verdict(rule, replace(LOOP, loop=replace(FOLLOWED, scaled=0)))
    assert (off.outcome, "on cpu the scaler is disabled" in off.reason) == (Outcome.INCONCLUSIVE, True)


@pytest.mark.parametrize("refusal", ["step() has already been called since", "unscale_() is being called after step()"])
def test_a_scaler_that_was_not_updated_refuses_to_step_or_to_unscale(refusal: str) -> None:
    error = Failure("RuntimeError", f"{refusal} the last update().", HERE)
    failed = replace(LOOP, stages=(Stage.failed(StageName.STEP, error),))
    assert verdict("missing-scaler-update", failed).outcome is Outcome.CONFIRMED
