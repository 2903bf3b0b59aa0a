"""Gradients are cleared in every batch, although the optimizer steps only after several.

Gradient accumulation adds up the gradients of several batches for one step. If `zero_grad` runs in each of them, only
the gradients of the last batch are left for the step, and the other batches were computed for nothing. The same holds
for a call before the backward pass inside `accelerator.accumulate`, which clears with the batch that steps.

## Bad

    for index, (x, y) in enumerate(loader):
        optimizer.zero_grad()  # <- cleared-accumulation
        loss = criterion(net(x), y) / 2
        loss.backward()
        if (index + 1) % 2 == 0:
            optimizer.step()

In the iterations that step, before their own backward pass:

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / 2
        if (index + 1) % 2 == 0:
            optimizer.zero_grad()  # <- cleared-accumulation
        loss.backward()
        if (index + 1) % 2 == 0:
            optimizer.step()

## Good

    optimizer.zero_grad()
    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / 2
        loss.backward()
        if (index + 1) % 2 == 0:
            optimizer.step()
            optimizer.zero_grad()

and

    for index, (x, y) in enumerate(loader):
        loss = criterion(net(x), y) / 2
        if index % 2 == 0:
            optimizer.zero_grad()
        loss.backward()
        if (index + 1) % 2 == 0:
            optimizer.step()

## When it is fine

A second optimizer that steps less often has its own backward pass:

    other = torch.optim.SGD(net.parameters(), lr=0.01)
    for index, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        optimizer.step()
        if index % 2 == 0:
            other.zero_grad()
            criterion(net(x), y).backward()
            other.step()

A step that is left out for other reasons:

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        if torch.isfinite(loss):
            optimizer.step()

## Fix

None: where to clear depends on the rest of the loop.

## References

PyTorch forum, "Why do we need to set the gradients manually to zero"; the fixes in `vwxyzjn/cleanrl`, commit
4cb85d58c971, and `weiaicunzai/pytorch-cifar100`, commit 92a3323c92e1.
"""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import accumulate_contexts, gradients, iterations, script_text, training_loops
from lintrain.pipeline.events import Act, Event
from lintrain.rule import Evidence, Finding, Level, Pipeline, Related, Rule, Verdict, one_per_location


class ClearedAccumulation(Rule):
    level = Level.ERROR
    keywords = "zero_grad|.grad & backward"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        yield from self._in_contexts(pipeline)
        if not training_loops.trains_by_hand(pipeline) or script_text.runs_by_launcher(pipeline):
            return
        yield from one_per_location(
            self._report(clear, step)
            for training in iterations.loops_and_steps(pipeline)
            if (step := iterations.accumulated_step(pipeline, training)) is not None
            for clear in _cleared_always(pipeline, training, step)
        )
        yield from one_per_location(
            self.finding(
                clear.location,
                "the gradients of the batches before are cleared right before their step",
                related=[Related(step.location, "steps with the gradients of this batch only", "step")],
                help="clear the gradients after the step",
            )
            for training in iterations.loops_and_steps(pipeline)
            if (step := iterations.accumulated_step(pipeline, training)) is not None
            for clear in _cleared_before(training, step)
        )
        yield from one_per_location(
            self.finding(
                step.location,
                "this step uses the gradients of the last batch only",
                related=[Related(clear.location, "clears the gradients of the batches before", "clear")],
                help="step in the loop, once for each batch",
            )
            for clear, step in _stepped_after(pipeline)
        )

    def _in_contexts(self, pipeline: Pipeline) -> Iterator[Finding]:
        """Inside `accelerator.accumulate`, which clears only with the batch that steps."""
        for found in accumulate_contexts.cleared_before_steps(pipeline):
            yield self.finding(
                found.clear,
                "the gradients of the batches before are cleared right before their step",
                related=[Related(found.step, "steps with the gradients of this batch only", "step")],
                help="clear the gradients after the step",
                level=Level.ERROR if found.is_certain else Level.WARNING,
            )

    def _report(self, clear: Event, step: Event) -> Finding:
        return self.finding(
            clear.location,
            "gradients are cleared in every batch, but the optimizer steps only after some",
            related=[Related(step.location, "steps only after some batches", "step")],
            help="clear the gradients after each step",
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding]:
        if evidence.loop is not None and _is_cleared(evidence):
            cleared = next((use.cleared_at for use in evidence.loop.optimizers if use.cleared_at is not None), None)
            yield self.finding(
                cleared or evidence.first("steps") or evidence.location,
                "gradients are cleared in every batch, but the optimizer steps only after some",
                help="clear the gradients after each step",
            )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        dropped, reached = (sum(getattr(use, name) for use in loop.optimizers) for name in ("dropped", "reached"))
        text = f"the gradients of {dropped} of {reached} backward passes were cleared before any step"
        if _is_cleared(evidence):
            return Verdict.confirmed(text, dropped=dropped)
        if loop.steps and not dropped:
            return Verdict.refuted(text, dropped=dropped)
        return Verdict.inconclusive(f"{text}, with {loop.steps} steps")


