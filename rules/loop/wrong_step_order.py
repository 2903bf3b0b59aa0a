"""The optimizer steps on gradients that were just cleared.

`zero_grad` between `backward` and `step` discards the gradients that `backward` computed. Every step then runs without
gradients: the loss is printed, the epochs pass, but the weights never change.

## Bad

    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.zero_grad()  # <- wrong-step-order
        optimizer.step()

A step before `backward` has the same effect:

    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        optimizer.step()  # <- wrong-step-order
        loss.backward()

## Good

    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

The fix is the same for both:

    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

A loop may start with any of the three calls, as long as `zero_grad` comes between a step and the next `backward`:

    criterion(net(features), targets).backward()
    for x, y in loader:
        optimizer.step()
        optimizer.zero_grad()
        criterion(net(x), y).backward()

## When it is fine

`zero_grad` may belong to another optimizer:

    critic = nn.Linear(8, 3)
    critic_optimizer = torch.optim.SGD(critic.parameters(), lr=0.1)
    for x, y in loader:
        criterion(net(x), y).backward()
        critic_optimizer.zero_grad()
        optimizer.step()
        optimizer.zero_grad()
        criterion(critic(x), y).backward()
        critic_optimizer.step()

A closure computes the gradients inside `step`:

    bfgs = torch.optim.LBFGS(net.parameters())

    def closure():
        bfgs.zero_grad()
        loss = criterion(net(features), targets)
        loss.backward()
        return loss

    for _ in range(3):
        bfgs.step(closure)

## Fix

Safe: in any other order, a step uses no gradients or those of the previous batch.

## References

PyTorch tutorial, "Optimizing Model Parameters".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import gradients, iterations, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import Unknown, Value
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The two statements to swap."""

    first: str
    second: str


