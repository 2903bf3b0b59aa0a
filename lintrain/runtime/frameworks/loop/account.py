"""What the watch saw of a loop, as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.evidence.run import LoopEvidence, ReachedWeights
from lintrain.runtime.frameworks.loop.model import inputs_of
from lintrain.runtime.frameworks.loop.seen import Iteration
from lintrain.runtime.measure.losses import loss_evidence

if TYPE_CHECKING:
    from lintrain.runtime.frameworks.loop.watch import Watch

MOST_LOSSES = 4


def loop_evidence(
    watch: Watch, first: Iteration, reached: ReachedWeights | None, counts: dict[str, int]
) -> LoopEvidence:
    """Everything counted until now; the losses are those of the first iteration."""
    effects = watch.effects
    return LoopEvidence(
        **counts,
        came_round=watch.comes_round,
        ended=watch.is_over or watch.rounds > 0,
        backwards_per_step=tuple(effects.per_step),
        loader=watch.loaders.use_of(watch.loader),
        inputs=inputs_of(first),
        learning_rates=tuple(effects.rates),
        optimizers=effects.ledger.uses(),
        schedules=watch.schedules.uses(),
        reached=reached,
        losses=tuple(loss_evidence(call) for call in first.losses[:MOST_LOSSES]),
    )
