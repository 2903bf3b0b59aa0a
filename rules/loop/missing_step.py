"""Gradients are computed in a loop, but the optimizer never steps.

`backward` only computes gradients. The weights do not change until the optimizer steps: the loss is printed, the epochs
pass, and the final model is the initial one.

## Bad

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()  # <- missing-step

Only one of two optimizers steps:

    critic = nn.Linear(3, 1)
    critic_optimizer = torch.optim.Adam(critic.parameters())
    for x, y in loader:
        critic_optimizer.zero_grad()
        critic_loss = critic(net(x).detach()).mean()
        critic_loss.backward()  # <- missing-step
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## Good

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        optimizer.step()

## When it is fine

Gradients may be needed for their own sake, or applied directly:

    for x, y in loader:
        net.zero_grad()
        criterion(net(x), y).backward()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter -= 0.1 * parameter.grad

Other code may call `step`:

    from engine import update

    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in loader:
        optimizer.zero_grad()
        criterion(net(x), y).backward()
        update(optimizer)

## Fix

Asks first: the fix makes the script train. Offered if the iteration clears the gradients of exactly one optimizer.

## References

PyTorch documentation, "Optimizing Model Parameters".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import adversaries, gradients, iterations, keras_gradients, open_updates, training_loops
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.values.model import Optimizer
from lintrain.pipeline.values.python import Unknown, Value
from lintrain.rule import (
    Evidence,
    Finding,
    Level,
    Location,
    Pipeline,
    Related,
    Rule,
    Source,
    Targets,
    Verdict,
    dataclass,
    fixes,
)


@dataclass(frozen=True, slots=True)
class Claim:
    """The optimizer to step, and the statement that the step follows."""

    optimizer: str
    after: Location


class MissingStep(Rule[Claim]):
    level = Level.ERROR
    keywords = "backward|GradientTape"
    needs_training = False
    judges_networks = True

    def prescreen(self, source: Source, targets: Targets) -> bool:
        return any(keras_gradients.unused_gradients(source))

    def check(self, pipeline: Pipeline) -> Iterator[Finding[Claim]]:
        for location, name in keras_gradients.unused_gradients(pipeline.source):
            yield self.finding(
                location,
                f"`{name}` is never applied, so the weights do not change",
                help=f"pass it on: `optimizer.apply_gradients(zip({name}, model.trainable_variables))`",
            )
        found = set[Location]()
        for each in adversaries.unstepped(pipeline.source):
            found.add(each.backward)
            yield self._report_other(each)
        for backward, cleared in _cleared_only(pipeline):
            if backward.location not in found:
                found.add(backward.location)
                yield self._report(pipeline, backward, cleared)
        for update in open_updates.without_step(pipeline.source):
            location = pipeline.source.location(update.call)
            if location not in found and training_loops.trains_by_hand(pipeline):
                found.add(location)
                yield self._report_open(update, location)

    def _report_other(self, each: adversaries.Unstepped) -> Finding[Claim]:
        return self.finding(
            each.backward,
            f"`{each.name}` never steps: `{each.other}` does after this call",
            related=[
                Related(each.cleared, "clears the gradients of the one", "clear"),
                Related(each.stepped, "steps the other one", "step"),
            ],
            help=f"call `{each.name}.step()` here",
        )

    def _report_open(self, update: open_updates.OpenUpdate, location: Location) -> Finding[Claim]:
        return self.finding(
            location,
            f"`{update.optimizer}` never steps, so the weights do not change",
            help=f"call `{update.optimizer}.step()` after `backward`",
        )

    def _report(self, pipeline: Pipeline, backward: Event, cleared: Event) -> Finding[Claim]:
        optimizer = training_loops.text_of_event(cleared) or _name_of(pipeline, cleared.subject)
        return self.finding(
            backward.location,
            f"`{optimizer}` never steps, so the weights do not change",
            related=training_loops.origin_of(cleared.subject, "created here, never stepped"),
            help=f"call `{optimizer}.step()` after `backward`",
            claim=_insertion(pipeline, backward, optimizer) if _is_plain(pipeline, backward, cleared) else None,
        )

    def suspects(self, evidence: Evidence) -> Iterator[Finding[Claim]]:
        uses = evidence.loop.optimizers if evidence.loop is not None else ()
        reached = next((use.reached_at for use in uses if use.reached and not use.steps and use.dropped), None)
        if location := reached or evidence.first("backwards"):
            yield self.finding(
                location,
                "the optimizer never steps, so the weights do not change",
                help="call `step()` on the optimizer after `backward`",
            )

    def verify(self, finding: Finding[Claim], evidence: Evidence) -> Verdict:
        loop = evidence.loop
        if loop is None:
            return Verdict.inconclusive(evidence.without_loop)
        for use in loop.optimizers:
            if use.reached and not use.steps and not use.is_stepped_elsewhere and use.dropped:
                text = f"`{use.name}` never stepped, and {use.dropped} of {use.reached} of its gradients"
                return Verdict.confirmed(f"{text} were cleared unused", dropped=use.dropped, reached=use.reached)
        unstepped = [use for use in loop.optimizers if use.reached and not use.steps]
        if loop.steps and not unstepped:
            return Verdict.refuted(
                f"{loop.steps} optimizer steps ran for {loop.backwards} backward passes", steps=loop.steps
            )
        return Verdict.inconclusive(
            f"{loop.steps} optimizer steps ran for {loop.backwards} backward passes", steps=loop.steps
        )

    def fix(self, finding: Finding[Claim]) -> fixes.Fix | None:
        claim = finding.claim
        if claim is None:
            return None
        statement = f"{claim.optimizer}.step()"
        insert = fixes.InsertAfter(claim.after, statement)
        return fixes.Fix.of(f"insert `{statement}` after `backward`", insert, safe=False)


def _cleared_only(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """The backward calls whose gradients no optimizer uses, each with where one clears them or is created."""
    by_hand = training_loops.trains_by_hand(pipeline) and not pipeline.acts(Act.TRAIN)
    if not by_hand or gradients.handled(pipeline):
        return
    seen = set[int]()
    has_steps = pipeline.cached(_has_steps, pipeline)
    hidden = dict[tuple[int, int], bool]()
    for backward in pipeline.acts(Act.BACKWARD):
        cleared = _optimizer_cleared_with(pipeline, backward, hidden)
        if cleared is None and (unused := _unused_optimizer(pipeline, backward)) is not None:
            cleared = unused
        # Where another optimizer steps, one finding for each that does not: its loss may be in several sums.
        key = 0 if cleared is None else id(cleared.subject) if has_steps else backward.location.line
        if cleared is not None and key not in seen:
            seen.add(key)
            yield backward, cleared


def _insertion(pipeline: Pipeline, backward: Event, optimizer: str) -> Claim | None:
    """The step after `backward`, or after the clipping that follows it in every iteration."""
    clips = [
        event
        for event in training_loops.events_in(pipeline, backward.loops[-1])
        if event.act is Act.CLIP and event.order > backward.order
    ]
    if any(event.conditions != backward.conditions or event.function != backward.function for event in clips):
        return None
    location = clips[-1].location if clips else backward.location
    return Claim(optimizer, location)


def _is_plain(pipeline: Pipeline, backward: Event, cleared: Event) -> bool:
    """One optimizer with a plain name, cleared whenever the loop's only backward pass runs, and no scaler."""
    loop = backward.loops[-1]
    return (
        len(pipeline.optimizers) == 1
        and training_loops.text_of_event(cleared).isidentifier()
        and not any(call.path.endswith("GradScaler") for call in pipeline.calls)
        and sum(event.act is Act.BACKWARD for event in training_loops.events_in(pipeline, loop)) == 1
        and cleared.function == backward.function
        and cleared.loops[-1] is loop
        and training_loops.always_with(cleared, backward)
    )


