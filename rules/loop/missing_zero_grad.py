"""Gradients are not cleared between optimizer steps.

`backward` adds to the existing gradients. Without `zero_grad`, every step uses the sum of the gradients of all batches
so far. The loss stalls or grows, and no error is raised.

## Bad

    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()  # <- missing-zero-grad
        optimizer.step()

With two optimizers, the gradients of each must be cleared:

    critic = nn.Linear(3, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for x, y in loader:
        critic_loss = critic(net(x).detach()).mean()
        critic_loss.backward()  # <- missing-zero-grad
        critic_optimizer.step()
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## Good

    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

With two optimizers:

    critic = nn.Linear(3, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for x, y in loader:
        critic_loss = critic(net(x).detach()).mean()
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

Gradients of several batches may be accumulated on purpose, if they are cleared after the step:

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / 4
        loss.backward()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()

The model, or the closure of an optimizer, can clear them as well:

    for x, y in loader:
        net.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A loop that ends after its first step does not need to clear them:

    for x, y in loader:
        criterion(net(x), y).backward()
        optimizer.step()
        break

Nor does one that is left before its second step:

    for index, (x, y) in enumerate(loader):
        if index == 1:
            break
        criterion(net(x), y).backward()
        optimizer.step()

## Fix

Safe: no step is meant to use the gradients of all earlier batches. Offered for loops with one optimizer and without
accumulation.

## References

PyTorch documentation, `torch.optim.Optimizer.zero_grad`; PyTorch tutorial "Zeroing out gradients".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import (
    adversaries,
    gradients,
    iterations,
    lightning_updates,
    manual_updates,
    script_text,
    training_loops,
    uncalled,
)
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.python import Value
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


@dataclass(frozen=True, slots=True)
class Claim:
    """The optimizer to clear; empty without a fix."""

    optimizer: str


class MissingZeroGrad(Rule[Claim]):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from map(self._report_manual, lightning_updates.uncleared_updates(pipeline))
        if not training_loops.trains_by_hand(pipeline) or "zero_grad" in pipeline.source.cached(uncalled.idle_methods):
            return
        found: dict[Location, Finding[Claim]] = {}
        for training in training_loops.training_loops(pipeline):
            if self._never_clears(pipeline, training):
                found.setdefault(training.backward.location, self._report(training))
        for backward, update in manual_updates.updates_by_hand(pipeline):
            found.setdefault(backward.location, self._report_by_hand(backward, update))
        for backward, step in _updates(pipeline):
            found.setdefault(backward.location, self._report_update(backward, step))
        for leftover in adversaries.leftovers(pipeline):
            found.setdefault(leftover.backward.location, self._report_leftover(leftover))
        yield from found.values()

    def _report_leftover(self, leftover: adversaries.Leftover) -> Finding[Claim]:
        loss, optimizer = map(training_loops.text_of_event, (leftover.backward, leftover.step))
        return self.finding(
            leftover.backward.location,
            f"`{_short(loss)}` leaves gradients that `{optimizer}` applies too",
            related=[
                Related(leftover.own_step.location, "steps another network only", "own step"),
                Related(leftover.step.location, "steps with the gradients of both losses", "step"),
            ],
            help=f"`detach` what the other network made, or call `{optimizer}.zero_grad()` after this",
            claim=Claim(""),
        )

    def _never_clears(self, pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
        if len(training.backward.loops) == 1 and training_loops.is_left_after(
            pipeline, _next_step(training), training.loop
        ):
            return False
        runs_once = FIRST_STEP_ONLY.match(pipeline.code(training.loop.location)) is not None
        is_own = not runs_once and _adds_up(pipeline, training)
        loops = (training.loop,) if is_own else training.backward.loops
        if runs_once and len(loops) == 1:
            return False
        around = [event for loop in loops for event in pipeline.events_in(loop)]
        clears = [event for event in around if event.act is Act.ZERO_GRAD]
        followed = _next_step(training).subject
        hidden = any(training_loops.may_hide(pipeline, event, followed) for event in training.inside)
        if (
            hidden
            or any(gradients.handles(pipeline, event) for event in training.inside)
            or any(_may_clear(pipeline, event, training, followed) for event in clears)
        ):
            return False
        return all(training_loops.is_certain_step(step) and not _is_engine(step, training) for step in training.steps)

    def _report(self, training: training_loops.TrainingLoop) -> Finding[Claim]:
        step = _next_step(training)
        optimizer = training_loops.text_of_event(step)
        loss = training_loops.text_of_event(training.backward)
        return self.finding(
            training.backward.location,
            f"gradients of `{_short(loss)}` are never cleared in this loop",
            related=[
                *training_loops.origin_of(step.subject, "created here"),
                Related(step.location, "steps with the sum of all gradients so far", "step"),
            ],
            help=f"call `{optimizer}.zero_grad()` before `backward`",
            claim=Claim(optimizer if _is_plain(training) else ""),
        )

    def _report_by_hand(self, backward: Event, update: Location) -> Finding[Claim]:
        loss = training_loops.text_of_event(backward)
        return self.finding(
            backward.location,
            f"gradients of `{_short(loss)}` are never cleared in this loop",
            related=[Related(update, "updates with the sum of all gradients so far", "step")],
            help="set each gradient to zero after the update: `grad.zero_()`",
            claim=Claim(""),
        )

    def _report_manual(self, update: lightning_updates.Uncleared) -> Finding[Claim]:
        return self.finding(
            update.backward,
            f"gradients of `{_short(update.optimizer)}` are never cleared: this module updates by itself",
            related=[Related(update.step, "steps with the sum of all gradients so far", "step")],
            help=f"call `{update.optimizer}.zero_grad()` before each new update",
            claim=Claim(""),
        )

    def _report_update(self, backward: Event, step: Event) -> Finding[Claim]:
        optimizer, loss = training_loops.text_of_event(step), training_loops.text_of_event(backward)
        return self.finding(
            backward.location,
            f"gradients of `{_short(loss)}` are never cleared between two updates",
            related=[Related(step.location, "steps with the sum of the gradients of all calls", "step")],
            help=f"call `{optimizer}.zero_grad()` before `backward`",
            claim=Claim(optimizer if backward.location.line != step.location.line else ""),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        for use in loop.optimizers:
            if use.steps_on_used:
                text = f"{use.steps_on_used} of {use.steps} steps of `{use.name}` used gradients of an earlier step"
                return Verdict.confirmed(text, steps_on_used=use.steps_on_used, steps=use.steps)
        if loop.steps > 1:
            return Verdict.refuted(f"0 of {loop.steps} steps used gradients of an earlier step", steps=loop.steps)
        return Verdict.inconclusive(f"{loop.steps} steps ran, at least 2 are needed", steps=loop.steps)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        uses = evidence.loop.optimizers if evidence.loop else ()
        if any(use.steps_on_used == use.steps - 1 > 1 for use in uses):
            what = "gradients are never cleared between two steps"
            yield from self.if_confirmed(self.finding(evidence.location, what), evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None or not claim.optimizer:
            return None
        statement = f"{claim.optimizer}.zero_grad()"
        return fixes.Fix.of(
            f"insert `{statement}` before `backward`", fixes.InsertBefore(finding.location, statement), safe=True
        )


FIRST_STEP_ONLY = lazy_pattern(
    r"for (\w+), [^\n]* in enumerate\(\w+\):\s+if (?:\1 (?:==|>=) 1|\1 > 0|1 == \1):\s+break\b"
)
"""A loop that is left before its second step."""

CLEARS = r"zero_?grad|\.grad\b|set_to_none|clear_grad"
"""Code that clears gradients, or handles them in some other way."""


MOST_UPDATES = 64
"""Backward calls of one script that are looked at as single updates."""


def _updates(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """The functions that make one update for a caller elsewhere: `backward` and the step that follows it."""
    if script_text.mentions(pipeline, CLEARS):
        return
    for backward in pipeline.acts(Act.BACKWARD)[:MOST_UPDATES]:
        is_alone = backward.uncalled or pipeline.source.is_partial
        if backward.loops or not backward.function or not is_alone or backward.conditions:
            continue
        inside = [event for event in pipeline.events if event.function == backward.function]
        steps = [event for event in inside if event.act is Act.STEP and event.order > backward.order]
        steps = steps or [step for step in pipeline.acts(Act.STEP) if _runs(pipeline, step, backward.function)]
        if len(steps) != 1 or steps[0].conditions or not training_loops.is_certain_step(steps[0]):
            continue
        is_engine = steps[0].subject is backward.subject
        if not is_engine and not any(training_loops.may_hide(pipeline, event, steps[0].subject) for event in inside):
            yield backward, steps[0]


def _next_step(training: training_loops.TrainingLoop) -> Event:
    """The step that follows the backward call; the last one if none follows in the same iteration."""
    following = (step for step in training.steps if step.order > training.backward.order)
    return next(following, training.steps[-1])


def _runs(pipeline: Pipeline, step: Event, function: str) -> bool:
    """Whether a step gets a function that computes the gradients: `optimizer.step(closure)`."""
    return pipeline.code(step.location).endswith(f".step({function})")


def _adds_up(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether one optimizer steps in each iteration of a loop: what is cleared around that loop adds up until then."""
    steps_each_time = len(training.steps) == 1 and all(
        event.loops[-1] is training.loop and not event.is_conditional_in(training.loop)
        for event in (training.backward, *training.steps)
    )
    if not steps_each_time or training_loops.is_left_after(pipeline, training.steps[0], training.loop):
        return False
    if any(_gives_rows(pipeline, loop, training.loop) for loop in training.backward.loops):
        return False
    name = training_loops.text_of_event(training.steps[0])
    return name.replace(".", "").isidentifier() and not _is_bound_in(pipeline, training.loop, name.partition(".")[0])


