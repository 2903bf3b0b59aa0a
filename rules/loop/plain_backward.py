"""The optimizer is prepared by a launcher, but `backward` is called on the loss itself.

`accelerator.backward` divides the loss by the accumulation steps and scales it for mixed precision. `loss.backward()`
does neither: gradients are too large by the number of accumulated batches, or underflow in float16. Lightning calls
`backward` itself on the loss that `training_step` returns, which fails if the step has called it before. In
`training_step` of a Trainer, it is `self.accelerator` that scales the loss.

## Bad

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            loss = criterion(net(x), y)
            loss.backward()  # <- plain-backward
            optimizer.step()
            optimizer.zero_grad()

## Good

    accelerator = Accelerator(gradient_accumulation_steps=3)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            loss = criterion(net(x), y)
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()

## When it is fine

A model that was not prepared trains as without Accelerate:

    accelerator = Accelerator(gradient_accumulation_steps=3)
    eval_loader = accelerator.prepare(eval_loader)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

A launcher that only moves objects to a device does not change the loss:

    accelerator = Accelerator(mixed_precision="no")
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()

The launcher may be created later, for another loop:

    for x, y in train_loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
    accelerator = Accelerator(gradient_accumulation_steps=2)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        with accelerator.accumulate(net):
            accelerator.backward(criterion(net(x), y))
            optimizer.step()
            optimizer.zero_grad()

## Fix

Safe: without the launcher's `backward`, gradients are neither scaled nor synchronized between processes.

## References

Accelerate documentation, "Migrating your code to Accelerate".
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, lightning_updates, trainer_backwards, training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import Constant, is_missing, number_of, text_of
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
    one_per_location,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The call to write instead, None without a fix."""

    statement: str | None


