"""The `eps` of Adam is zero in float16.

Adam divides each step by the root of an average plus `eps`. The smallest number of float16 is 6e-8, so the default of
1e-8 becomes 0, and so does the average of small gradients. Zero by zero is NaN: weights are lost in the first steps.

## Bad

    net.half()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)  # <- vanishing-epsilon
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.half()), y).backward()
        optimizer.step()

## Good

    net.half()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, eps=1e-4)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.half()), y).backward()
        optimizer.step()

## When it is fine

bfloat16 has the range of float32, and weights in float32 keep the default:

    net.bfloat16()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.bfloat16()), y).backward()
        optimizer.step()

SGD divides by nothing:

    net.half()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-2)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x.half()), y).backward()
        optimizer.step()

## Fix

None: a larger `eps` and weights in float32, with autocast, are both reasonable.

## References

PyTorch documentation, `torch.optim.Adam` and `torch.finfo`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.rule import Evidence, Level, OptimizerRule, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import StepEvidence

SMALLEST = 2.0**-25
"""Numbers up to this are 0 in float16: half of its smallest one."""


class VanishingEpsilon(OptimizerRule):
    level = Level.ERROR
    message = "the `eps` of the optimizer is zero in float16"
    help_text = "keep the weights in float32 and use autocast, or set `eps=1e-4`"

    def judge(self, step: StepEvidence, evidence: Evidence) -> Verdict:
        groups = [group for group in step.groups if group.epsilon is not None]
        halves = [group for group in groups if "float16" in group.formats]
        if not halves:
            return Verdict.refuted(f"{len(halves)} of {len(groups)} groups with an `eps` have weights in float16")
        least = min(group.epsilon or 0.0 for group in halves)
        text = f"{len(halves)} of {len(groups)} groups are in float16, with an `eps` of {least:g}"
        if least <= SMALLEST:
            return Verdict.confirmed(f"{text}, which is 0 in this format", epsilon=least)
        return Verdict.refuted(text, epsilon=least)
