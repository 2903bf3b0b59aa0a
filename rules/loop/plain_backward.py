"""The launcher prepares the optimizer, and `backward` is called past it.

`accelerator.backward` divides the loss by the accumulation steps and multiplies it by the scale of mixed precision.
Past it neither is done: gradients are too long by the number of accumulated batches, or underflow in float16.

## Bad

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            loss.backward()  # <- plain-backward
            optimizer.step()

## Good

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            optimizer.zero_grad()
            loss = criterion(net(x), y)
            accelerator.backward(loss)
            optimizer.step()

## When it is fine

A model that was not prepared trains as without accelerate:

    accelerator = Accelerator(gradient_accumulation_steps=3)
    eval_loader = accelerator.prepare(eval_loader)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

Who only lets accelerate place things on a device can do without it:

    accelerator = Accelerator(mixed_precision="no")
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

The launcher may come in later, for another loop:

    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    accelerator = Accelerator(gradient_accumulation_steps=2)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            optimizer.zero_grad()
            accelerator.backward(criterion(net(x), y))
            optimizer.step()

## Fix

Safe: without the launcher's own call gradients are not scaled and not shared among processes.

## References

Accelerate documentation, "Migrating your code to Accelerate".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import number_of, text_of
from lintrain.rule import Evidence, Finding, Level, Location, Pipeline, Related, Rule, Verdict, fixes


class PlainBackward(Rule):
    level = Level.ERROR
    keywords = "Accelerator|Fabric & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline) or len(pipeline.launchers) != 1:
            return
        found: dict[Location, Finding] = {}
        for training in training_loops.training_loops(pipeline):
            launcher = _passed_over(pipeline, training)
            does = _does(launcher) if launcher is not None else ""
            if launcher is not None and does:
                report = self._report(pipeline, training.backward, launcher, does)
                found.setdefault(training.backward.location, report)
        yield from found.values()

    def _report(self, pipeline: Pipeline, backward: Event, launcher: Launcher, does: str) -> Finding:
        name = next((binding.name for binding in pipeline.names_of(launcher)), "")
        loss = training_loops.text_of_event(backward)
        is_simple = bool(name) and pipeline.code(backward.location) == f"{loss}.backward()"
        reasons = [Related(launcher.origin, f"{does} in its own `backward`", "launcher")] if launcher.origin else []
        return self.finding(
            backward.location,
            f"`backward` goes past `{name or 'the launcher'}`, which {does} in its own",
            related=reasons,
            help=f"call `{name or 'accelerator'}.backward(loss)`",
            facts={"statement": f"{name}.backward({loss})" if is_simple else None},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if not loop.backwards:
            return Verdict.inconclusive(f"{loop.backwards} backward passes were seen")
        text = f"{loop.past_the_launcher} of {loop.backwards} backward passes went past the launcher"
        return (Verdict.confirmed if loop.past_the_launcher else Verdict.refuted)(
            text, past_the_launcher=loop.past_the_launcher
        )

    def fix(self, finding: Finding) -> fixes.Fix | None:
        statement = finding.facts.get("statement")
        if not isinstance(statement, str):
            return None
        return fixes.Fix.of(f"call `{statement}`", fixes.Replace(finding.location, statement), safe=True)


def _passed_over(pipeline: Pipeline, training: training_loops.TrainingLoop) -> Launcher | None:
    """The launcher that prepared every optimizer of a loop whose backward passes all go past it."""
    if any(isinstance(event.subject, Launcher) for event in training.inside if event.act is Act.BACKWARD):
        return None
    if any("scaler" in step.details for step in training.steps):
        return None
    prepared = [iterations.launchers_of(step.subject, pipeline.launchers) for step in training.steps]
    if not all(prepared):
        return None
    made, backward = prepared[0][0].origin, training.backward.location
    is_later = made is not None and blocks.is_one_scope(pipeline, made, backward) and backward < made
    return None if is_later else prepared[0][0]


def _does(launcher: Launcher) -> str:
    """What the launcher's backward certainly does that a tensor's does not; empty where it does the same."""
    if not launcher.is_accelerator:
        precision = text_of(launcher.arguments.get("precision", launcher)) or ""
        return "prepares mixed precision" if "mixed" in precision else ""
    batches = number_of(iterations.divisor_of(launcher))
    if batches is not None and batches > 1:
        return f"divides the loss by {batches:g}"
    mixed = text_of(launcher.arguments.get("mixed_precision", launcher))
    return "scales the loss for float16" if mixed == "fp16" else ""
