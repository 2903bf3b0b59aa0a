"""Losses, and parts of losses, whose graph was cut: which operation did it, and what the loss was before."""

from __future__ import annotations

import re

from lintrain.analysis import (
    expressions,
    loss_slices,
    script_text,
    training_loops,
)
from lintrain.model.location import Location
from lintrain.pipeline import blocks, events, modules
from lintrain.pipeline.record import Misuse, Pipeline
from lintrain.pipeline.values.model import Optimizer, Parameter, Role, Tensor
from lintrain.pipeline.values.python import Unknown, options_of
from lintrain.pipeline.values.tensors import Operation

HOW = {
    "item": "`.item()` returns a Python number",
    "float": "`float` returns a Python number",
    "tolist": "`.tolist()` returns Python numbers",
    "numpy": "NumPy arrays have no gradient",
    "array": "NumPy arrays have no gradient",
    "asarray": "NumPy arrays have no gradient",
    "tensor": "a new tensor has no history",
    "Tensor": "a new tensor has no history",
    "FloatTensor": "a new tensor has no history",
    "detach": "`.detach()` removes it from the graph",
    "Variable": "a new `Variable` has no history",
    "data": "`.data` removes it from the graph",
    "from_numpy": "a new tensor has no history",
    "round": "`round` has a gradient of zero",
    "floor": "`floor` has a gradient of zero",
    "ceil": "`ceil` has a gradient of zero",
    "sign": "`sign` has a gradient of zero",
    "compare": "a comparison has no gradient",
    "argmax": "`argmax` has no gradient",
    "no_grad": "it is computed under `no_grad`",
}


def useless_pass(pipeline: Pipeline, backward: events.Event) -> events.Event | None:
    """The forward pass of a term of the loss that reaches no parameter of the optimizers that step after it.

    None unless another term does: a detached output in the loss of a generator is such a term.
    """
    loss, optimizers = backward.details["loss"], _stepping_after(pipeline, backward)
    if not isinstance(loss, Tensor) or not optimizers:
        return None
    trained = expressions.parts_shared(pipeline, [part for each in optimizers for part in each.trains])
    terms = [part for part in pipeline.computed_from(loss) if isinstance(part, Tensor) and part.graph]
    leaves = [term for term in terms if id(term) not in pipeline.arithmetic]
    passes = {id(term): [pipeline.events[order] for order in sorted(term.graph)] for term in leaves}
    if any(isinstance(each.subject, Unknown) for some in passes.values() for each in some):
        return None
    parts = {key: expressions.parts_shared(pipeline, [each.subject for each in some]) for key, some in passes.items()}
    useless = [key for key, some in parts.items() if some.isdisjoint(trained) and _is_of_network(pipeline, passes[key])]
    return passes[useless[0]][-1] if useless and len(useless) < len(parts) else None


TAKES_OFF = frozenset({"detach", "data", "no_grad"})
"""How what a network gave is taken off the graph; a new tensor may be made of rows as well."""


def _is_of_network(pipeline: Pipeline, passes: list[events.Event]) -> bool:
    """Whether passes go through weights, and the input of the first comes from a network, but no longer in the graph.

    What a function that is not known gives may have any history. A term of real rows belongs to some formulas, if
    another optimizer trains the network that judges them.
    """
    given, subjects = passes[0].details.get("given"), [each.subject for each in passes]
    if not isinstance(given, Tensor) or not any(map(modules.has_parameters, subjects)):
        return False
    if given.passes or (given.cut is not None and given.cut.name in TAKES_OFF):
        return True
    trained = [part for optimizer in pipeline.optimizers for part in optimizer.trains]
    return expressions.parts_shared(pipeline, subjects).isdisjoint(expressions.parts_shared(pipeline, trained))


def computed_off(pipeline: Pipeline, backward: events.Event) -> Location | None:
    """The statement that computes the loss of a backward call, if autograd is certainly off around all of it."""
    name = training_loops.text_of_event(backward)
    known = [each for each in options_of(backward.details["loss"]) if not isinstance(each, Unknown)]
    if not name.isidentifier() or known:
        return None
    around = blocks.scope_of(pipeline, backward.location)
    assigned = expressions.assignments_in_file(pipeline.source_of(backward.location))
    for each in sorted(assigned, key=lambda one: one.location, reverse=True):
        is_before = each.location < backward.location and blocks.scope_of(pipeline, each.location) is around
        if is_before and any(target.code == name for target in each.targets):
            inside = [event for event in pipeline.events if each.location.holds(event.location)]
            seen = [event for event in inside if event.order < backward.order and event.reading == backward.reading]
            return each.location if seen and _last_reading_is_off(seen) else None
    return None


