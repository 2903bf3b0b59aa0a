"""Which targets a loss counts, and how these are aligned with the tokens that the model read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from lintrain.evidence.run import TargetAlignment
from lintrain.runtime.child.library import has
from lintrain.runtime.measure.replay import alignment
from lintrain.runtime.measure.seen import LossCall

IGNORED = -100


def target_alignment(call: LossCall) -> TargetAlignment | None:
    """How the class numbers of a loss are aligned with the tokens; None for other losses and without tokens."""
    if call.name not in ("cross_entropy", "nll_loss") or call.ids is None:
        return None
    counted = _counted(call)
    found = alignment(call.target, call.ids, call.mask, call.options.get("ignore_index", IGNORED), counted)
    # The script reduces the losses itself, and it is not known which of them it leaves out.
    is_unknown = call.is_whole and call.counted is None
    return replace(found, padding=None) if found is not None and is_unknown else found


def _counted(call: LossCall) -> Any:
    """Bool in the shape of the targets: those with a loss that counts, and a weight that is not 0; None for all."""
    weight: Any = call.options.get("weight")
    counted = call.counted if call.counted is not None and call.counted.shape == call.target.shape else None
    if not has(weight, "shape") or weight.ndim != 1 or bool((weight != 0).all()):
        return counted
    weighs = weight[call.target.clamp(0, len(weight) - 1)] != 0
    return weighs if counted is None else weighs & counted