class PlainBackward(Rule[Claim]):
    level = Level.ERROR
    keywords = "Accelerator|accelerator|Fabric|Lightning|Trainer & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for location, message in lightning_updates.backwards_by_hand(pipeline):
            yield self.finding(
                location,
                message,
                help="return the loss alone, or set `self.automatic_optimization = False` and step by hand",
                claim=Claim(None),
            )
        yield from self._in_trainers(pipeline)
        past = [*self._past_launchers(pipeline), *self._past_accelerators(pipeline)]
        yield from one_per_location(past)

    def _in_trainers(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for call in trainer_backwards.plain_backwards(pipeline.source):
            yield self.finding(
                pipeline.source.location(call),
                "`backward` bypasses the Trainer's accelerator, which scales the loss",
                help="call `self.accelerator.backward(loss)`",
                claim=Claim(None),
                level=Level.WARNING,
            )

    def _past_accelerators(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for each in trainer_backwards.past_accelerators(pipeline.source):
            accumulates = each.name == "accumulate"
            yield self.finding(
                pipeline.source.location(each.backward),
                f"`backward` bypasses the accelerator, which {'divides' if accumulates else 'may scale'} the loss",
                related=[Related(pipeline.source.location(each.needed), "relies on it here", "launcher")],
                help="call `accelerator.backward(loss)`",
                claim=Claim(None),
                level=Level.WARNING if accumulates else Level.NOTE,
            )

    def _past_launchers(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        if not training_loops.trains_by_hand(pipeline) or len(pipeline.launchers) != 1:
            return
        found: dict[Location, Finding[Claim]] = {}
        for training in training_loops.training_loops(pipeline):
            launcher = _bypassed(pipeline, training)
            effect = _effect_of(launcher) if launcher is not None else ""
            # What an option may ask for is worth a note.
            level = self.level if effect else Level.NOTE
            effect = effect or (_effect_of_option(launcher) if launcher is not None else "")
            if launcher is not None and effect:
                report = self._report(pipeline, training.backward, launcher, effect, level)
                found.setdefault(training.backward.location, report)
        yield from found.values()

    def _report(
        self, pipeline: Pipeline, backward: Event, launcher: Launcher, effect: str, level: Level
    ) -> Finding[Claim]:
        name = next((binding.name for binding in pipeline.names_of(launcher)), "")
        loss = training_loops.text_of_event(backward)
        is_simple = bool(name) and pipeline.code(backward.location) == f"{loss}.backward()"
        reasons = [Related(launcher.origin, f"{effect} in its own `backward`", "launcher")] if launcher.origin else []
        return self.finding(
            backward.location,
            f"`backward` bypasses `{name or 'the launcher'}`, which {effect}",
            related=reasons,
            help=f"call `{name or 'accelerator'}.backward(loss)`",
            claim=Claim(f"{name}.backward({loss})" if is_simple else None),
            level=level,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        loop, location = evidence.loop, evidence.first("past_the_launcher")
        if loop is None or location is None or evidence.framework != "accelerate":
            return
        # A script that prepares nothing trains without the launcher.
        is_prepared = loop.steps > loop.steps_past_the_launcher
        if is_prepared and loop.accumulates > 1 and loop.past_the_launcher == loop.backwards:
            yield self.finding(
                location,
                f"`backward` bypasses the launcher, which divides the loss by {loop.accumulates}",
                help="call `accelerator.backward(loss)`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        if not loop.backwards:
            return Verdict.inconclusive(f"{loop.backwards} backward passes ran")
        text = f"{loop.past_the_launcher} of {loop.backwards} backward passes bypassed the launcher"
        return (Verdict.confirmed if loop.past_the_launcher else Verdict.refuted)(
            text, past_the_launcher=loop.past_the_launcher
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        statement = finding.claim.statement if finding.claim else None
        if statement is None:
            return None
        return fixes.Fix.of(f"call `{statement}`", fixes.Replace(finding.location, statement), safe=True)


def _bypassed(pipeline: Pipeline, training: training_loops.TrainingLoop) -> Launcher | None:
    """The launcher that prepared every optimizer that steps after a backward pass, if all those passes bypass it."""
    if any(isinstance(event.subject, Launcher) for event in training.inside if event.act is Act.BACKWARD):
        return None
    if any("scaler" in step.details for step in training.steps):
        return None
    steps = [
        step for step in training.steps if iterations.reaches(pipeline, training.backward, step.subject) is not False
    ]
    prepared = [iterations.launchers_of(step.subject, pipeline.launchers) for step in steps]
    if not prepared or not all(prepared):
        return None
    created, backward = prepared[0][0].origin, training.backward.location
    is_later = created is not None and blocks.is_one_scope(pipeline, created, backward) and backward < created
    return None if is_later else prepared[0][0]


def _effect_of(launcher: Launcher) -> str:
    """The effect of the launcher's `backward` that `loss.backward()` lacks; empty if there is none."""
    if not launcher.is_accelerator:
        precision = text_of(launcher.arguments.get("precision", launcher)) or ""
        return "prepares mixed precision" if "mixed" in precision else ""
    batches = number_of(iterations.divisor_of(launcher))
    if batches is not None and batches > 1:
        return f"divides the loss by {batches:g}"
    mixed = text_of(launcher.arguments.get("mixed_precision", launcher))
    return "scales the loss for float16" if mixed == "fp16" else ""


def _effect_of_option(launcher: Launcher) -> str:
    """What the launcher's `backward` does besides if an option asks for it; empty if none can."""
    if launcher.is_accelerator and _may_change(launcher, "gradient_accumulation_steps"):
        return "may divide the loss"
    if _may_change(launcher, "mixed_precision" if launcher.is_accelerator else "precision"):
        return "may scale the loss"
    return ""


def _may_change(launcher: Launcher, name: str) -> bool:
    """Whether an argument is what an option or another part of the project says."""
    value = launcher.arguments.get(name)
    if isinstance(value, Constant):
        return value.default is not None and bool(value.default.option)
    return value is not None and not is_missing(value)
