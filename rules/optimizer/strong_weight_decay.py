"""Weight decay shrinks the weights faster than they can learn.

AdamW and SGD multiply the weights by `1 - lr * weight_decay` in every step. If that takes away one percent or more,
half of each weight is gone after seventy steps, whatever the gradients say. The loss stops falling early, and no error
is raised. Usual values of `weight_decay` are 0.01 to 0.1.

## Bad

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=10.0)  # <- strong-weight-decay
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

A large decay and a small rate, as they are used for large models:

    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, weight_decay=0.3)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

SGD has a larger rate and a smaller decay:

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A rate that is too high lets a usual decay take away too much as well, and is reported as what it is
(`high-learning-rate`):

    net = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(net.parameters(), lr=3.0)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

None: whether the decay or the rate is wrong is for the author to say.

## References

Loshchilov, Hutter: Decoupled Weight Decay Regularization (2019); PyTorch documentation, `torch.optim.AdamW`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from lintrain.rule import Evidence, Level, OptimizerRule, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import OptimizerGroup, StepEvidence

TOO_FAST = 0.01
"""The share of the weights that a step takes away."""
USUAL = 0.1
MOST_OF_IT = 10
"""Where a usual decay takes away so many times less than the step moves, the rate is wrong and not the decay."""


class StrongWeightDecay(OptimizerRule):
    level = Level.WARNING
    message = "weight decay shrinks the weights faster than they can learn"
    help_text = "use a `weight_decay` of 0.01 to 0.1"

    def judge(self, step: StepEvidence, evidence: Evidence) -> Verdict:
        groups = [group for group in step.groups if group.is_decoupled]
        if not groups:
            return Verdict.inconclusive(f"`{step.optimizer}` has 0 groups whose decay shrinks the weights")
        strongest = max(groups, key=_share)
        most = _share(strongest)
        text = f"each step of `{step.optimizer}` takes away {most:.2g} of the weights"
        if most < TOO_FAST:
            return Verdict.refuted(text, share=most)
        farthest = max((update.ratio for update in step.updates), default=0.0)
        if strongest.weight_decay <= USUAL and farthest > MOST_OF_IT * most:
            rate = f"a rate of {strongest.learning_rate:g}"
            return Verdict.inconclusive(
                f"{text}, but {rate} moves them by {farthest:.2g}: the rate decides", share=most
            )
        halved = math.ceil(math.log(0.5) / math.log1p(-most)) if most < 1.0 else 0
        return Verdict.confirmed(f"{text}, and half of them in {halved} steps" if halved else text, share=most)


def _share(group: OptimizerGroup) -> float:
    """What a step takes away from the weights of a group, as a share of them."""
    return group.learning_rate * group.weight_decay