def _optimizer_cleared_with(pipeline: Pipeline, backward: Event, hidden: dict[tuple[int, int], bool]) -> Event | None:
    """Where the loop clears the gradients of an optimizer that nothing in the script can step.

    `hidden` caches, by loop and optimizer, whether unknown code in the loop may step it.
    """
    if not backward.loops:
        return None
    escaped, loop = pipeline.cached(_escaped, pipeline), backward.loops[0]
    for event in _clears_before(pipeline, backward):
        optimizer = event.subject
        if not isinstance(optimizer, Optimizer) or id(optimizer) in escaped or pipeline.cached(_may_step, optimizer):
            continue
        key = id(loop), id(optimizer)
        if key not in hidden:
            hidden[key] = any(
                training_loops.may_hide(pipeline, other, optimizer)
                for other in training_loops.events_in(pipeline, loop)
            )
        return None if hidden[key] else event
    return None


def _unused_optimizer(pipeline: Pipeline, backward: Event) -> Event | None:
    """Where an optimizer of what a loop computes gradients for is created, if nothing uses it afterwards."""
    for creation in pipeline.acts(Act.OPTIMIZER) if backward.loops else ():
        optimizer = creation.subject
        if not isinstance(optimizer, Optimizer) or creation.order > backward.order:
            continue
        if pipeline.cached(_may_step, optimizer):
            continue
        if pipeline.cached(_is_unused, optimizer) and iterations.reaches(pipeline, backward, optimizer):
            return creation
    return None


