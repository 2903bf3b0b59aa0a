"""The Accelerator is told to accumulate, and the loop does not ask it to.

`accelerator.backward` divides each loss by the accumulation steps, but the optimizer is held back only inside `with
accelerator.accumulate(model)`. Without it every batch makes a step, with a fraction of its gradient.

## Bad

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))  # <- missing-accumulate-context
        optimizer.step()

## Good

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            optimizer.zero_grad()
            accelerator.backward(criterion(net(x), y))
            optimizer.step()

## When it is fine

The loop may count batches itself:

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for index, (x, y) in enumerate(loader):
        accelerator.backward(criterion(net(x), y))
        if (index + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()

The number may come from the command line, where it is 1 as a rule:

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

Asks first: the optimizer steps once in so many batches then, as the Accelerator was told, so that the run takes fewer
steps. Offered where one model runs in the loop.

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
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class MissingAccumulateContext(Rule):
    level = Level.ERROR
    keywords = "Accelerator|Fabric & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if (
            not training_loops.trains_by_hand(pipeline)
            or _holds_gradients_back(pipeline)
            or len(pipeline.launchers) != 1
        ):
            return
        found: dict[Location, Finding] = {}
        for training in training_loops.training_loops(pipeline):
            launcher = training.backward.subject
            if isinstance(launcher, Launcher) and _accumulates(launcher) and _steps_each_time(pipeline, training):
                found.setdefault(training.backward.location, self._report(pipeline, training, launcher))
        yield from found.values()

    def _report(self, pipeline: Pipeline, training: training_loops.TrainingLoop, launcher: Launcher) -> Finding:
        backward, step = training.backward, training.steps[0]
        batches = number_of(iterations.divisor_of(launcher))
        return self.finding(
            backward.location,
            f"`{training_loops.text_of_event(step)}` steps on every batch, with 1/{batches:g} of its gradient",
            related=[
                Related(
                    launcher.argument_locations["gradient_accumulation_steps"], "losses are divided by this", "argument"
                ),
                Related(step.location, "steps each time", "step"),
            ],
            help="put the iteration inside `with accelerator.accumulate(model):`",
            facts=_wrapping(pipeline, training),
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.steps} steps came after {loop.backwards} backward passes"
        if loop.backwards < 2 or not loop.steps:
            return Verdict.inconclusive(text)
        return (Verdict.confirmed if max(loop.backwards_per_step) < 2 else Verdict.refuted)(text, steps=loop.steps)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        loop = finding.location_in_facts
        if loop is None:
            return None
        item = str(finding.facts["item"])
        return fixes.Fix.of(f"put the iteration inside `with {item}:`", fixes.WrapBody(loop, item), safe=False)


def _holds_gradients_back(pipeline: Pipeline) -> bool:
    """Whether a launcher is asked to; `sync_gradients` alone is true all the time outside `accumulate`."""
    return any(not pipeline.code(event.location).endswith(".sync_gradients") for event in pipeline.acts(Act.ACCUMULATE))


def _accumulates(launcher: Launcher) -> bool:
    """Whether an Accelerator certainly divides by more than 1, and no plugin does the rest."""
    steps = iterations.divisor_of(launcher)
    plugins = any("plugin" in name for name in launcher.arguments)
    if plugins or launcher.is_open or not isinstance(steps, Constant):
        return False
    return not steps.is_default and (number_of(steps) or 1) > 1


def _steps_each_time(pipeline: Pipeline, training: training_loops.TrainingLoop) -> bool:
    """Whether backward, step and clearing belong to each iteration."""
    acts = {event.act for event in iterations.always_in_order(training)}
    return {Act.BACKWARD, Act.STEP} <= acts and not iterations.hides_gradients(pipeline, training)


def _wrapping(pipeline: Pipeline, training: training_loops.TrainingLoop) -> dict[str, str | int | float | bool | None]:
    """The loop to wrap and what wraps it, where one model under a plain name runs in it and all stands in one file."""
    loop, launcher = training.loop.location, pipeline.code(training.backward.location).partition(".backward(")[0]
    passes = [event for event in training.inside if event.act is Act.FORWARD and not event.without_grad]
    models = {pipeline.code(event.location).partition("(")[0] for event in passes}
    if (
        len(models) != 1
        or not loop.holds(training.backward.location)
        or not all(loop.holds(each.location) for each in passes)
    ):
        return {}
    (model,) = models
    if not re.fullmatch(r"[\w.]+", f"{model}.{launcher}"):
        return {}
    return {"item": f"{launcher}.accumulate({model})", **loop.as_facts()}
