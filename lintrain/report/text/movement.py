"""What a probe's stages say of the model asked again, of its gradients by layer, and of its steps."""

from __future__ import annotations

import math

from lintrain.evidence.run import BackwardEvidence, Evidence, LayerGradient, ResponseEvidence, StepEvidence

EQUAL = 1e-6
MOST_NAMES = 2


def asked_again(responses: ResponseEvidence | None) -> str:
    """Whether rows, mask and later tokens matter, as far as it was asked."""
    if responses is None:
        return ""
    return f"{_rows(responses)}{_mask(responses)}{_future(responses)}"


def _rows(responses: ResponseEvidence) -> str:
    spread = responses.spread
    if spread is None or spread.before is None or spread.before > EQUAL:
        return ""
    return f"; {spread.rows} different rows get the same answer"


def _mask(responses: ResponseEvidence) -> str:
    mask = responses.mask
    if mask is None:
        return ""
    if mask.given:
        return f"; without the mask answers move by {mask.change:.2g} of the largest"
    return f"; the mask that is not given would move answers by {mask.change:.2g} of the largest"


def _future(responses: ResponseEvidence) -> str:
    future = responses.future
    return f"; a changed next token moves them by {future.change:.2g}" if future else ""


def extremes(backward: BackwardEvidence) -> str:
    """The layers without any gradient, and the one with the smallest beside its weights."""
    dead = [layer.layer for layer in backward.layers if layer.norms and not any(layer.norms)]
    alive = {layer.layer: max(layer.norms) / layer.weight_norm for layer in backward.layers if _is_told(layer)}
    least = min(alive, key=lambda name: alive[name], default=None)
    none = f"; 0 in {_names(dead)}" if dead else ""
    return f"{none}; beside its weights least in {least} ({alive[least]:.1e})" if least and len(alive) > 1 else none


def _is_told(layer: LayerGradient) -> bool:
    return any(layer.norms) and layer.weight_norm > 0


def _names(names: list[str]) -> str:
    shown = ", ".join(names[:MOST_NAMES])
    return f"{shown} and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else shown


def movement(evidence: Evidence) -> str:
    """How far a step moves the layers, what it rounds away, and what moves without being trained."""
    step = evidence.step
    return f"{_updates(step)}{_rounding(evidence, step)}{_frozen(step)}" if step else ""


def _updates(step: StepEvidence) -> str:
    ratios = [update.ratio for update in step.updates if math.isfinite(update.ratio)]
    if not ratios:
        return ""
    low, high = min(ratios), max(ratios)
    span = f"{low:.1e} to {high:.1e}" if len(ratios) > 1 else f"{low:.1e}"
    return f", each step by {span} of a layer's weights"


def _rounding(evidence: Evidence, step: StepEvidence) -> str:
    formats = [name for name in (evidence.model.formats if evidence.model else {}) if name in ("bfloat16", "float16")]
    if not formats or step.changed_share is None:
        return ""
    return f"; {step.changed_share:.0%} of the {formats[0]} weights moved"


def _frozen(step: StepEvidence) -> str:
    moved = f"; {_names(list(step.frozen_moved))} moved without being trained" if step.frozen_moved else ""
    norms = step.frozen_statistics
    return f"{moved}; {norms} frozen batch norm{'s' * (norms != 1)} took up statistics" if norms else moved
