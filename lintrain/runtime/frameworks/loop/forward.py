"""The evidence of a loop's forward passes and of its measured steps."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from lintrain.evidence.run import ForwardEvidence, OptimizerGroup, StepEvidence
from lintrain.runtime.frameworks.loop.seen import LossCall
from lintrain.runtime.frameworks.loop.standard_loss import chance_of
from lintrain.runtime.measure.births import Birth
from lintrain.runtime.measure.model import is_fresh
from lintrain.runtime.measure.updates import Frozen, updates
from lintrain.runtime.measure.weights import changed, changed_share, non_finite, outside_optimizer

if TYPE_CHECKING:
    from lintrain.runtime.frameworks.loop.run import LoopRun


def forward_evidence(run: LoopRun, birth: Birth | None, loss: LossCall | None) -> ForwardEvidence:
    """What the losses until now say; `birth` is where the first of them stopped being finite."""
    finite = all(math.isfinite(each) for each in run.losses)
    return ForwardEvidence(
        losses=tuple(run.losses),
        chance=chance_of(loss),
        finite=finite,
        logits_shape=run.logits_shape,
        returned_keys=run.output_keys,
        fresh_head=run.session.knows_origins and (not hasattr(run.model, "state_dict") or is_fresh(run.model)),
        standard_loss=loss is not None,
        first_non_finite=birth.module if birth else None,
        first_non_finite_input=birth.input_was if birth else None,
        first_non_finite_range=birth.range if birth else None,
    )


def step_evidence(
    run: LoopRun,
    optimizer: Any,
    groups: tuple[OptimizerGroup, ...],
    before: dict[str, Any],
    pulled: set[str],
    frozen: Frozen | None,
    steps: int,
) -> StepEvidence:
    """The weights beside what they were before the measured steps."""
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
