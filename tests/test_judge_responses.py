"""What the answers of a model that was asked again make of the claims about it, and how a report tells of them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from lintrain.evidence.run import (
    BackwardEvidence,
    Evidence,
    ForwardEvidence,
    FutureEvidence,
    LayerGradient,
    LayerUpdate,
    LoopEvidence,
    MaskEvidence,
    NonFiniteGradient,
    OptimizerGroup,
    ResponseEvidence,
    SpreadEvidence,
    StepEvidence,
)
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.report.text.stage_numbers import numbers
from lintrain.rulebook import load_rules

HERE = Location("train.py", 3, 1, 3, 5)
FORWARD = ForwardEvidence(losses=(1.0,), chance=None, finite=True)
MEASURED = Evidence("train.py", "torch", "a loop", HERE, None, "cpu", {}, forward=FORWARD)
RULES = {rule.name: rule.rule for rule in load_rules()}


def verdict(rule: str, evidence: Evidence) -> Verdict:
    return RULES[rule].verify(Finding(rule, Level.ERROR, HERE, "it is claimed"), evidence)


@pytest.mark.parametrize(
    ("future", "noise", "outcome"),
    [
        (FutureEvidence(4, 1.0, 0.2), 0.0, Outcome.CONFIRMED),
        (FutureEvidence(4, 1.0, 5e-4), 0.0, Outcome.CONFIRMED),
        (FutureEvidence(4, 1.0, 0.0), 0.0, Outcome.REFUTED),
        (FutureEvidence(4, 1.0, 5e-5), 0.0, Outcome.INCONCLUSIVE),
        (FutureEvidence(4, 1.0, 0.2), 0.1, Outcome.INCONCLUSIVE),
        (FutureEvidence(4, 1.0, 0.2, "the model also has an encoder"), 0.0, Outcome.INCONCLUSIVE),
        (None, 0.0, Outcome.INCONCLUSIVE),
    ],
)
def test_a_leak_needs_a_change_above_the_noise_and_no_doubt(
    future: FutureEvidence | None, noise: float, outcome: Outcome
) -> None:
    assert (
        verdict("future-leak", replace(MEASURED, responses=ResponseEvidence(noise, future=future))).outcome is outcome
    )


@pytest.mark.parametrize(
    ("spread", "norms", "outcome"),
    [
        (SpreadEvidence(8, "float32", 0.0, 0.0), (1.0,), Outcome.CONFIRMED),
        (SpreadEvidence(8, "float32", 2e-7, 1e-7), (1.0,), Outcome.CONFIRMED),
        (SpreadEvidence(8, "float32", 0.0, None), (0.0, 0.0), Outcome.CONFIRMED),
        (SpreadEvidence(8, "float32", 0.0, 1e-8), (1.0,), Outcome.REFUTED),
        (SpreadEvidence(8, "float32", 0.3), (1.0,), Outcome.REFUTED),
        (SpreadEvidence(8, "float32", 0.0, None), (1.0,), Outcome.INCONCLUSIVE),
        (SpreadEvidence(8, "bfloat16", 0.0, 0.0), (1.0,), Outcome.INCONCLUSIVE),
        (None, (1.0,), Outcome.INCONCLUSIVE),
    ],
)
def test_a_constant_answer_must_outlast_the_steps(
    spread: SpreadEvidence | None, norms: tuple[float, ...], outcome: Outcome
) -> None:
    backward = BackwardEvidence((), norms, finite=True)
    evidence = replace(MEASURED, backward=backward, responses=ResponseEvidence(spread=spread))
    assert verdict("constant-output", evidence).outcome is outcome


@pytest.mark.parametrize(
    ("mask", "outcome"),
    [
        (MaskEvidence(True, 3, 12, 0.0, 0.2, 7), Outcome.CONFIRMED),
        (MaskEvidence(True, 3, 12, 0.4, 0.0, 7), Outcome.REFUTED),
        (MaskEvidence(True, 3, 12, 0.0, 0.0, 7), Outcome.REFUTED),
        (MaskEvidence(True, 3, 12, 0.0, 1e-3, 7), Outcome.INCONCLUSIVE),
        (MaskEvidence(True, 3, 12, 0.0), Outcome.INCONCLUSIVE),
        (MaskEvidence(False, 3, 12, 0.4), Outcome.INCONCLUSIVE),
        (None, Outcome.INCONCLUSIVE),
    ],
)
def test_an_ignored_mask_must_be_given_and_its_padding_be_felt(mask: MaskEvidence | None, outcome: Outcome) -> None:
    assert (
        verdict("ignored-attention-mask", replace(MEASURED, responses=ResponseEvidence(mask=mask))).outcome is outcome
    )


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("log", "1 of 1 losses are not finite; first in the output of `log`, whose input is finite (-2 to 3)"),
        ("", "1 of 1 losses are not finite; the model's outputs are finite (-2 to 3), so the loss function causes it"),
        (None, "1 of 1 losses are not finite"),
    ],
)
def test_a_verdict_on_nan_names_where_it_comes_up(module: str | None, text: str) -> None:
    forward = ForwardEvidence((float("nan"),), None, False, first_non_finite=module, first_non_finite_range=(-2.0, 3.0))
    assert verdict("nan-loss", replace(MEASURED, forward=forward)).reason == text


def test_a_verdict_on_gradients_names_the_operation() -> None:
    backward = BackwardEvidence(
        (), (float("nan"),), False, non_finite=NonFiniteGradient("Sqrt", "head.bias", (0.0, 4.0))
    )
    assert verdict("nan-loss", replace(MEASURED, backward=backward)).reason == (
        "1 of 1 gradient norms are not finite; first in the gradient of `Sqrt` on the way to `head.bias`, "
        "for inputs (0 to 4)"
    )


@pytest.mark.parametrize(
    ("lost", "outcome"),
    [
        (0, Outcome.INCONCLUSIVE),  # the first scales are too large for float16: the scaler skips these steps
        (2, Outcome.CONFIRMED),
    ],
)
def test_gradients_of_a_scaled_loss_may_overflow_as_long_as_no_step_takes_them(lost: int, outcome: Outcome) -> None:
    measured = replace(
        MEASURED,
        backward=BackwardEvidence((), (math.inf,), False),
        loop=LoopEvidence(scaled=1),
        step=StepEvidence("SGD", (), 4, 4, non_finite=lost),
    )
    assert verdict("nan-loss", measured).outcome is outcome
    assert verdict("nan-loss", replace(measured, loop=LoopEvidence())).outcome is Outcome.CONFIRMED


def test_a_report_tells_what_moves_the_answers() -> None:
    mask, future = MaskEvidence(True, 3, 12, 0.25), FutureEvidence(4, 1.0, 0.0)
    spread = SpreadEvidence(8, "float32", 0.0)
    measured = replace(MEASURED, responses=ResponseEvidence(0.0, spread, mask, future))
    assert numbers(measured, "forward") == (
        "loss 1.000 over 1 batch; 8 different rows have the same output; without the mask the output "
        "changes by 0.25 of its maximum; changing the next token changes it by 0"
    )


def test_a_report_tells_of_dead_layers_and_of_the_weakest() -> None:
    layers = (LayerGradient("body.0", (0.0,), 2.0, 1), *(LayerGradient(f"body.{n}", (n,), 2.0, 1) for n in (1, 4)))
    measured = replace(MEASURED, backward=BackwardEvidence(layers, (5.0,), True))
    assert numbers(measured, "backward") == (
        "gradient norm 5, by layer 0.0e+00 to 4.0e+00; zero in body.0; smallest relative to its weights "
        "in body.1 (5.0e-01)"
    )


def test_a_report_tells_how_far_a_step_moves_the_layers_and_what_else_moved() -> None:
    step = StepEvidence(
        "SGD",
        (),
        4,
        4,
        updates=(LayerUpdate("body", 1e-3), LayerUpdate("head", 0.02), LayerUpdate("lost", float("nan"))),
        frozen_moved=("a", "b", "c"),
        frozen_statistics=2,
    )
    assert numbers(replace(MEASURED, step=step), "step").endswith(
        "4 of 4 tensors changed, by 1.0e-03 to 2.0e-02 of a layer's weights per step; frozen a, b and 1 more "
        "changed; running statistics of 2 frozen batch norms changed"
    )


@pytest.mark.parametrize(("norm", "outcome"), [(0.0, Outcome.INCONCLUSIVE), (1e-9, Outcome.CONFIRMED)])
def test_a_step_without_gradients_accuses_no_learning_rate(norm: float, outcome: Outcome) -> None:
    layer = LayerGradient("net.0", (norm,), 1.0, 2)
    still = StepEvidence("SGD", (OptimizerGroup(2e-3, 2e-3, 0.0, 2),), 2, 0, updates=(LayerUpdate("net.0", 0.0),))
    measured = replace(MEASURED, step=still, backward=BackwardEvidence((layer,), (norm,), True))
    assert verdict("low-learning-rate", measured).outcome is outcome
    vanished = Finding("vanishing-gradients", Level.WARNING, HERE, "it is claimed")
    cause = Finding("fully-masked-labels", Level.ERROR, HERE, "it is claimed")
    judged = verdict("vanishing-gradients", measured)
    assert RULES["vanishing-gradients"].follows_from(vanished, judged, cause)
