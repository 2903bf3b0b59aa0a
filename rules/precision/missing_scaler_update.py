"""A gradient scaler steps, but is never updated.

`update` chooses the next scale and prepares the scaler for the next step. Without it, the second iteration raises an
error.

## Bad

    scaler = torch.amp.GradScaler(device)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)  # <- missing-scaler-update
    # raises RuntimeError: step() has already been called since the last update().

## Good

    scaler = torch.amp.GradScaler(device)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()

## When it is fine

A disabled scaler only calls the optimizer's step:

    scaler = torch.amp.GradScaler(device, enabled=False)
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(criterion(net(x), y)).backward()
        scaler.step(optimizer)

Other code may call it:

    from engine import finish

    scaler = torch.amp.GradScaler(device)
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(criterion(net(x), y)).backward()
        scaler.step(optimizer)
        finish(scaler)

## Fix

Safe: without it the scale never changes, and after one overflow no step is taken.

## References

PyTorch documentation, `torch.amp.GradScaler.update`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import expressions, half_used_scalers, iterations, script_text, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Scaler
from lintrain.pipeline.values.python import Unknown
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
)

REJECTED = (
    "step() has already been called since the last update()",
    "unscale_() is being called after step()",
)


LONGEST = 30
"""Characters of a name that a message has room for."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement to insert after the step."""

    statement: str


class MissingScalerUpdate(Rule[Claim]):
    level = Level.ERROR
    keywords = "scaler|Scaler"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        for step in pipeline.acts(Act.STEP):
            if _fails_in_second_iteration(pipeline, step) and not _is_updated(pipeline, step):
                found.setdefault(step.location, self._report(step))
        for training in training_loops.training_loops(pipeline):
            for step, message, remedy in _stepped_around(pipeline, training):
                related = [Related(training.backward.location, "computes the gradients", "backward")]
                found.setdefault(step.location, self.finding(step.location, message, related=related, help=remedy))
        for half in half_used_scalers.half_used(pipeline.source):
            found.setdefault(half.location, self._report_half(half))
        yield from found.values()

    def _report_half(self, half: half_used_scalers.HalfUsed) -> Finding[Claim]:
        name = half.scaler if len(half.scaler) <= LONGEST else "scaler"
        return self.finding(
            half.location,
            f"steps with gradients that `{name}` has scaled up"
            if half.scales
            else f"`{name}` is not updated after each step, so its second step raises an error",
            related=[Related(half.scaled, "computes the gradients", "backward")],
            help=f"call `{name}.step(optimizer)`" if half.scales else f"call `{name}.update()` after the step",
        )

    def _report(self, step: Event) -> Finding[Claim]:
        scaler = training_loops.text_of_event(step, "scaler_text")
        return self.finding(
            step.location,
            f"`{scaler}` is not updated after each step, so its second step raises an error",
            help=f"call `{scaler}.update()` after the step",
            claim=Claim(f"{scaler}.update()"),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        location = evidence.first("scaler_steps") or evidence.failed_place(*REJECTED)
        loop = evidence.loop
        is_repeated = loop is not None and loop.steps_without_update > 0
        if location is not None and (is_repeated or evidence.failed_with(*REJECTED)):
            yield self.finding(
                location,
                "the scaler was not updated after its last step, so this one raises an error",
                help="call `update()` of the scaler after each step",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        failed = evidence.failed_with(*REJECTED)
        if failed is not None and failed.failure is not None:
            return Verdict.confirmed(f"`{failed.failure.message}`")
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if loop.steps_without_update:
            text = f"{loop.steps_without_update} of {loop.steps} steps followed another one without an update"
            return Verdict.confirmed(f"{text}, which an enabled scaler refuses", steps=loop.steps_without_update)
        if not loop.scaled:
            return Verdict.inconclusive(
                f"on {evidence.device} the scaler is disabled, and accepted all {loop.steps} steps"
            )
        text = f"the scaler accepted {loop.steps} steps"
        return Verdict.refuted(text, steps=loop.steps) if loop.steps > 1 else Verdict.inconclusive(text)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        statement = finding.claim.statement
        return fixes.Fix.of(
            f"insert `{statement}` after the step", fixes.InsertAfter(finding.location, statement), safe=True
        )


def _is_updated(pipeline: Pipeline, step: Event) -> bool:
    """Whether a scaler may be updated between two steps: an update in every hundredth iteration is not enough."""
    own = step.details.get("scaler")
    updates = [each for each in pipeline.acts(Act.SCALER_UPDATE) if not _is_rarer(each, step)]
    return any(update.subject is own or not isinstance(update.subject, Scaler) for update in updates)


def _is_rarer(update: Event, step: Event) -> bool:
    shared = len(step.conditions)
    more = update.conditions[shared:]
    is_inside = update.loops == step.loops and update.conditions[:shared] == step.conditions
    return is_inside and any(condition.period_text and not condition.is_else for condition in more)


def _may_update(pipeline: Pipeline, escape: Event, scaler: Scaler, step: Event) -> bool:
    """Whether unknown code may reach a scaler between two steps, other than to save it."""
    is_between = escape.is_inside(step.loops[-1]) and not _is_rarer(escape, step)
    if not is_between or training_loops.SAVES.search(pipeline.code(escape.location).partition("(")[0]):
        return False
    if isinstance(escape.subject, Unknown):
        return training_loops.may_hide(pipeline, escape, scaler)
    held, followed = (expressions.touched_by(pipeline, value) for value in (escape.subject, scaler))
    return escape.subject is scaler or not held.isdisjoint(followed)


SCALED = lazy_pattern(r"^(?P<scaler>[\w.]*scaler[\w.]*)\.scale\(")


def _stepped_around(pipeline: Pipeline, training: training_loops.TrainingLoop) -> Iterator[tuple[Event, str, str]]:
    """The steps that use scaled gradients as they are, or take unscaled ones for scaled ones, with what to say."""
    backward, loop = training.backward, training.loop
    scaled = SCALED.search(training_loops.text_of_event(backward))
    following = [each for each in training.inside if each.order > backward.order]
    first = next((each for each in following if each.act in {Act.STEP, Act.BACKWARD}), None)
    if first is None or first.act is not Act.STEP or first.is_conditional_in(loop) or backward.is_conditional_in(loop):
        return
    scaler = training_loops.text_of_event(first, "scaler_text")
    is_changed = any(each.act in {Act.UNSCALE, Act.GRADIENT} for each in training.inside)
    if scaled is not None and not scaler and training_loops.is_certain_step(first) and not is_changed:
        own = scaled["scaler"]
        yield first, f"steps with gradients that `{own}` has scaled up", f"call `{own}.step(optimizer)`"
        return
    text = training_loops.text_of_event(backward)
    is_scaled = scaled is not None or not text.isidentifier() or script_text.mentions(pipeline, r"\.scale\(")
    if scaler and not is_scaled:
        remedy = f"call `{scaler}.scale({text}).backward()`"
        yield first, f"`{scaler}` has scaled no loss, so it finds no gradients", remedy


def _fails_in_second_iteration(pipeline: Pipeline, step: Event) -> bool:
    """Whether an enabled scaler of this script steps in each iteration, and no other code receives it."""
    scaler = step.details.get("scaler")
    if not isinstance(scaler, Scaler) or iterations.is_switched_off(scaler) or not step.loops:
        return False
    hidden = any(_may_update(pipeline, event, scaler, step) for event in pipeline.acts(Act.ESCAPE))
    made_inside = scaler.origin is not None and step.loops[-1].location.holds(scaler.origin)
    return not hidden and not made_inside and not training_loops.is_left_after(pipeline, step, step.loops[-1])