FEWEST = 2
"""Steps that lose the gradients of a batch before them."""


def _is_cleared(evidence: Evidence) -> bool:
    """Whether every step came after the same number of batches, and only the gradients of the last were there.

    With several optimizers that take turns, the gradients of one are cleared that the loss of another has made.
    """
    loop = evidence.loop
    uses = [use for use in loop.optimizers if use.steps] if loop is not None else []
    if loop is None or len(uses) != 1:
        return False
    together = set(loop.backwards_per_step)
    is_even = len(together) == 1 and min(together) > 1 and together == set(loop.batches_per_step)
    return is_even and loop.steps >= FEWEST and uses[0].dropped == uses[0].reached - uses[0].steps


MOST_STEPS = 64
"""Steps of one script that are looked at."""


def _stepped_after(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """The steps that follow a loop over batches, each of which clears the gradients of the one before."""
    for step in pipeline.acts(Act.STEP)[:MOST_STEPS]:
        if not training_loops.is_certain_step(step) or "scaler" in step.details:
            continue
        before = [event for event in pipeline.acts(Act.BACKWARD) if event.order < step.order]
        backward = before[-1] if before else None
        if backward is None or backward.loops[:-1] != step.loops or not backward.loops:
            continue
        loop = backward.loops[-1]
        inside = pipeline.events_in(loop)
        is_one_run = (backward.function, backward.uncalled) == (step.function, step.uncalled)
        is_other = backward.is_conditional_in(loop) or any(event.act is Act.STEP for event in inside)
        is_other = is_other or iterations.takes_gradients(pipeline, loop, step)
        if not is_one_run or is_other or any(gradients.handles(pipeline, event) for event in inside):
            continue
        for event in inside:
            is_clear = (
                event.act is Act.ZERO_GRAD and not event.is_conditional_in(loop) and event.loops == backward.loops
            )
            if is_clear and (event.subject is step.subject or iterations.concerns(pipeline, event, step.subject)):
                yield event, step
                break


def _cleared_always(pipeline: Pipeline, training: training_loops.TrainingLoop, step: Event) -> Iterator[Event]:
    """The calls that clear the gradients of a step in each iteration of its loop."""
    for event in training.inside:
        if event.act is not Act.ZERO_GRAD:
            continue
        if event.loops == training.backward.loops and training_loops.always_with(event, training.backward):
            if event.subject is step.subject or iterations.concerns(pipeline, event, step.subject):
                yield event
        elif iterations.clears_each(pipeline, event, training.backward, step):
            yield event


def _cleared_before(training: training_loops.TrainingLoop, step: Event) -> Iterator[Event]:
    """The calls that clear gradients in the iterations that step, before their own backward pass adds to them."""
    backward = training.backward
    wanted = [condition.code for condition in step.conditions]
    for event in training.inside:
        is_clear = event.act is Act.ZERO_GRAD and event.order < backward.order < step.order
        is_same = is_clear and event.loops == backward.loops == step.loops and event.subject is step.subject
        codes = [condition.code for condition in event.conditions]
        if is_same and codes == wanted and len(codes) > len(backward.conditions) and event.function == step.function:
            yield event
