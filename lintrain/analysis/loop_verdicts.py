"""Verdicts that several rules draw in the same way from what a loop of the script's own did."""

from __future__ import annotations

from typing import Literal

from lintrain.evidence.run import Evidence
from lintrain.model.verdict import Verdict


def weights_outside(evidence: Evidence, holders: Literal["optimizers", "modules"]) -> Verdict:
    """Whether the loss reaches weights that no optimizer has, or no module that was called."""
    loop = evidence.loop
    if loop is None:
        return Verdict.inconclusive(evidence.without_loop)
    reached = loop.reached
    if reached is None or not reached.tensors:
        return Verdict.inconclusive(f"in {loop.backwards} backward passes no weight was found to depend on")
    if holders == "optimizers":
        outside, which = reached.outside_optimizers, "of no optimizer"
    else:
        outside, which = reached.outside_modules, "of no module that was called"
    text = f"{outside} of {reached.tensors} weights that the loss reaches are {which}"
    return (Verdict.confirmed if outside else Verdict.refuted)(text, **{f"outside_{holders}": outside})
