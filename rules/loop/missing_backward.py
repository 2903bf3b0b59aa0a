"""The optimizer steps in a loop that never computes gradients.

Without `backward`, every gradient is None, and the optimizer skips parameters without gradients. The loss is printed
and the epochs pass, but the weights never change. A method `training_step` of a Trainer has to call `backward` itself.

## Bad

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        optimizer.step()  # <- missing-backward

## Good

    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

Other code may compute the gradients:

    from engine import differentiate

    for x, y in loader:
        optimizer.zero_grad()
        differentiate(criterion(net(x), y))
        optimizer.step()

Gradients may be assigned directly:

    for x, y in loader:
        with torch.no_grad():
            error = F.softmax(net(x), dim=-1) - F.one_hot(y, 3)
            net[-1].bias.grad = error.mean(dim=0)
        optimizer.step()

## Fix

Asks first: the fix makes the script train. Offered if the iteration assigns exactly one loss to a name.

## References

PyTorch tutorial, "Optimizing Model Parameters".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial

from lintrain.analysis import (
    gradients,
    left_out,
    lightning_steps,
    open_updates,
    statements,
    trainer_backwards,
    training_loops,
    uncalled,
)
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.model import Optimizer, Role, Tensor
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
    lazy_pattern,
    one_per_location,
)

COMPUTES = lazy_pattern(r"backward|autograd|^grad$|closure|gradient|perturb|evolution|^jax", re.IGNORECASE)
"""Names in scripts that compute gradients in another way, or train without them."""

ASKS = lazy_pattern(r"\b\w*(?:backprop|backward)\w*\s*=\s*True\b")
"""A call that asks what it calls for gradients: `model(x, memory_replay_backprop=True)`."""

READS_ONLY = lazy_pattern(
    r"^(sync_gradients|(gradient_)?clip\w*|\w*gradient_(clip|accum|checkpoint)\w*|\w*(zero|norm|max|sync)_grad\w*)$",
    re.IGNORECASE,
)
"""Names among them that only read, count, clip or clear gradients."""

HARMLESS = lazy_pattern(
    r"(^|\.)(print|log\w*|update|set_\w+|write|add_scalar|append|debug|info|to|item|size|numel|items|keys|values|pop|get|"
    r"bool|float|long|int|half|cuda|cpu|numpy|tolist|squeeze|unsqueeze|view|reshape|permute|transpose|detach|argmax|max|"
    r"sum|mean|eq|softmax|log_softmax|sigmoid|view_as)$"
)
"""Methods of dictionaries, tensors and logs."""

LIBRARIES = ("torch.", "numpy.", "random.", "math.", "tqdm.", "time.")
"""Functions of these libraries compute no gradients, except those whose names contain it."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The missing call, and the statement that it follows."""

    statement: str
    after: Location


