"""The optimizer steps on gradients that were just cleared.

`zero_grad` between `backward` and `step` throws away what backward computed. Every step then goes along no gradient at
all: the loss prints, the epochs pass, and no weight learns anything.

## Bad

    for x, y in loader:
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.zero_grad()  # <- wrong-step-order
        optimizer.step()

A step before `backward` comes to the same:

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

It is the same cure for both:

    for x, y in loader:
        loss = criterion(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

As long as the clearing comes between a step and the next backward pass, a loop may begin with any of them:

    criterion(net(features), targets).backward()
    for x, y in loader:
        optimizer.step()
        optimizer.zero_grad()
        criterion(net(x), y).backward()

## When it is fine

The clearing may be that of another optimizer:

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

Safe: in any other order a step uses no gradients, or those of the batch before.

## References

PyTorch tutorial, "Optimizing Model Parameters".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Optimizer
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class WrongStepOrder(Rule):
    level = Level.ERROR
    keywords = "backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline):
            return
        found: dict[Location, Finding] = {}
        for training in training_loops.training_loops(pipeline):
            if iterations.hides_gradients(pipeline, training):
                continue
            for step in training.steps:
                cleared = _cleared_before(pipeline, training, step)
                if cleared is not None:
                    report = self._report(pipeline, training, step, cleared)
                    found.setdefault(report.location, report)
        yield from found.values()

    def _report(
        self, pipeline: Pipeline, training: training_loops.TrainingLoop, step: Event, cleared: Event
    ) -> Finding:
        optimizer, backward = training_loops.text_of_event(step), training.backward
        steps_first = step.order < backward.order
        first, second = (step, backward) if steps_first else (backward, cleared)
        swapped = iterations.swap_of(pipeline, first, second)
        what = "comes before `backward`, and sees" if steps_first else "sees"
        return self.finding(
            step.location if steps_first else cleared.location,
            f"`{optimizer}.step()` {what} cleared gradients only",
            related=[
                Related(backward.location, "gradients are computed here", "backward"),
                Related(
                    (cleared if steps_first else step).location,
                    "cleared here" if steps_first else "steps here",
                    "other",
                ),
            ],
            help="clear before `backward`, and step after it",
            facts={"first": swapped[0], "second": swapped[1]} if swapped else {},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        for use in loop.optimizers:
            if use.steps and use.reached and use.steps_on_nothing == use.steps:
                text = f"{use.steps_on_nothing} of {use.steps} steps of `{use.name}` found no gradient"
                return Verdict.confirmed(
                    f"{text}, after {use.reached} backward passes", steps_on_nothing=use.steps_on_nothing
                )
        steps, nothing = loop.steps, sum(use.steps_on_nothing for use in loop.optimizers)
        if steps and not nothing:
            return Verdict.refuted(f"{steps} of {steps} steps found gradients", steps=steps)
        return Verdict.inconclusive(
            f"{nothing} of {steps} steps found no gradient", steps=steps, steps_on_nothing=nothing
        )

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        uses = evidence.loop.optimizers if evidence.loop else ()
        if any(use.dropped and use.steps_on_nothing == use.steps > 1 for use in uses):
            what = "the optimizer steps when its gradients are cleared already"
            yield from self.if_confirmed(self.finding(evidence.location, what), evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding) -> fixes.Fix | None:
        first, second = finding.facts.get("first"), finding.facts.get("second")
        if not isinstance(first, str) or not isinstance(second, str):
            return None
        backward = finding.with_role("backward")[0].location
        upper, lower = sorted((finding.location, backward))
        swap = (fixes.Replace(upper, second), fixes.Replace(lower, first))
        return fixes.Fix.of("put `backward` after the clearing and before the step", *swap, safe=True)


def _cleared_before(pipeline: Pipeline, training: training_loops.TrainingLoop, step: Event) -> Event | None:
    """What clears the gradients of an optimizer after each backward pass and before its step."""
    order = iterations.always_in_order(training)
    if (
        not order
        or not training_loops.is_certain_step(step)
        or "scaler" in step.details
        or not isinstance(step.subject, Optimizer)
    ):
        return None
    for event in iterations.going_back(order, step):
        if event.act is Act.BACKWARD:
            return None
        concerned = iterations.is_of(pipeline, event, step.subject)
        if concerned is None or (concerned and event.act is Act.STEP):
            return None
        if concerned:
            return event
    return None
