"""`backward` gets the loss itself as its gradient.

The argument of `loss.backward(…)` multiplies all gradients. With the loss as the argument, the gradient is that of half
its square: steps become smaller as the loss falls, and very large where it is large. No error appears.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward(loss)  # <- loss-as-gradient
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

A loss for each row needs a weight for each row:

    criterion = nn.CrossEntropyLoss(reduction="none")
    for x, y in loader:
        optimizer.zero_grad()
        losses = criterion(net(x), y)
        losses.backward(torch.ones_like(losses))
        optimizer.step()

A value that is no loss, in a test of autograd:

    output = net(torch.zeros(1, 8)).sum()
    output.backward(output)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

Asks first: all gradients change.

## References

PyTorch documentation, `torch.Tensor.backward`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import expressions
from lintrain.rule import Finding, Level, OddCallRule, Pipeline, dataclass, fixes, lazy_pattern

LOSS = lazy_pattern(r"loss|cost|err|objective", re.IGNORECASE)
"""Names of losses: another value may be its own gradient in a test of autograd."""


OFF_GRAPH = lazy_pattern(r"(?:\.(?:detach|clone)\(\)|\.data)+$")
"""Methods after which a gradient has the same numbers."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The call without its argument."""

    code: str


class LossAsGradient(OddCallRule[Claim]):
    level = Level.WARNING
    odd = "own gradient"
    odd_message = "the loss is passed to its own `backward`, which scales all gradients by it"
    odd_help = "call `backward()` without an argument"
    fewest_odd = 2
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for call in expressions.calls_of_method(pipeline.source, "backward"):
            loss, given = _loss_and_gradient(call)
            if loss is None or given is None or not LOSS.search(loss.code):
                continue
            if OFF_GRAPH.sub("", given.code) != loss.code:
                continue
            shown = f"`{loss.code}`" if len(loss.code) <= 30 else "the loss"
            yield self.finding(
                call.location,
                f"{shown} is passed to its own `backward`, which scales all gradients by it",
                help="call `backward()` without an argument",
                claim=Claim(f"{loss.written_code}.backward()"),
            )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        edit = fixes.Replace(finding.location, finding.claim.code)
        return fixes.Fix.of("call it without an argument", edit, safe=False)


def _loss_and_gradient(
    call: expressions.Expression,
) -> tuple[expressions.Expression | None, expressions.Expression | None]:
    """The loss and the gradient of `loss.backward(gradient)` and `torch.autograd.backward(loss, gradient)`."""
    owner, given = call.called_on, call.arguments
    if owner is not None and owner.code == "torch.autograd":
        gradient = given[1] if len(given) > 1 else call.keywords.get("grad_tensors")
        return (given[0] if given else None), gradient
    return owner, given[0] if len(given) == 1 else call.keywords.get("gradient")
