"""Verdicts on custom training loops that several rules share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from lintrain.model.verdict import Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import Evidence


def weights_outside(evidence: Evidence, holders: Literal["optimizers", "modules"]) -> Verdict:
    """Whether the loss depends on weights outside all optimizers, or outside all called modules."""
    loop = evidence.loop
    if loop is None:
        return Verdict.inconclusive(evidence.without_loop)
    reached = loop.reached
    if reached is None or not reached.tensors:
        return Verdict.inconclusive(f"the losses of {loop.backwards} backward passes depend on no weight")
    if holders == "optimizers":
        outside, which = reached.outside_optimizers, "in no optimizer"
    else:
        outside, which = reached.outside_modules, "in no module that was called"
    text = f"{outside} of {reached.tensors} weights that the loss depends on are {which}"
    return (Verdict.confirmed if outside else Verdict.refuted)(text, **{f"outside_{holders}": outside})
