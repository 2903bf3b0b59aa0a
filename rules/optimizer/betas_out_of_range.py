"""The averages of Adam forget too fast.

`betas` say how long Adam remembers gradients and their squares. The square root of the second average divides each
step, so it has to be steadier than the first: 0.9 to 0.999, where the first is 0.9. With the two exchanged, or with a
second one below 0.8, single batches decide how far a step goes. The loss is noisy, and no error is raised.

## Bad

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.999, 0.9))  # <- betas-out-of-range
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Squares that are forgotten at once:

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.0, 0.5))  # <- betas-out-of-range
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Good

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.9, 0.999))
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

The same for the second:

    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, betas=(0.0, 0.95))
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## When it is fine

Networks that are trained against each other use no momentum, or little:

    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Lion has other betas, and no second average:

    class Lion(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, {"lr": 1e-3, "betas": (0.95, 0.7)})

        def step(self, closure=None):
            for group in self.param_groups:
                for weight in group["params"]:
                    if weight.grad is not None:
                        weight.data.add_(weight.grad.sign(), alpha=-group["lr"])

    optimizer = Lion(net.parameters())
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

None: which values were meant is for the author to say.

## References

Kingma, Ba: Adam: A Method for Stochastic Optimization (2015); PyTorch documentation, `torch.optim.Adam`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lintrain.rule import Evidence, Level, OptimizerRule, Verdict

if TYPE_CHECKING:
    from lintrain.evidence.run import StepEvidence

SHORTEST = 0.8
"""A second average that forgets faster than in five batches."""


class BetasOutOfRange(OptimizerRule):
    level = Level.WARNING
    message = "the averages of Adam forget too fast"
    help_text = "use `betas=(0.9, 0.999)`, or a second value of 0.9 at least"

    def judge(self, step: StepEvidence, evidence: Evidence) -> Verdict:
        # An optimizer without `eps` divides by no second average.
        pairs = [group.betas for group in step.groups if group.betas is not None and group.epsilon is not None]
        if not pairs:
            return Verdict.inconclusive(f"`{step.optimizer}` has 0 groups with such averages")
        first, second = min(pairs, key=lambda pair: pair[1])
        text = f"`{step.optimizer}` has the betas {first:g} and {second:g}"
        if second < SHORTEST:
            batches = 1 / (1 - second)
            return Verdict.confirmed(f"{text}: the second average is over {batches:.2g} batches", second=second)
        if first > second:
            return Verdict.confirmed(f"{text}: the first is larger than the second", first=first, second=second)
        return Verdict.refuted(text, first=first, second=second)
