"""Gradients are clipped before `backward` computes them.

At that point the parameters hold no gradients, or those of the previous batch. The gradients of the current batch are
not clipped: a single bad batch can still cause a very large weight update.

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

With gradient accumulation, clipping may come first in the iteration after a completed window:

    for index, (x, y) in enumerate(loader):
        if index and index % 4 == 0:
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        (criterion(net(x), y) / 4).backward()

## Fix

Safe: clipping before gradients are computed has no effect.

## References

PyTorch documentation, `torch.nn.utils.clip_grad_norm_`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from lintrain.analysis import iterations, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, dataclass, fixes, one_per_location


@dataclass(frozen=True, slots=True)
class Claim:
    """The two statements to swap."""

    clip: str
    backward: str


class ClipBeforeBackward(Rule[Claim]):
    level = Level.ERROR
    keywords = "clip & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(
            self._report(pipeline, clip, training)
            for training, clip in _only_clippings(pipeline)
            if _comes_too_early(pipeline, training, clip)
        )

    def _report(self, pipeline: Pipeline, clip: Event, training: training_loops.TrainingLoop) -> Finding[Claim]:
        used = _step_of(pipeline, training, clip) or training.steps[0]
        step = training_loops.text_of_event(used)
        swapped = iterations.swap_of(pipeline, clip, training.backward)
        return self.finding(
            clip.location,
            f"gradients are clipped before `backward`, so `{step}` uses unclipped ones",
            related=[Related(training.backward.location, "gradients of this batch are computed here", "backward")],
            help="clip between `backward` and the step",
            claim=Claim(*swapped) if swapped else None,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        if location := evidence.first("clipped_before_backward"):
            yield self.finding(
                location,
                "gradients are clipped before `backward`, so the step uses unclipped ones",
                help="clip between `backward` and the step",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        text = f"{loop.clipped_for_nothing} of {loop.clips} clipping calls found no gradient that a later step used"
        # What never gets a gradient is clipped for nothing wherever that is.
        if any(use.steps and not use.reached for use in loop.optimizers):
            return Verdict.inconclusive(f"{text}, and no backward pass gave an optimizer's weights one")
        if not loop.clips or 0 < loop.clipped_for_nothing < loop.clips:
            return Verdict.inconclusive(text, clips=loop.clips)
        return (Verdict.confirmed if loop.clipped_for_nothing else Verdict.refuted)(text, clips=loop.clips)

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        below = finding.with_role("backward")[0].location
        return fixes.Fix.of(
            "clip after `backward`",
            fixes.Replace(finding.location, claim.backward),
            fixes.Replace(below, claim.clip),
            safe=True,
        )


def _only_clippings(pipeline: Pipeline) -> Iterator[tuple[training_loops.TrainingLoop, Event]]:
    """Each clipping call that is the only one in its loop."""
    found = list(iterations.clippings(pipeline))
    counts = Counter(id(training) for training, _ in found)
    return ((training, clip) for training, clip in found if counts[id(training)] == 1)


def _comes_too_early(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event) -> bool:
    """Whether the clipping call precedes both `backward` and the only step of its optimizer in every iteration."""
    step = _step_of(pipeline, training, clip)
    if step is None or not training_loops.is_certain_step(step):
        return False
    order = [event for event in training.always if not iterations.is_of_other(pipeline, event, step.subject)]
    backwards = [event for event in order if event.act is Act.BACKWARD and event.order < step.order]
    is_only = sum(event.act is Act.STEP for event in order) == 1
    if not is_only or not backwards or clip.loops != backwards[0].loops or clip.order > backwards[0].order:
        return False
    # A backward call after the step is one of another loss, unless its gradients are kept for the clipping.
    later = [event for event in order if event.order > step.order]
    return not any(event.act is Act.BACKWARD for event in later) or _is_cleared(order, clip)


def _step_of(pipeline: Pipeline, training: training_loops.TrainingLoop, clip: Event) -> Event | None:
    """The only step of the loop that may use what is clipped."""
    steps = [step for step in training.steps if iterations.concerns(pipeline, clip, step.subject) is not False]
    return steps[0] if len(steps) == 1 else None


def _is_cleared(order: Sequence[Event], clip: Event) -> bool:
    """Whether the iteration clears gradients before it clips them."""
    return any(event.act is Act.ZERO_GRAD and event.order < clip.order for event in order)