def _is_unused(pipeline: Pipeline, optimizer: Optimizer) -> bool:
    """Whether an optimizer has one name, which no other code mentions."""
    uses = [event for event in pipeline.events if event.subject is optimizer and event.act is not Act.OPTIMIZER]
    name = _name_of(pipeline, optimizer)
    if uses or not name or any(schedule.optimizer is optimizer for schedule in pipeline.schedulers):
        return False
    # An attribute has another owner outside of its class: `network.optimizer.step()`.
    attribute = name.rpartition(".")[2]
    used = rf"\.{re.escape(attribute)}\b" if "." in name else rf"\b{re.escape(name)}\b"
    return sum(len(re.findall(used, each.text)) for each in pipeline.sources.values()) == 1


def _name_of(pipeline: Pipeline, optimizer: Value) -> str:
    """The name or attribute that an optimizer is assigned to; empty if there is none."""
    if optimizer.origin is None:
        return ""
    line = pipeline.source_of(optimizer.origin).lines[optimizer.origin.line - 1]
    assigned = training_loops.ASSIGNMENT.match(line[: optimizer.origin.column - 1])
    return assigned[1] if assigned else ""


def _escaped(pipeline: Pipeline, _: Pipeline) -> set[int]:
    return {id(event.subject) for event in pipeline.acts(Act.ESCAPE)}


def _clears_before(pipeline: Pipeline, backward: Event) -> list[Event]:
    """Where the loop clears gradients that `backward` computes, if an optimizer steps in the script.

    They are those of the last call before `backward`, and of the optimizers whose modules the iteration ran before.
    """
    clears = pipeline.cached(_clears_in, backward.loops[-1])
    if not pipeline.cached(_has_steps, pipeline):
        return clears
    number = training_loops.index_of(clears, backward)
    last = clears[max(number - 1, 0) : number]
    first: dict[int, Event] = {}
    for event in clears:
        first.setdefault(id(event.subject), event)
    reached = (each for each in first.values() if iterations.reaches(pipeline, backward, each.subject) is not False)
    return [*last, *reached]


def _clears_in(pipeline: Pipeline, loop: Loop) -> list[Event]:
    return [event for event in training_loops.events_in(pipeline, loop) if event.act is Act.ZERO_GRAD]


def _has_steps(pipeline: Pipeline, _: Pipeline) -> bool:
    return bool(pipeline.acts(Act.STEP))


def _may_step(pipeline: Pipeline, optimizer: Optimizer) -> bool:
    """Whether this optimizer steps, or one that may train the same modules."""
    return any(
        iterations.concerns(pipeline, step, optimizer) is not False and not _is_another(pipeline, step, optimizer)
        for step in pipeline.acts(Act.STEP)
    )


def _is_another(pipeline: Pipeline, step: Event, optimizer: Optimizer) -> bool:
    """Whether a step is that of an optimizer with another name, which was given other parameters, known or not."""
    other = step.subject
    if not isinstance(other, Optimizer) or other is optimizer or _are_the_same(other.trains, optimizer.trains):
        return False
    names = {_name_of(pipeline, other), _name_of(pipeline, optimizer)}
    return len(names) == 2 and "" not in names and _given(pipeline, other) != _given(pipeline, optimizer)


def _are_the_same(some: Sequence[Value], others: Sequence[Value]) -> bool:
    """Whether two optimizers may train one thing: something known, or an unknown by the same name."""
    names = {each.name for each in others if isinstance(each, Unknown)}
    return any(not isinstance(each, Unknown) or not each.name or each.name in names for each in some)


def _given(pipeline: Pipeline, optimizer: Optimizer) -> str:
    return pipeline.code(optimizer.origin).partition("(")[2] if optimizer.origin is not None else ""
