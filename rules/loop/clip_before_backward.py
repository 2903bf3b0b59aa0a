"""Gradients are clipped before `backward` computes them.

Clipping works on what the parameters hold at that moment: nothing, or the gradients of the batch before. Those of this
batch go into the step at full length, so that one bad batch can still throw the weights far off.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # <- clip-before-backward
        loss.backward()
        optimizer.step()

## Good

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()

## When it is fine

With accumulation the clipping may stand first, where a window is finished:

    for index, (x, y) in enumerate(loader):
        if index and index % 4 == 0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        (criterion(net(x), y) / 4).backward()

## Fix

Safe: clipping gradients that are not there yet has no effect.

## References

PyTorch documentation, `torch.nn.utils.clip_grad_norm_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, fixes, one_per_location


class ClipBeforeBackward(Rule):
    level = Level.ERROR
    keywords = "clip & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from one_per_location(
            self._report(pipeline, clip, training)
            for training, clip in _only_clippings(pipeline)
            if _comes_too_early(pipeline, training, clip)
        )

    def _report(self, pipeline: Pipeline, clip: Event, training: training_loops.TrainingLoop) -> Finding:
        step = training_loops.text_of_event(training.steps[0])
        swapped = iterations.swap_of(pipeline, clip, training.backward)
        return self.finding(
            clip.location,
            f"gradients are clipped before `backward`, so `{step}` uses unclipped ones",
            related=[Related(training.backward.location, "this batch's gradients are computed here", "backward")],
            help="clip between `backward` and the step",
            facts={"clip": swapped[0], "backward": swapped[1]} if swapped else {},
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
        clip, backward = finding.facts.get("clip"), finding.facts.get("backward")
        if not isinstance(clip, str) or not isinstance(backward, str):
            return None
        below = finding.with_role("backward")[0].location
        return fixes.Fix.of(
            "clip after `backward`", fixes.Replace(finding.location, backward), fixes.Replace(below, clip), safe=True
        )


def _only_clippings(pipeline: Pipeline) -> Iterator[tuple[training_loops.TrainingLoop, Event]]:
    """Each clipping that is the only one of its loop."""
    found = list(iterations.clippings(pipeline))
    counts = Counter(id(training) for training, _ in found)
    return ((training, clip) for training, clip in found if counts[id(training)] == 1)


def _comes_too_early(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event) -> bool:
    """Whether the loop's only clipping comes first of all, in each iteration, and backward and step follow it."""
    order = iterations.always_in_order(training)
    backwards = [event for event in order if event.act is Act.BACKWARD]
    if len(training.steps) != 1 or not backwards or clip.loops != backwards[0].loops:
        return False
    step = training.steps[0]
    follows = clip.order < backwards[0].order and backwards[-1].order < step.order
    return (
        follows and training_loops.is_certain_step(step) and iterations.is_of(pipeline, clip, step.subject) is not False
    )
