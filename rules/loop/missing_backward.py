"""The optimizer steps in a loop where nothing computes gradients.

Without `backward` every gradient stays None, and the optimizer passes over parameters that have none. The loss prints
and the epochs pass, and the weights at the end are those from the start.

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

Gradients may be put there by hand:

    for x, y in loader:
        with torch.no_grad():
            error = F.softmax(net(x), dim=-1) - F.one_hot(y, 3)
            net[-1].bias.grad = error.mean(dim=0)
        optimizer.step()

## Fix

Asks first: the run trains then. Offered where one loss has a name in the same iteration.

## References

PyTorch tutorial, "Optimizing Model Parameters".
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.analysis import training_loops
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
    fixes,
    lazy_pattern,
    one_per_location,
)

COMPUTES = lazy_pattern(r"backward|autograd|^grad$|closure|gradient|perturb|evolution|^jax", re.IGNORECASE)
"""Words of scripts that compute gradients in their own way, or do without them."""

IDLE = lazy_pattern(
    r"^(sync_gradients|(gradient_)?clip\w*|\w*gradient_(clip|accum|checkpoint)\w*|\w*(zero|norm|max|sync)_grad\w*)$",
    re.IGNORECASE,
)
"""Names among them that only look at gradients, count, clip or clear them."""

HARMLESS = lazy_pattern(
    r"(^|\.)(print|log\w*|update|set_\w+|write|add_scalar|append|debug|info|to|item|size|numel|items|keys|values|pop|get|"
    r"bool|float|long|int|half|cuda|cpu|numpy|tolist|squeeze|unsqueeze|view|reshape|permute|transpose|detach)$"
)
"""Methods of dictionaries, tensors and logs."""

LIBRARIES = ("torch.", "numpy.", "random.", "math.", "tqdm.", "time.")
"""Functions of these compute no gradients, but for those whose names say so."""


class MissingBackward(Rule):
    level = Level.ERROR
    keywords = "optim|Adam|Adafactor & step"

    def check(self, pipeline: Pipeline) -> Iterator[Finding]:
        if not training_loops.trains_by_hand(pipeline) or pipeline.acts(Act.BACKWARD, Act.GRADIENT, Act.TRAIN):
            return
        learned = ((step, _learned_from(pipeline, step)) for step in pipeline.acts(Act.STEP))
        yield from one_per_location(self._report(pipeline, step, forward) for step, forward in learned if forward)

    def _report(self, pipeline: Pipeline, step: Event, forward: Event) -> Finding:
        optimizer = training_loops.text_of_event(step)
        return self.finding(
            step.location,
            f"`{optimizer}` steps, and nothing has computed gradients: no weight changes",
            related=[
                Related(forward.location, "runs the model", "forward"),
                *training_loops.made_here(step.subject, "made here"),
            ],
            help="call `backward` on the loss before the step",
            facts=_insertion(pipeline, step, forward),
        )

    def verify(self, finding: Finding, evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        steps, nothing = loop.steps, sum(use.steps_on_nothing for use in loop.optimizers)
        if nothing < steps:
            return Verdict.refuted(f"{steps - nothing} of {steps} steps found gradients", steps_on_nothing=nothing)
        if steps and not loop.backwards:
            return Verdict.confirmed(
                f"{nothing} of {steps} steps found no gradient, after 0 backward passes", steps=steps
            )
        return Verdict.inconclusive(f"{loop.backwards} backward passes and {steps} steps were seen", steps=steps)

    def inspect(self, evidence: Evidence) -> Iterator[tuple[Finding, Verdict]]:
        if evidence.loop is not None and evidence.loop.steps > 1:
            found = self.finding(evidence.location, "the optimizer steps, and nothing has computed gradients")
            yield from self.if_confirmed(found, evidence)

    def follows_from(self, finding: Finding, verdict: Verdict, cause: Finding) -> bool:
        return cause.rule == self.name

    def fix(self, finding: Finding) -> fixes.Fix | None:
        last = finding.location_in_facts
        if last is None:
            return None
        statement = str(finding.facts["statement"])
        return fixes.Fix.of(f"insert `{statement}`", fixes.InsertAfter(last, statement), safe=False)


def _learned_from(pipeline: Pipeline, step: Event) -> Event | None:
    """The pass of a model in the same iteration, if certainly nothing computes gradients of it."""
    if (
        not isinstance(step.subject, Optimizer)
        or not training_loops.is_certain_step(step)
        or step.subject.name == "LBFGS"
    ):
        return None
    if not step.loops or not pipeline.code(step.location).endswith("step()") or pipeline.told(_computes, pipeline):
        return None
    loop = step.loops[-1]
    unknown = pipeline.told(_unknown, pipeline)
    if any(event.is_inside(loop) or training_loops.may_hide(pipeline, event, step.subject) for event in unknown):
        return None
    first = pipeline.told(_first_pass, loop)
    return first if first is not None and first.order < step.order else None


def _unknown(pipeline: Pipeline, _: Pipeline) -> list[Event]:
    """The calls of code that is not understood, which may do anything to what they are given."""
    return [event for event in pipeline.acts(Act.ESCAPE) if not _is_harmless(pipeline, event)]


def _first_pass(pipeline: Pipeline, loop: Loop) -> Event | None:
    """The first forward pass with gradients in a loop."""
    inside = training_loops.events_in(pipeline, loop)
    return next((event for event in inside if event.act is Act.FORWARD and not event.without_grad), None)


def _computes(pipeline: Pipeline, _: Pipeline) -> bool:
    """Whether some name in the script speaks of gradients."""
    tree = pipeline.source.nodes
    names = (getattr(node, "attr", getattr(node, "id", getattr(node, "name", ""))) for node in tree)
    return any(isinstance(name, str) and COMPUTES.search(name) and not IDLE.search(name) for name in names)


def _is_harmless(pipeline: Pipeline, event: Event) -> bool:
    if HARMLESS.search(pipeline.code(event.location).partition("(")[0]):
        return True
    paths = pipeline.told(_paths, pipeline).get(event.location, ())
    return bool(paths) and all(path.startswith(LIBRARIES) and ".func" not in path for path in paths)


def _paths(pipeline: Pipeline, _: Pipeline) -> dict[Location, list[str]]:
    """What is called at each place."""
    found = dict[Location, list[str]]()
    for call in pipeline.calls:
        found.setdefault(call.location, []).append(call.path)
    return found


def _insertion(pipeline: Pipeline, step: Event, forward: Event) -> dict[str, str | int | float | bool | None]:
    """The missing call, and after which statement: where the only loss is there and all is cleared."""
    loop = step.loops[-1]
    made = {
        binding.name: binding.location
        for binding in pipeline.bindings
        if isinstance(binding.value, Tensor)
        and binding.value.role is Role.LOSS
        and loop.location.holds(binding.location)
        and binding.location < step.location
    }
    before = [event for event in training_loops.events_in(pipeline, loop) if event.order < step.order]
    clears = [event for event in before if event.act is Act.ZERO_GRAD]
    is_plain = all(event.conditions == forward.conditions for event in (step, *clears)) and len(made) == 1
    locations = (step.location, forward.location, *(event.location for event in clears))
    if not is_plain or not loop.location.holds(step.location) or not blocks.is_one_scope(pipeline, *locations):
        return {}
    ((loss, location),) = made.items()
    last = max([location, *(event.location for event in clears)])
    launchers = {binding.name for each in pipeline.launchers for binding in pipeline.names_of(each)}
    if not loss.isidentifier() or len(launchers) > 1 or len(pipeline.launchers) > 1:
        return {}
    statement = f"{launchers.pop()}.backward({loss})" if launchers else f"{loss}.backward()"
    return {"statement": statement, **last.as_facts()}
