"""The loss is divided by the accumulation steps in the script, and again by Accelerate.

`accelerator.backward` already divides the loss by the `gradient_accumulation_steps` of the Accelerator. Dividing it in
the script as well makes the gradients too small by that factor: with four steps they are a quarter of what they should
be.

## Bad

    accelerator = Accelerator(gradient_accumulation_steps=4)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            loss = criterion(net(x), y)
            accelerator.backward(loss / 4)  # <- double-scaled-accumulation
            optimizer.step()
            optimizer.zero_grad()

## Good

    accelerator = Accelerator(gradient_accumulation_steps=4)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            loss = criterion(net(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

## When it is fine

Without the argument, Accelerate divides by 1:

    accelerator = Accelerator()
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for index, (x, y) in enumerate(loader):
        accelerator.backward(criterion(net(x), y) / 4)
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

The loss may be divided by another number, or only for logging:

    accelerator = Accelerator(gradient_accumulation_steps=4)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            loss = criterion(net(x), y)
            accelerator.backward(loss / 2)
            optimizer.step()
            optimizer.zero_grad()
            shown = loss.item() / 4

## Fix

Safe: the Accelerator already divides the loss.

## References

Accelerate documentation, "Performing gradient accumulation with Accelerate".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Arithmetic
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import Constant, Unknown
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The code of the loss without the division."""

    loss: str


class DoubleScaledAccumulation(Rule[Claim]):
    level = Level.ERROR
    keywords = "Accelerator & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        for backward in pipeline.acts(Act.BACKWARD):
            launcher = backward.subject
            operation = pipeline.arithmetic.get(id(backward.details.get("loss")))
            if isinstance(launcher, Launcher) and launcher.is_accelerator and operation is not None:
                division = _division_by_steps(pipeline, operation, launcher)
                if division is not None:
                    found.setdefault(division.location, self._report(division, launcher))
        yield from found.values()

    def _report(self, division: Arithmetic, launcher: Launcher) -> Finding[Claim]:
        location = launcher.argument_locations["gradient_accumulation_steps"]
        return self.finding(
            division.location,
            f"the loss is divided by `{division.right_text}` and again by the Accelerator",
            related=[Related(location, "`backward` divides by this", "argument")],
            help="do not divide the loss: the Accelerator does it",
            claim=Claim(division.left_text),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop, location = evidence.loop, evidence.first("divided_twice_alike")
        if loop is not None and location is not None and loop.accumulates > 1 and not loop.past_the_launcher:
            yield self.finding(
                location,
                f"the loss is divided here, and again by {loop.accumulates} in `accelerator.backward`",
                help="pass the loss as it is",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if not loop.backwards:
            return Verdict.inconclusive(f"{loop.backwards} backward passes ran")
        text = f"{loop.divided_twice} of {loop.backwards} losses were divided twice before their backward pass"
        return (Verdict.confirmed if loop.divided_twice else Verdict.refuted)(text, divided_twice=loop.divided_twice)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        loss = finding.claim.loss
        return fixes.Fix.of(f"pass `{loss}` undivided", fixes.Replace(finding.location, loss), safe=True)


def _division_by_steps(pipeline: Pipeline, operation: Arithmetic, launcher: Launcher) -> Arithmetic | None:
    """The division by the Accelerator's own accumulation steps, if it is the last operation on the loss."""
    steps = iterations.divisor_of(launcher)
    if operation.operator != "Div" or (isinstance(steps, Constant) and steps.value == 1 and steps.default is None):
        return None
    location = launcher.argument_locations.get("gradient_accumulation_steps")
    if location is None:
        return None
    same_text = pipeline.code(location).partition("=")[2].strip() == operation.right_text
    same_value = (
        isinstance(steps, Constant) and isinstance(operation.right, Constant) and steps.value == operation.right.value
    ) or (operation.right is steps and isinstance(steps, Unknown) and bool(steps.name))
    return operation if same_text or same_value else None
