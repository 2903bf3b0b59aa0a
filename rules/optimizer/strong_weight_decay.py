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

## Fix

None: whether the decay or the rate is wrong is for the author to say.

## References

Loshchilov, Hutter: Decoupled Weight Decay Regularization (2019); PyTorch documentation, `torch.optim.AdamW`.
"""

import math

from lintrain.rule import Evidence, EvidenceRule, Finding, Level, Location, Verdict

TOO_FAST = 0.01
"""The share of the weights that a step takes away."""


class StrongWeightDecay(EvidenceRule):
    level = Level.WARNING
    message = "weight decay shrinks the weights faster than they can learn"
    help_text = "use a `weight_decay` of 0.01 to 0.1"

    def location_of(self, evidence: Evidence) -> Location:
        return evidence.optimizer_location

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        if evidence.step is None:
            return Verdict.inconclusive(evidence.not_reached("step"))
        shares = [group.learning_rate * group.weight_decay for group in evidence.step.groups if group.is_decoupled]
        if not shares:
            return Verdict.inconclusive(f"`{evidence.step.optimizer}` has 0 groups whose decay shrinks the weights")
        most = max(shares)
        text = f"each step of `{evidence.step.optimizer}` takes away {most:.2g} of the weights"
        if TOO_FAST <= most < 1.0:
            halved = math.ceil(math.log(0.5) / math.log1p(-most))
            return Verdict.confirmed(f"{text}, and half of them in {halved} steps", share=most)
        return Verdict.confirmed(text, share=most) if most >= 1.0 else Verdict.refuted(text, share=most)
