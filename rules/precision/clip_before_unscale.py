"""Gradients are clipped while they are still multiplied by the loss scale.

A gradient scaler multiplies the loss, and with it every gradient, by a number such as 65536. A norm clipped to 1 is far
below 1 after the scaler divides it again: each step is thousands of times too small, and the loss hardly changes.

## Bad

    scaler = torch.amp.GradScaler(device)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <- clip-before-unscale
        scaler.step(optimizer)
        scaler.update()

## Good

    scaler = torch.amp.GradScaler(device)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

## When it is fine

A disabled scaler leaves gradients unchanged:

    scaler = torch.amp.GradScaler(device, enabled=False)
    for x, y in loader:
        optimizer.zero_grad()
        scaler.scale(criterion(net(x), y)).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()

Without a scaler, the loop may take another branch:

    scaler = torch.amp.GradScaler(device) if device == "cuda" else None
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        if scaler is not None:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()

The launcher's own clipping unscales first:

    accelerator = Accelerator()
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    for x, y in loader:
        optimizer.zero_grad()
        accelerator.backward(criterion(net(x), y))
        accelerator.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

## Fix

Safe: a threshold on scaled gradients clips almost all of them.

## References

PyTorch documentation, "Automatic Mixed Precision examples", section "Gradient clipping".
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

from lintrain.analysis import iterations, statements, training_loops
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.values.model import Launcher, Scaler
from lintrain.pipeline.values.python import text_of
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Pipeline,
    Related,
    Rule,
    Verdict,
    dataclass,
    fixes,
    lazy_pattern,
    one_per_location,
)

CLIPS = lazy_pattern(r"(^|\.)clip_grad_(norm|value)_?$")
UNSCALES = lazy_pattern(r"\.unscale_\w*$")
STEPS = lazy_pattern(r"\.(step|backward|update)$")


@dataclass(frozen=True, slots=True)
class Claim:
    """The statement to insert before the clipping."""

    statement: str


class ClipBeforeUnscale(Rule[Claim]):
    level = Level.ERROR
    keywords = "clip & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from self._report_order(pipeline)
        if pipeline.acts(Act.UNSCALE):
            return
        plain = [
            (training, clip) for training, clip in iterations.clippings(pipeline) if "launcher" not in clip.details
        ]
        steps = ((clip, _scaled_step_after(pipeline, training, clip)) for training, clip in plain)
        yield from one_per_location(self._report(pipeline, clip, step) for clip, step in steps if step)
        launched = ((clip, _scaling_launcher(pipeline, training, clip)) for training, clip in plain)
        yield from one_per_location(self._report_launched(pipeline, clip, by) for clip, by in launched if by)

    def _report_order(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        """The clippings that a statement of the same block unscales only afterwards."""
        if not pipeline.source.contains("unscale_"):
            return
        for clip, unscale in statements.calls_in_order(pipeline.source, CLIPS, UNSCALES, STEPS):
            scaler = pipeline.code(unscale).partition(".unscale")[0]
            yield self.finding(
                clip,
                f"gradients are clipped before `{scaler}` unscales them",
                related=[Related(unscale, "unscaled only here", "step")],
                help="unscale first, then clip",
            )

    def _report(self, pipeline: Pipeline, clip: Event, step: Event) -> Finding[Claim]:
        scaler, optimizer = training_loops.text_of_event(step, "scaler_text"), training_loops.text_of_event(step)
        called = blocks.call_leading_to(pipeline, clip, step)
        related = [Related(step.location, "unscaled only here", "step")]
        return self.finding(
            called or clip.location,
            f"gradients are clipped before `{scaler}` unscales them",
            related=[*related, Related(clip.location, "clipped here", "clip")] if called else related,
            help=f"call `{scaler}.unscale_({optimizer})` before clipping",
            claim=None if called else Claim(f"{scaler}.unscale_({optimizer})"),
        )

    def _report_launched(self, pipeline: Pipeline, clip: Event, launcher: Launcher) -> Finding[Claim]:
        name = next((binding.name for binding in pipeline.names_of(launcher)), "accelerator")
        return self.finding(
            clip.location,
            f"gradients are clipped while `{name}` scales them for float16",
            related=[Related(launcher.origin, "scales the loss in its `backward`", "step")] if launcher.origin else [],
            help=f"call `{name}.clip_grad_norm_` instead, which unscales first",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if location := evidence.first("clipped_while_scaled"):
            yield self.finding(
                location,
                "gradients are clipped before the scaler unscales them",
                help="call `unscale_` with the optimizer before clipping",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.clipped_while_scaled} of {loop.clips} clipping calls received scaled gradients"
        if not loop.clips:
            return Verdict.inconclusive(text, clips=loop.clips)
        if not loop.scaled:
            return Verdict.inconclusive(
                f"on {evidence.device} the scaler is disabled, and does not scale", clips=loop.clips
            )
        return (Verdict.confirmed if loop.clipped_while_scaled else Verdict.refuted)(text, clips=loop.clips)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        if finding.claim is None:
            return None
        statement = finding.claim.statement
        return fixes.Fix.of(
            f"insert `{statement}` before clipping", fixes.InsertBefore(finding.location, statement), safe=True
        )


def _scaled_step_after(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event) -> Event | None:
    """The scaler's step that follows a clipping call, with no other step or backward call between them."""
    escaped = any(isinstance(event.subject, Scaler) for event in pipeline.acts(Act.ESCAPE))
    at = bisect_left(training.inside, clip.order, key=_order)
    before = _first_with(clip, training.inside, range(at - 1, -1, -1))
    after = _first_with(clip, training.inside, range(at + 1, len(training.inside)))
    if escaped or before is None or after is None or before.act is not Act.BACKWARD or after.act is not Act.STEP:
        return None
    scaler = after.details.get("scaler")
    if (
        scaler is None
        or iterations.is_switched_off(scaler)
        or iterations.concerns(pipeline, clip, after.subject) is False
    ):
        return None
    is_scaled = ".scale(" in pipeline.code(before.location) or isinstance(scaler, Scaler)
    return after if is_scaled else None


def _scaling_launcher(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event) -> Launcher | None:
    """The launcher whose backward pass has just scaled what a function of torch clips."""
    at = bisect_left(training.inside, clip.order, key=_order)
    before = _first_with(clip, training.inside, range(at - 1, -1, -1))
    launcher = before.subject if before is not None and before.act is Act.BACKWARD else None
    if not isinstance(launcher, Launcher) or not launcher.is_accelerator:
        return None
    is_scaling = text_of(launcher.arguments.get("mixed_precision", launcher)) == "fp16"
    return launcher if is_scaling and not pipeline.source.contains("unscale_gradients") else None


def _order(event: Event) -> int:
    return event.order


def _first_with(clip: Event, inside: Sequence[Event], numbers: Iterable[int]) -> Event | None:
    """The first backward call or step among these events that can occur in the same iteration as the clipping."""
    events = (inside[number] for number in numbers)
    return next(
        (event for event in events if event.act in {Act.STEP, Act.BACKWARD} and not iterations.contradict(event, clip)),
        None,
    )
