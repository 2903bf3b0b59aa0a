"""What was seen of a loop, as evidence: its counts, its forward passes and its measured steps."""

from __future__ import annotations

import math
from typing import Any

from lintrain.evidence.run import ForwardEvidence, LoopEvidence, OptimizerGroup, ReachedWeights, StepEvidence
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.frameworks.loop.loop_state import LoopState
from lintrain.runtime.frameworks.loop.model import inputs_of
from lintrain.runtime.measure.losses import loss_evidence
from lintrain.runtime.measure.model import is_fresh
from lintrain.runtime.measure.non_finite import NonFiniteModule
from lintrain.runtime.measure.seen import Iteration, LossCall
from lintrain.runtime.measure.standard_loss import chance_of
from lintrain.runtime.measure.updates import Frozen, updates
from lintrain.runtime.measure.weights import changed, changed_share, non_finite, outside_optimizer

MOST_LOSSES = 4


def loop_evidence(
    state: LoopState, first: Iteration, reached: ReachedWeights | None, counts: dict[str, int]
) -> LoopEvidence:
    """Everything counted so far; the losses are those of the first iteration."""
    effects = state.effects
    return LoopEvidence(
        **counts,
        came_round=state.comes_round,
        ended=state.is_over or state.rounds > 0,
        backwards_per_step=tuple(effects.per_step),
        loader=state.loaders.use_of(state.loader),
        inputs=inputs_of(first),
        learning_rates=tuple(effects.rates),
        optimizers=effects.ledger.uses(),
        schedules=state.schedules.uses(),
        reached=reached,
        losses=tuple(loss_evidence(call) for call in first.losses[:MOST_LOSSES]),
    )


def forward_evidence(run: MeasuredRun, non_finite: NonFiniteModule | None, loss: LossCall | None) -> ForwardEvidence:
    """The losses so far; `non_finite` is where the first of them stopped being finite."""
    finite = all(math.isfinite(each) for each in run.losses)
    return ForwardEvidence(
        losses=tuple(run.losses),
        chance=chance_of(loss),
        finite=finite,
        logits_shape=run.logits_shape,
        returned_keys=run.output_keys,
        fresh_head=run.session.knows_origins and (not hasattr(run.model, "state_dict") or is_fresh(run.model)),
        standard_loss=loss is not None,
        first_non_finite=non_finite.module if non_finite else None,
        first_non_finite_input=non_finite.input_was if non_finite else None,
        first_non_finite_range=non_finite.range if non_finite else None,
    )


def step_evidence(
    run: MeasuredRun,
    optimizer: Any,
    groups: tuple[OptimizerGroup, ...],
    before: dict[str, Any],
    pulled: set[str],
    frozen: Frozen | None,
    steps: int,
) -> StepEvidence:
    """The weights, compared with those before the measured steps."""
    moved = changed(run, before)
    if run.responses is not None and moved:
        run.responses.after_steps()
    return StepEvidence(
        optimizer=type(optimizer).__name__,
        groups=groups,
        trainable_tensors=len(before),
        changed_tensors=len(moved),
        unchanged=tuple(sorted(pulled - moved)),
        outside_optimizer=outside_optimizer(run),
        changed_share=changed_share(run, before),
        non_finite=non_finite(run),
        updates=updates(run, before, steps),
        frozen_moved=frozen.moved() if frozen else None,
        frozen_statistics=frozen.statistics() if frozen else 0,
    )
