"""The Accelerator has `gradient_accumulation_steps`, but the loop does not use `accumulate`.

`accelerator.backward` divides each loss by the accumulation steps, but the optimizer skips steps only inside `with
accelerator.accumulate(model)`. Without it, the optimizer steps on every batch, with a fraction of the gradient.

## Bad

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        accelerator.backward(criterion(net(x), y))  # <- missing-accumulate-context
        optimizer.step()
        optimizer.zero_grad()

## Good

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            accelerator.backward(criterion(net(x), y))
            optimizer.step()
            optimizer.zero_grad()

## When it is fine

The loop may count the batches itself:

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for index, (x, y) in enumerate(loader):
        accelerator.backward(criterion(net(x), y))
        if (index + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()

The number may come from the command line, with a default of 1:

    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulation", type=int, default=1)
    accelerator = Accelerator(gradient_accumulation_steps=parser.parse_args().accumulation)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        optimizer.step()

## Fix

Asks first: the optimizer then steps once per accumulation window, so the run has fewer steps. Offered if a single model
runs in the loop.

## References

Accelerate documentation, "Performing gradient accumulation with Accelerate".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import Constant, number_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, dataclass, fixes


@dataclass(frozen=True, slots=True)
class Claim:
    """The loop whose body to wrap, and the context manager."""

    item: str
    loop: Location


CLEARED_LAST = ", and clear the gradients after the step"
"""Within `accumulate`, a clearing before the last backward pass drops the gradients of the batches before it."""


class MissingAccumulateContext(Rule[Claim]):
    level = Level.ERROR
    keywords = "Accelerator|Fabric & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline) or _uses_accumulate(pipeline) or len(pipeline.launchers) != 1:
            return
        found: dict[Location, Finding[Claim]] = {}
        for training in training_loops.training_loops(pipeline):
            launcher = training.backward.subject
            if isinstance(launcher, Launcher) and _accumulates(launcher) and _steps_each_time(pipeline, training):
                found.setdefault(training.backward.location, self._report(pipeline, training, launcher))
        yield from found.values()

    def _report(self, pipeline: Pipeline, training: training_loops.TrainingLoop, launcher: Launcher) -> Finding[Claim]:
        backward, step = training.backward, training.steps[0]
        batches = number_of(iterations.divisor_of(launcher))
        clears_first = any(event.act is Act.ZERO_GRAD and event.order < backward.order for event in training.inside)
        return self.finding(
            backward.location,
            f"`{training_loops.text_of_event(step)}` steps on every batch with 1/{batches:g} of its gradient",
            related=[
                Related(
                    launcher.argument_locations["gradient_accumulation_steps"], "`backward` divides by this", "argument"
                ),
                Related(step.location, "steps on every batch", "step"),
            ],
            help="wrap the loop body in `with accelerator.accumulate(model):`" + (CLEARED_LAST if clears_first else ""),
            claim=None if clears_first else _wrapping(pipeline, training),
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop, location = evidence.loop, evidence.first("backwards")
        if loop is not None and location is not None and loop.accumulates > 1 and not loop.past_the_launcher:
            yield self.finding(
                location,
                f"each loss is divided by {loop.accumulates}, but the optimizer steps on every batch",
                help="wrap the iteration in `with accelerator.accumulate(model):`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.steps} optimizer steps ran for {loop.backwards} backward passes"
        if loop.backwards < 2 or not loop.steps:
            return Verdict.inconclusive(text)
        return (Verdict.confirmed if max(loop.backwards_per_step) < 2 else Verdict.refuted)(text, steps=loop.steps)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        wrap = fixes.WrapBody(claim.loop, claim.item)
        return fixes.Fix.of(f"wrap the loop body in `with {claim.item}:`", wrap, safe=False)


def _uses_accumulate(pipeline: Pipeline) -> bool:
    """Whether the script uses `accumulate`; outside of it, `sync_gradients` alone is always true."""
    return any(not pipeline.code(event.location).endswith(".sync_gradients") for event in pipeline.acts(Act.ACCUMULATE))


def _accumulates(launcher: Launcher) -> bool:
    """Whether an Accelerator certainly divides by more than 1, without a plugin."""
    steps = iterations.divisor_of(launcher)
    plugins = any("plugin" in name for name in launcher.arguments)
    if plugins or launcher.is_open or not isinstance(steps, Constant):
        return False
    return not steps.may_differ and (number_of(steps) or 1) > 1


def _steps_each_time(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether every iteration has a backward pass and a step."""
    acts = {event.act for event in training.always}
    return {Act.BACKWARD, Act.STEP} <= acts and not iterations.hides_gradients(pipeline, training)


def _wrapping(pipeline: Pipeline, training: training_loops.TrainingLoop) -> Claim | None:
    """The loop to wrap and its context manager, if one model with a plain name runs in it, all in one file."""
    loop, launcher = training.loop.location, pipeline.code(training.backward.location).partition(".backward(")[0]
    passes = [event for event in training.inside if event.act is Act.FORWARD and not event.without_grad]
    models = {pipeline.code(event.location).partition("(")[0] for event in passes}
    if (
        len(models) != 1
        or not loop.holds(training.backward.location)
        or not all(loop.holds(each.location) for each in passes)
    ):
        return None
    (model,) = models
    if not re.fullmatch(r"[\w.]+", f"{model}.{launcher}"):
        return None
    return Claim(f"{launcher}.accumulate({model})", loop)
