"""The loss is divided by the accumulation steps, but the optimizer steps after every batch.

Dividing the loss belongs to gradient accumulation: the gradients of several batches are added, then one step is made.
With a step after each batch nothing is added, and every gradient is too small by that factor. No error is raised.

## Bad

    accumulation_steps = 4
    for x, y in loader:
        loss = criterion(net(x), y) / accumulation_steps
        loss.backward()  # <- divided-without-accumulation
        optimizer.step()
        optimizer.zero_grad()

## Good

    accumulation_steps = 4
    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / accumulation_steps
        loss.backward()
        if (index + 1) % accumulation_steps == 0:
            optimizer.step()
            optimizer.zero_grad()

## When it is fine

The batches of a step come from an inner loop:

    accumulation_steps = 2
    rows = iter(loader)
    for step in range(3):
        optimizer.zero_grad()
        for part in range(accumulation_steps):
            x, y = next(rows)
            loss = criterion(net(x), y) / accumulation_steps
            loss.backward()
        optimizer.step()

## Fix

None: whether to accumulate or not to divide is for the author to decide.

## References

Hugging Face Accelerate documentation, "Performing gradient accumulation"; the fix in `lucidrains/reformer-pytorch`,
commit 42a8682ff8e7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lintrain.analysis import origins, training_loops
from lintrain.pipeline.events import Act
from lintrain.rule import Finding, Level, Pipeline, Related, Rule, lazy_pattern, one_per_location

ACCUMULATED = lazy_pattern(r"(?:\w+\.)*\w*accum\w*")


class DividedWithoutAccumulation(Rule):
    level = Level.WARNING
    keywords = "backward & accum"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline) or pipeline.launchers:
            return
        yield from one_per_location(
            self._report(training, divisor)
            for training in training_loops.training_loops(pipeline)
            if _steps_each_time(training) and (divisor := _divisor(pipeline, training))
        )

    def _report(self, training: training_loops.TrainingLoop, divisor: str) -> Finding:
        return self.finding(
            training.backward.location,
            f"the loss is divided by `{divisor}`, but each `backward` makes a step",
            related=[Related(training.steps[0].location, "steps after each `backward`", "step")],
            help=f"step only every `{divisor}` batches, or do not divide the loss",
        )


def _divisor(pipeline: Pipeline, training: training_loops.TrainingLoop) -> str:
    """The number of accumulated batches that the loss is divided by between the start of its loop and `backward`."""
    loop, backward = training.loop.location, training.backward.location
    loss = origins.loss_of(pipeline, training.backward)
    if loss is None or loop.path != backward.path or not loop.holds(backward):
        return ""
    source = pipeline.source_of(backward)
    inside = (each for each in origins.origins(source, loss) if loop.holds(source.location(each.expression)))
    return next((divisor for each in inside if (divisor := _divides(each.divisors))), "")


def _divides(divisors: Sequence[str]) -> str:
    """The first of some divisors that names a number of accumulated batches."""
    return next((match[0] for each in divisors if (match := ACCUMULATED.fullmatch(each))), "")


def _steps_each_time(training: training_loops.TrainingLoop) -> bool:
    """Whether each backward pass of the loop is followed by a step of its own, and nothing else accumulates."""
    backward = training.backward
    if any(event.act is Act.ACCUMULATE for event in training.inside) or backward.loops[-1] is not training.loop:
        return False
    backwards = {event.location for event in training.inside if event.act is Act.BACKWARD}
    steps = [step for step in training.steps if training_loops.is_certain_step(step)]
    are_plain = all(
        step.order > backward.order and step.loops == backward.loops and step.conditions == backward.conditions
        for step in training.steps
    )
    return len(backwards) == 1 and bool(steps) and are_plain
