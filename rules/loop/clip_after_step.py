"""Gradients are clipped after the optimizer has used them.

The step takes the gradients as they are, and clipping then shortens what the next `zero_grad` throws away. Training
runs as if there were no clipping: one bad batch can still throw the weights far off.

## Bad

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

## When it is fine

A loop may be written so that the step belongs to the next iteration:

    criterion(net(features), targets).backward()
    for x, y in loader:
        optimizer.step()
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)

The step before it may be that of another optimizer:

    head = nn.Linear(3, 3)
    head_optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        head_optimizer.zero_grad()
        criterion(head(net(x)), y).backward()
        head_optimizer.step()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

A second call may only look at the norm:

    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), float("inf"))

## Fix

Safe: clipping gradients that were used already has no effect.

## References

PyTorch documentation, `torch.nn.utils.clip_grad_norm_`.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes, one_per_location


class ClipAfterStep(Rule):
    level = Level.ERROR
    keywords = "clip & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        steps = ((clip, _used_before(pipeline, training, clip)) for training, clip in iterations.clippings(pipeline))
        yield from one_per_location(self._report(pipeline, clip, step) for clip, step in steps if step)

    def _report(self, pipeline: Pipeline, clip: Event, step: Event) -> Finding:
        optimizer = training_loops.text_of_event(step)
        swapped = iterations.swap_of(pipeline, step, clip)
        return self.finding(
            clip.location,
            f"gradients are clipped when `{optimizer}` has already stepped on them",
            related=[Related(step.location, "steps on gradients of any size", "step")],
            help=f"clip between `backward` and `{optimizer}.step()`",
            facts={"step": swapped[0], "clip": swapped[1]} if swapped else {},
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.clipped_for_nothing} of {loop.clips} clippings found no gradient that a step was still to use"
        if not loop.clips or 0 < loop.clipped_for_nothing < loop.clips:
            return Verdict.inconclusive(text, clips=loop.clips)
        return (Verdict.confirmed if loop.clipped_for_nothing else Verdict.refuted)(text, clips=loop.clips)

    def fix(self, finding: Finding) -> fixes.Fix | None:
        step, clip = finding.facts.get("step"), finding.facts.get("clip")
        if not isinstance(step, str) or not isinstance(clip, str):
            return None
        above = finding.with_role("step")[0].location
        return fixes.Fix.of(
            "clip before the step", fixes.Replace(above, clip), fixes.Replace(finding.location, step), safe=True
        )


def _used_before(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event) -> Event | None:
    """The step that uses the gradients before they are clipped, if none comes between the clipping and new ones."""
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
    if not training_loops.is_certain_step(step) or not _concerns(pipeline, training, clip, step):
        return None
    if not any(event.act is Act.BACKWARD and training_loops.always_with(event, step) for event in before):
        return None
    later = next(
        (event for event in [*following, *before] if event.act in {Act.STEP, Act.BACKWARD, Act.ZERO_GRAD}), step
    )
    return None if later.act is Act.STEP else step


def _concerns(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event, step: Event) -> bool:
    """Whether what is clipped is what the step has used: certain where the loop has one optimizer."""
    if len({id(each.subject) for each in training.steps}) == 1:
        return iterations.is_of(pipeline, clip, step.subject) is not False
    return iterations.is_of(pipeline, clip, step.subject) is True
