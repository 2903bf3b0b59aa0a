"""A loop that accumulates gradients makes its first step too early.

`index % 4 == 0` is true for the first batch, whose index is 0. The first step is made with the gradients of one batch,
divided as if there were four, and at the end of the epoch the last batches are left without a step. A count from 1 to
which the test adds 1 leaves out one batch of the first step. No error is raised.

## Bad

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / 4
        loss.backward()
        if index % 4 == 0:
            optimizer.step()  # <- off-by-one-accumulation
            optimizer.zero_grad()

The number in an attribute, and a progress bar around the loader:

    from tqdm import tqdm

    class Settings:
        accumulation_steps = 2

    settings = Settings()
    for step, (x, y) in enumerate(tqdm(loader)):
        (criterion(net(x), y) / settings.accumulation_steps).backward()
        if not step % settings.accumulation_steps:
            optimizer.step()  # <- off-by-one-accumulation
            optimizer.zero_grad()

The count starts at 1, and the test adds 1 as well:

    for index, (x, y) in enumerate(loader, start=1):
        (criterion(net(x), y) / 2).backward()
        if (index + 1) % 2 == 0:
            optimizer.step()  # <- off-by-one-accumulation
            optimizer.zero_grad()

## Good

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / 4
        loss.backward()
        if (index + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

## When it is fine

Counting starts at 1, or the step comes before the backward pass of its iteration:

    for index, (x, y) in enumerate(loader, 1):
        (criterion(net(x), y) / 4).backward()
        if index % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()

    for index, (x, y) in enumerate(loader):
        if index % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        (criterion(net(x), y) / 4).backward()

Another optimizer that steps less often than the one that trains with every batch:

    slow = torch.optim.SGD(net.parameters(), lr=0.01)
    for index, (x, y) in enumerate(loader):
        criterion(net(x), y).backward()
        if index % 4 == 0:
            slow.step()
        optimizer.step()
        optimizer.zero_grad()

## Fix

None: other code may count the steps with the same test.

## References

The fix in `paolorechia/common-lit-kaggle`, commit bc5380e07781.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import script_text, step_counters, training_loops
from lintrain.pipeline.events import Act
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location


class OffByOneAccumulation(Rule):
    level = Level.NOTE
    keywords = "backward & enumerate & %"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        is_left = script_text.runs_by_launcher(pipeline) and pipeline.source.contains(LEFT_TO_LAUNCHER)
        if not training_loops.trains_by_hand(pipeline) or is_left:
            return
        yield from one_per_location(
            self._report(first)
            for training in training_loops.training_loops(pipeline)
            if (first := step_counters.first_step(pipeline, training)) is not None and not _clears_always(training)
        )

    def _report(self, first: step_counters.FirstStep) -> Finding:
        if first.is_late:
            return self.finding(
                first.step.location,
                "the first step lacks one batch: the loop counts from 1, and the test adds 1",
                related=[Related(first.test, f"true for the first time one batch before `{first.batches}`", "test")],
                help=f"test `{first.counter} % {first.batches} == 0`",
                subject=LATE,
            )
        return self.finding(
            first.step.location,
            f"the first step has the gradients of one batch: 0 is divisible by `{first.batches}`"
            if len(first.batches) <= LONGEST
            else "the first step has the gradients of one batch, and not of several",
            related=[Related(first.test, "true in the first iteration", "test")],
            help=f"test `({first.counter} + 1) % {first.batches} == 0`",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if evidence.loop is not None and len(evidence.loop.optimizers) == 1:
            yield self.finding(
                evidence.first("steps") or evidence.location,
                "the first step has the gradients of one batch, and not of several",
                help="count batches from 1 where the loop tests whether to step: `(i + 1) % n == 0`",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        first, *later = loop.backwards_per_step or (0,)
        is_early = first == 1 or finding.subject == LATE
        if loop.accumulates > 1 or first == 0 or (is_early and not later):
            return Verdict.inconclusive(f"{loop.steps} steps ran, at least 2 are needed")
        # Batches are counted only where they come from a loader.
        is_one_each = not any(loop.batches_per_step) or loop.batches_per_step == loop.backwards_per_step
        is_even = bool(later) and min(later) == max(later) > 1
        if is_even and first in {1, later[0] - 1} and is_one_each:
            batches = "1 batch" if first == 1 else f"{first} batches"
            text = f"the first step came after {batches}, each later one after {later[0]}"
            return Verdict.confirmed(text, first=first)
        return Verdict.refuted(f"the first step came after {first} backward passes", first=first)


def _clears_always(training: training_loops.TrainingLoop) -> bool:
    """Whether each iteration clears the gradients, so that no step has those of several batches."""
    backward = training.backward
    clears = (event for event in training.inside if event.act is Act.ZERO_GRAD and event.loops == backward.loops)
    return any(training_loops.always_with(event, backward) for event in clears)


LEFT_TO_LAUNCHER = r"\.accumulate\(|no_backward_sync|no_sync|sync_gradients"
"""Code that leaves to Accelerate or Fabric when gradients are complete."""

LATE = "start"
"""What a finding is about whose loop counts from 1."""

LONGEST = 12
"""Characters of code that the message has room for."""