def _last_reading_is_off(seen: list[events.Event]) -> bool:
    """Whether autograd was off when a statement was read last: a loop over phases reads it once for each."""
    first = seen[-1].location
    orders = [event.order for event in seen if event.location == first]
    last = [event for event in seen if len(orders) < 2 or event.order > orders[-2]]
    return all(event.is_off for event in last)


def _stepping_after(pipeline: Pipeline, backward: events.Event) -> list[Optimizer]:
    """The optimizers that step between a backward call and the next one; empty if one of them is not known."""
    if not backward.loops:
        return []
    found: list[Optimizer] = []
    for event in training_loops.events_in(pipeline, backward.loops[-1]):
        if event.order <= backward.order or event.act not in {events.Act.BACKWARD, events.Act.STEP}:
            continue
        if event.act is events.Act.BACKWARD:
            break
        if not isinstance(event.subject, Optimizer) or not event.subject.trains:
            return []
        found.append(event.subject)
    return [] if any(isinstance(part, Unknown) for each in found for part in each.trains) else found


def is_wanted(pipeline: Pipeline, cut: loss_slices.Cut) -> bool:
    """Whether a part is cut off on purpose: the gradient of the new tensor is read, or it is what is optimized."""
    statement = expressions.assignment_at(pipeline, cut.location)
    name = re.escape(statement.name or "") if statement is not None else ""
    if cut.is_whole or cut.term or not name:
        return False
    return _optimizers_around(pipeline, cut.location) > 1 or script_text.mentions(
        pipeline, rf"\b{name}\.grad\b|\[[^\]\n]*\b{name}\b"
    )


def new_tensors(pipeline: Pipeline) -> list[Misuse]:
    """Computed tensors that became new ones, unless code uses the gradient of such a tensor."""
    made = [misuse for misuse in pipeline.misuses if misuse.use == "rewrapped"]
    if not made or any(_is_of_a_tensor(event) for event in pipeline.acts(events.Act.GRADIENT)):
        return []
    if not (pipeline.losses or pipeline.acts(events.Act.BACKWARD)):
        return []
    return [misuse for misuse in made if _optimizers_around(pipeline, misuse.location) < 2]


def _optimizers_around(pipeline: Pipeline, location: Location) -> int:
    """The number of optimizers that step in the loops around a location, or anywhere if there is no loop around it."""
    # With several optimizers, a new tensor may be the input of the one network that is trained at the moment.
    loops = [loop for loop in pipeline.loops if loop.location.holds(location)]
    steps = pipeline.acts(events.Act.STEP)
    inside = [step for step in steps if any(step.is_inside(loop) for loop in loops)]
    return len({id(step.subject) for step in inside or steps})


def _is_of_a_tensor(event: events.Event) -> bool:
    """Whether code may look at the gradient of something else than a parameter."""
    match event.subject:
        case Parameter():
            return False
        case Unknown(name=name):
            return "param" not in name
        case _:
            return True


def cut_of(event: events.Event) -> Operation | None:
    """The operation that removed the loss from the graph, if that is certain for every value of the loss."""
    options = options_of(event.details["loss"])
    losses = [option for option in options if isinstance(option, Tensor) and option.role is Role.LOSS]
    cuts = [loss.cut for loss in losses if loss.cut is not None]
    return cuts[0] if cuts and len(cuts) == len(losses) == len(options) else None


def _count_item_calls(pipeline: Pipeline, name: str, location: Location) -> int:
    """The number of `.item()` calls on a tensor after the statement that creates it."""
    calls = script_text.attribute_uses(pipeline.source_of(location), name, "item")
    return sum(call.line > location.line for call in calls)


def loss_without(pipeline: Pipeline, location: Location, event: events.Event) -> tuple[Location | None, str | None]:
    """The statement that replaces the loss, for removal, and the code of the loss before it.

    None if the script uses the loss for anything but `backward`: it may need a number there.
    """
    statement = expressions.assignment_at(pipeline, location)
    loss = pipeline.code(event.location).partition(".backward(")[0]
    if statement is None or statement.name != loss or statement.value.callee is None:
        return None, None
    made, source = statement.value, pipeline.source_of(location)
    uses = blocks.uses_of(pipeline, loss, location)
    inside = [node for node in uses if statement.location.holds(source.location(node))]
    kept = _count_item_calls(pipeline, loss, location) if "tensor" in statement.value.callee.code else 0
    if location not in {each.location for each in (made, *made.arguments[:1])} or len(uses) != len(inside) + kept + 1:
        return None, None
    owner = made.called_on
    if made.called_name == "tensor" and len(made.arguments) == 1:
        rebuilt = made.arguments[0].called_on
        return (statement.location, loss) if owner and rebuilt and rebuilt.code == loss else (None, None)
    if owner is None or made.called_name not in {"detach", "item"}:
        return None, None
    if owner.code == loss:
        return statement.location, loss
    is_result = owner.kind is expressions.Kind.CALL and not made.arguments
    return None, owner.written_code if is_result else None