class MissingBackward(Rule[Claim]):
    level = Level.ERROR
    keywords = "optim|Adam|Adafactor|Trainer & step"

    def _report_block(self, block: left_out.LossBlock) -> Finding[Claim]:
        shown = f"`{block.name}`" if len(block.name) <= 16 else "this loss"
        return self.finding(
            block.location,
            f"{shown} gets no `backward` in its block under `accumulate`",
            related=[Related(block.around, "the gradients of this block are accumulated", "block")],
            help=f"call `{block.launcher}.backward({block.name})` and step its optimizer",
        )

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        yield from one_per_location(
            self.finding(
                each.location,
                f"`training_step` does not return `{each.name}`, so Lightning trains nothing"
                if 0 < len(each.name) <= 16
                else "`training_step` does not return its loss, so Lightning trains nothing",
                help="return the loss",
            )
            for each in lightning_steps.without_result(pipeline)
        )
        for step in trainer_backwards.idle_steps(pipeline.source):
            yield self.finding(
                step,
                "`training_step` never calls `backward`, so the Trainer steps without gradients",
                help="call `self.accelerator.backward(loss)`, or leave the step to the Trainer",
            )
        yield from one_per_location(map(self._report_block, left_out.blocks_without_backward(pipeline.source)))
        if not training_loops.trains_by_hand(pipeline) or pipeline.acts(Act.TRAIN):
            return
        if "backward" in pipeline.source.cached(uncalled.idle_methods):
            return
        is_alone = not pipeline.acts(Act.BACKWARD) and not gradients.handled(pipeline)
        steps = pipeline.acts(Act.STEP) if is_alone else ()
        passes = ((step, _pass_without_gradients(pipeline, step)) for step in steps)
        found = [self._report(pipeline, step, forward) for step, forward in passes if forward]
        opened = map(partial(self._report_open, pipeline), open_updates.without_backward(pipeline.source))
        yield from one_per_location([*found, *opened])

    def _report_open(self, pipeline: Pipeline, update: open_updates.OpenUpdate) -> Finding[Claim]:
        return self.finding(
            pipeline.source.location(update.call),
            f"`{update.optimizer}` steps without gradients: `backward` is never called",
            help="call `backward` on the loss before the step",
        )

    def _report(self, pipeline: Pipeline, step: Event, forward: Event) -> Finding[Claim]:
        optimizer = training_loops.text_of_event(step)
        return self.finding(
            step.location,
            f"`{optimizer}` steps without gradients: `backward` is never called",
            related=[
                Related(forward.location, "runs the model", "forward"),
                *training_loops.origin_of(step.subject, "created here"),
            ],
            help="call `backward` on the loss before the step",
            claim=_insertion(pipeline, step, forward),
        )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        steps, nothing = loop.steps, sum(use.steps_on_nothing for use in loop.optimizers)
        if nothing < steps:
            return Verdict.refuted(f"{steps - nothing} of {steps} steps found gradients", steps_on_nothing=nothing)
        if steps and not loop.backwards:
            return Verdict.confirmed(
                f"{nothing} of {steps} steps found no gradient, and no backward pass ran", steps=steps
            )
        return Verdict.inconclusive(f"{loop.backwards} backward passes and {steps} steps ran", steps=steps)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding[Claim], Verdict]]:
        if evidence.loop is not None and evidence.loop.steps > 1:
            found = self.finding(evidence.location, "the optimizer steps without gradients: `backward` is never called")
            yield from self.if_confirmed(found, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        insert = fixes.InsertAfter(claim.after, claim.statement)
        return fixes.Fix.of(f"insert `{claim.statement}`", insert, safe=False)


def _pass_without_gradients(pipeline: Pipeline, step: Event) -> Event | None:
    """The forward pass in the same iteration, if certainly nothing computes its gradients."""
    if (
        not isinstance(step.subject, Optimizer)
        or not training_loops.is_certain_step(step)
        or step.subject.name == "LBFGS"
    ):
        return None
    if not step.loops or not pipeline.code(step.location).endswith("step()") or pipeline.cached(_computes, pipeline):
        return None
    loop = step.loops[-1]
    unknown = pipeline.cached(_unknown, pipeline)
    if any(event.is_inside(loop) or training_loops.may_hide(pipeline, event, step.subject) for event in unknown):
        return None
    first = pipeline.cached(_first_pass, loop)
    return first if first is not None and first.order < step.order else None


def _unknown(pipeline: Pipeline, _: Pipeline) -> list[Event]:
    """The calls of unknown code, which may do anything with their arguments."""
    return [event for event in pipeline.acts(Act.ESCAPE) if not _is_harmless(pipeline, event)]


def _first_pass(pipeline: Pipeline, loop: Loop) -> Event | None:
    """The first forward pass with gradients in a loop."""
    inside = training_loops.events_in(pipeline, loop)
    return next((event for event in inside if event.act is Act.FORWARD and not event.without_grad), None)


def _computes(pipeline: Pipeline, _: Pipeline) -> bool:
    """Whether some name in the script refers to computing gradients."""
    names = pipeline.source.cached(statements.names_in_effect)
    is_named = any(COMPUTES.search(name) and not READS_ONLY.search(name) for name in names)
    return is_named or any(each.contains(ASKS) for each in pipeline.sources.values())


COMPUTES_LOSS = lazy_pattern(r"(?:^|[._])(?:loss\w*|criterion\w*|crit)$")
"""Names of what computes a loss from its arguments, in a piece of a script that does not show it."""


def _is_harmless(pipeline: Pipeline, event: Event) -> bool:
    code = pipeline.code(event.location)
    # `(a == b).sum()` calls what stands behind its brackets.
    callee = code.partition("(")[0] if not code.startswith("(") else code.removesuffix("()")
    if HARMLESS.search(callee) or (pipeline.source.is_partial and COMPUTES_LOSS.search(callee)):
        return True
    paths = pipeline.cached(_paths, pipeline).get(event.location, ())
    return bool(paths) and all(path.startswith(LIBRARIES) and ".func" not in path for path in paths)


def _paths(pipeline: Pipeline, _: Pipeline) -> dict[Location, list[str]]:
    """The paths that are called at each location."""
    found = dict[Location, list[str]]()
    for call in pipeline.calls:
        found.setdefault(call.location, []).append(call.path)
    return found


def _insertion(pipeline: Pipeline, step: Event, forward: Event) -> Claim | None:
    """The missing call, after the statement that computes the only loss and all that clear gradients."""
    loop = step.loops[-1]
    losses = {
        binding.name: binding.location
        for binding in pipeline.bindings
        if isinstance(binding.value, Tensor)
        and binding.value.role is Role.LOSS
        and loop.location.holds(binding.location)
        and binding.location < step.location
    }
    before = [event for event in training_loops.events_in(pipeline, loop) if event.order < step.order]
    clears = [event for event in before if event.act is Act.ZERO_GRAD]
    is_plain = all(event.conditions == forward.conditions for event in (step, *clears)) and len(losses) == 1
    locations = (step.location, forward.location, *(event.location for event in clears))
    if not is_plain or not loop.location.holds(step.location) or not blocks.is_one_scope(pipeline, *locations):
        return None
    ((loss, location),) = losses.items()
    last = max([location, *(event.location for event in clears)])
    launchers = {binding.name for each in pipeline.launchers for binding in pipeline.names_of(each)}
    if not loss.isidentifier() or len(launchers) > 1 or len(pipeline.launchers) > 1:
        return None
    statement = f"{launchers.pop()}.backward({loss})" if launchers else f"{loss}.backward()"
    return Claim(statement, last)