def _gives_rows(pipeline: Pipeline, loop: Loop, inner: Loop) -> bool:
    """Whether each iteration of a loop has rows of its own, a window whose gradients may add up."""
    target = re.match(r"for\s+(\w+)\s+in\b", pipeline.code(loop.location))
    return target is not None and re.match(rf"{target[1]}\b", inner.header) is not None


def _is_bound_in(pipeline: Pipeline, loop: Loop, name: str) -> bool:
    """Whether each iteration may have another optimizer: `for optimizer, loss in zip(…)`."""
    bound = rf"(?m)^\s*(?:for\b[^\n]*\b{name}\b[^\n]*\bin\b|(?:\w+,\s*)*{name}\s*(?:,\s*\w+)*\s*=(?!=))"
    return re.search(bound, pipeline.code(loop.location)) is not None


def _may_clear(pipeline: Pipeline, clear: Event, training: training_loops.TrainingLoop, optimizer: Value) -> bool:
    """Whether a call may clear the gradients that a backward pass leaves for the steps on its side of a branch.

    With `if amp:` the other side never runs; with `if step % 4:` it does, and has the steps as well.
    """
    if iterations.concerns(pipeline, clear, optimizer) is False or _clears_another(clear, training, optimizer):
        return False
    steps = [step for step in training.steps if not iterations.contradict(step, training.backward)]
    return not steps or not all(iterations.contradict(clear, each) for each in (training.backward, *steps))


def _clears_another(clear: Event, training: training_loops.TrainingLoop, optimizer: Value) -> bool:
    """Whether a call clears the gradients of another network, with an optimizer that steps in the same loop."""
    is_stepped = any(step.subject is clear.subject for step in training.steps)
    return is_stepped and iterations.are_apart(clear.subject, optimizer)


def _is_engine(step: Event, training: training_loops.TrainingLoop) -> bool:
    """`engine.backward(loss)` with `engine.step()`: an engine clears gradients by itself."""
    return step.subject is training.backward.subject


def _is_plain(training: training_loops.TrainingLoop) -> bool:
    """One backward call and one step, unconditional and in this order, in one function: no accumulation."""
    backwards = [event for event in training.inside if event.act is Act.BACKWARD]
    step = training.steps[0]
    return (
        len(backwards) == len(training.steps) == 1
        and step.function == training.backward.function
        and training.backward.order < step.order
        and not step.is_conditional_in(training.loop)
        and not training.backward.is_conditional_in(training.loop)
        and training.backward.loops[-1] is step.loops[-1] is training.loop
    )


def _short(loss: str) -> str:
    return loss if 0 < len(loss) <= 40 and "\n" not in loss else "the loss"