class WrongStepOrder(Rule[Claim]):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found: dict[Location, Finding[Claim]] = {}
        for training in training_loops.training_loops(pipeline):
            if iterations.hides_gradients(pipeline, training):
                continue
            for step in training.steps:
                cleared = _cleared_before(pipeline, training, step)
                if cleared is not None:
                    report = self._report(pipeline, training, step, cleared)
                    found.setdefault(report.location, report)
        for backward, cleared, step in _steps_on_nothing(pipeline):
            location = step.location if step.order < backward.order else cleared.location
            found.setdefault(location, self._report_single(backward, cleared, step))
        yield from found.values()

    def _report_single(self, backward: Event, cleared: Event, step: Event) -> Finding[Claim]:
        steps_first = step.order < backward.order
        what = "runs before `backward`, with" if steps_first else "runs with"
        return self.finding(
            step.location if steps_first else cleared.location,
            f"`{training_loops.text_of_event(step)}.step()` {what} cleared gradients",
            related=[
                Related(backward.location, "gradients are computed here", "backward"),
                Related(
                    (cleared if steps_first else step).location,
                    "cleared here" if steps_first else "steps here",
                    "other",
                ),
            ],
            help="call `zero_grad` before `backward`, and `step` after it",
        )

    def _report(
        self, pipeline: Pipeline, training: training_loops.TrainingLoop, step: Event, cleared: Event
    ) -> Finding[Claim]:
        optimizer, backward = training_loops.text_of_event(step), training.backward
        steps_first = step.order < backward.order
        first, second = (step, backward) if steps_first else (backward, cleared)
        swapped = iterations.swap_of(pipeline, first, second)
        what = "runs before `backward`, with" if steps_first else "runs with"
        return self.finding(
            step.location if steps_first else cleared.location,
            f"`{optimizer}.step()` {what} cleared gradients",
            related=[
                Related(backward.location, "gradients are computed here", "backward"),
                Related(
                    (cleared if steps_first else step).location,
                    "cleared here" if steps_first else "steps here",
                    "other",
                ),
            ],
            help="call `zero_grad` before `backward`, and `step` after it",
            claim=Claim(*swapped) if swapped else None,
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        for use in loop.optimizers:
            if use.steps and use.reached and use.steps_on_nothing == use.steps:
                text = f"{use.steps_on_nothing} of {use.steps} steps of `{use.name}` found no gradient"
                return Verdict.confirmed(
                    f"{text} after {use.reached} backward passes", steps_on_nothing=use.steps_on_nothing
                )
        steps, nothing = loop.steps, sum(use.steps_on_nothing for use in loop.optimizers)
        if steps and not nothing:
            return Verdict.refuted(f"{steps} of {steps} steps found gradients", steps=steps)
        return Verdict.inconclusive(
            f"{nothing} of {steps} steps found no gradient", steps=steps, steps_on_nothing=nothing
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        uses = evidence.loop.optimizers if evidence.loop else ()
        for use in (each for each in uses if each.dropped and each.steps_on_nothing == each.steps > 1):
            location = use.early_at or use.cleared_at or evidence.location
            what = "the optimizer steps after its gradients have been cleared"
            yield from self.if_confirmed(self.finding(location, what), evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        backward = finding.with_role("backward")[0].location
        upper, lower = sorted((finding.location, backward))
        swap = (fixes.Replace(upper, claim.second), fixes.Replace(lower, claim.first))
        return fixes.Fix.of("call `backward` between `zero_grad` and `step`", *swap, safe=True)


def _cleared_before(pipeline: Pipeline, training: training_loops.TrainingLoop, step: Event) -> Event | None:
    """The call that clears the gradients of an optimizer between each backward pass and its step."""
    order = training.always
    if not order or not training_loops.is_certain_step(step) or "scaler" in step.details:
        return None
    if not isinstance(step.subject, Optimizer) and not _has_name(step.subject):
        return None
    for event in iterations.events_before(order, step):
        if event.act is Act.BACKWARD:
            return None
        concerned = iterations.concerns(pipeline, event, step.subject)
        if concerned is None and event.act is Act.ZERO_GRAD and _is_only_network(pipeline, training, event):
            concerned = True
        if concerned is None or (concerned and event.act is Act.STEP):
            return None
        if concerned:
            return event
    return None


def _is_only_network(pipeline: Pipeline, training: training_loops.TrainingLoop, cleared: Event) -> bool:
    """Whether `model.zero_grad()` clears the only network that a loop runs, which has one optimizer and one loss."""
    inside = pipeline.events_in(training.loop)
    passes = [event for event in inside if event.act is Act.FORWARD]
    steps = [event for event in inside if event.act is Act.STEP]
    backwards = [event for event in inside if event.act is Act.BACKWARD]
    is_alone = bool(passes) and len(steps) == len(backwards) == 1
    return is_alone and all(event.subject is cleared.subject for event in passes)


MOST_STEPS = 64
"""Steps of one script that are looked at outside of loops."""


def _steps_on_nothing(pipeline: Pipeline) -> Iterator[tuple[Event, Event, Event]]:
    """Steps outside of loops, as in a function for one batch, whose gradients the statements before have cleared."""
    for step in pipeline.acts(Act.STEP)[:MOST_STEPS]:
        if step.loops or "scaler" in step.details or not training_loops.is_certain_step(step):
            continue
        same = [
            event
            for event in pipeline.acts(Act.BACKWARD, Act.ZERO_GRAD, Act.STEP, Act.GRADIENT, Act.ESCAPE)
            if (event.function, event.uncalled, event.conditions) == (step.function, step.uncalled, step.conditions)
            and not event.loops
        ]
        backwards = [event for event in same if event.act is Act.BACKWARD]
        clears = [event for event in same if event.act is Act.ZERO_GRAD and event.order < step.order]
        if len(backwards) != 1 or not clears or any(gradients.handles(pipeline, event) for event in same):
            continue
        is_other = iterations.concerns(pipeline, clears[-1], step.subject) is False
        steps = [event for event in same if event.act is Act.STEP]
        if is_other or len(steps) != 1 or any(training_loops.may_hide(pipeline, event, step.subject) for event in same):
            continue
        if backwards[0].order < clears[-1].order or backwards[0].order > step.order:
            yield backwards[0], clears[-1], step


def _has_name(subject: Value) -> bool:
    """Whether an unknown optimizer is one thing: `self.optimizer`, a parameter, an import."""
    return isinstance(subject, Unknown) and bool(subject.name)
