"""Gradients are clipped after the optimizer step that uses them.

The optimizer steps with unclipped gradients, and the clipped ones are discarded by the next `zero_grad`. Clipping has
no effect: a single bad batch can still cause a very large weight update.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <- clip-after-step

Once in each epoch, when every batch has been stepped on:

    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            optimizer.step()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <- clip-after-step

## Good

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

In each epoch, for every batch:

    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            criterion(net(x), y).backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()

## When it is fine

The step on these gradients may be in the next iteration:

    criterion(net(features), targets).backward()
    for x, y in loader:
        optimizer.step()
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)

The preceding step may belong to another optimizer:

    head = nn.Linear(3, 3)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        head_optimizer.zero_grad()
        criterion(head(net(x)), y).backward()
        head_optimizer.step()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

A second call may only read the norm:

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), float("inf"))

## Fix

Safe: clipping gradients that have already been used has no effect.

## References

PyTorch documentation, `torch.nn.utils.clip_grad_norm_`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act, Event
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


@dataclass(frozen=True, slots=True)
class Claim:
    """The two statements to swap."""

    step: str
    clip: str


class ClipAfterStep(Rule[Claim]):
    level = Level.ERROR
    keywords = "clip|clamp & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        steps = [(clip, _used_before(pipeline, training, clip)) for training, clip in iterations.clippings(pipeline)]
        steps += _outside(pipeline)
        steps += _by_hand(pipeline)
        yield from one_per_location(self._report(pipeline, clip, step) for clip, step in steps if step)

    def _report(self, pipeline: Pipeline, clip: Event, step: Event) -> Finding[Claim]:
        optimizer = training_loops.text_of_event(step)
        swapped = iterations.swap_of(pipeline, step, clip)
        return self.finding(
            clip.location,
            f"gradients are clipped after `{optimizer}` has used them",
            related=[Related(step.location, "steps with unclipped gradients", "step")],
            help=f"clip between `backward` and `{optimizer}.step()`",
            claim=Claim(*swapped) if swapped else None,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if location := evidence.first("clipped_after_step"):
            yield self.finding(
                location,
                "gradients are clipped after the optimizer has used them",
                help="clip between `backward` and the step",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.clipped_for_nothing} of {loop.clips} clipping calls found no gradient that a later step used"
        if not loop.clips or 0 < loop.clipped_for_nothing < loop.clips:
            return Verdict.inconclusive(text, clips=loop.clips)
        return (Verdict.confirmed if loop.clipped_for_nothing else Verdict.refuted)(text, clips=loop.clips)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        above = finding.with_role("step")[0].location
        return fixes.Fix.of(
            "clip before the step",
            fixes.Replace(above, claim.clip),
            fixes.Replace(finding.location, claim.step),
            safe=True,
        )


def _used_before(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event) -> Event | None:
    """The step that uses the gradients before they are clipped, if no other step uses the clipped ones."""
    if any(event.act is Act.CLIP and event is not clip for event in training.inside):
        return None
    following = [event for event in training.inside if event.order > clip.order]
    before = [event for event in training.inside if event.order < clip.order]
    step = next((event for event in reversed(before) if event.act in {Act.STEP, Act.BACKWARD}), None)
    if (
        step is None
        or step.act is Act.BACKWARD
        or step.loops != clip.loops
        or not training_loops.always_with(step, clip)
    ):
        return None
    if not training_loops.is_certain_step(step) or not _clips_for(pipeline, training, clip, step):
        return None
    if not any(event.act is Act.BACKWARD and training_loops.always_with(event, step) for event in before):
        return None
    later = next(
        (event for event in [*following, *before] if event.act in {Act.STEP, Act.BACKWARD, Act.ZERO_GRAD}), step
    )
    return None if later.act is Act.STEP else step


def _outside(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """Calls behind a loop that steps on every gradient it computes and clears them again, each with the last step."""
    clips = pipeline.acts(Act.CLIP) if training_loops.trains_by_hand(pipeline) else ()
    for training in training_loops.training_loops(pipeline) if clips else ():
        acts = [event.act for event in training.always if event.act is not Act.ZERO_GRAD]
        around = training.backward.loops[: training.backward.loops.index(training.loop)]
        clears = len(acts) < len(training.always)
        if not around or acts != [Act.BACKWARD, Act.STEP] or not clears or training.has(Act.CLIP):
            continue
        (step,) = training.steps
        if iterations.hides_gradients(pipeline, training) or not training_loops.is_certain_step(step):
            continue
        others = [
            event
            for event in training_loops.events_in(pipeline, around[-1])
            if event.act in {Act.STEP, Act.BACKWARD} and not event.is_inside(training.loop)
        ]
        for clip in clips if not others else ():
            if clip.loops == around and clip.order > step.order and _clips_for(pipeline, training, clip, step):
                yield clip, step


BY_HAND = lazy_pattern(r"\.grad(\.data)?\.(clamp|clip)_?\(")


def _by_hand(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """Gradients that code limits itself, `p.grad.data.clamp_(-1, 1)`, between the step and their clearing."""
    acts = {Act.STEP, Act.BACKWARD, Act.ZERO_GRAD}
    for training in training_loops.training_loops(pipeline) if training_loops.trains_by_hand(pipeline) else ():
        if len({id(step.subject) for step in training.steps}) != 1:
            continue
        around = [event for event in training.inside if event.act in acts]
        for clip in training.inside:
            if clip.act is not Act.GRADIENT or not BY_HAND.search(_line_of(pipeline, clip)):
                continue
            before = [event for event in around if event.order < clip.order]
            after = [event for event in around if event.order > clip.order] + around
            is_used = bool(before) and before[-1].act is Act.STEP and after[0].act is Act.ZERO_GRAD
            if is_used and training_loops.is_certain_step(before[-1]) and not before[-1].conditions:
                yield clip, before[-1]


def _line_of(pipeline: Pipeline, event: Event) -> str:
    return pipeline.source_of(event.location).lines[event.location.line - 1]


def _clips_for(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event, step: Event) -> bool:
    """Whether the clipped gradients are those of the step: certain if the loop has one optimizer."""
    if len({id(each.subject) for each in training.steps}) == 1:
        return iterations.concerns(pipeline, clip, step.subject) is not False
    return iterations.concerns(pipeline, clip, step.subject) is True
