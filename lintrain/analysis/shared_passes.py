"""Forward passes that backward calls share, outlive or miss: through changed weights, a freed graph, or a copy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from lintrain.analysis import gradients, origins
from lintrain.analysis.cut_arguments import cut_outputs, names_on_graph
from lintrain.analysis.iterations import covers_all
from lintrain.analysis.training_loops import TrainingLoop, is_left_after, training_loops
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer, Tensor
from lintrain.pipeline.values.python import Function, Instance
from lintrain.source.bounds import Nesting
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class StalePass:
    """A backward call through a forward pass whose weights an optimizer has changed in between."""

    forward: Event
    step: Event
    backward: Event


def stale_passes(pipeline: Pipeline) -> Iterator[StalePass]:
    """The backward calls that need weights as they were before a step of the same iteration."""
    for backward in _first_backwards(pipeline):
        around = backward.loops[-1] if backward.loops else None
        steps = [each for each in pipeline.acts(Act.STEP) if _is_before(each, backward)]
        if not steps or pipeline.source_of(backward.location) is not pipeline.source:
            continue
        inside = pipeline.acts(Act.FORWARD) if around is None else pipeline.events_in(around)
        forwards = {
            event.location: event for event in inside if event.act is Act.FORWARD and _is_before(event, backward)
        }
        for forward in passes_behind(pipeline, backward, forwards):
            step = next(
                (each for each in steps if each.order > forward.order and _trains(pipeline, each, forward)), None
            )
            if step is not None:
                yield StalePass(forward, step, backward)
                break


MOST_COMPARED = 64
"""Backward calls of one script that are compared with each other."""


def _first_backwards(pipeline: Pipeline) -> Sequence[Event]:
    return pipeline.acts(Act.BACKWARD)[:MOST_COMPARED]


RETAINS = lazy_pattern(r"retain_(?:graph|variables)")


def shared_passes(pipeline: Pipeline) -> Iterator[tuple[Event, Event, Event]]:
    """Two backward calls through one forward pass, of which the first frees its graph: the pass, and both calls."""
    own = [each for each in _first_backwards(pipeline) if pipeline.source_of(each.location) is pipeline.source]
    for number, backward in enumerate(own):
        # Most backward calls have none before them in the same run of the same statements.
        for first in [each for each in own[:number] if _is_before(each, backward)]:
            through, freed = (pipeline.cached(_passes_of, each) for each in (backward, first))
            both = [freed[order] for order in freed.keys() & through.keys()]
            both = [each for each in both if not uses_separate_outputs(pipeline, each, first, backward)]
            keeps = RETAINS.search(pipeline.code(first.location)) or first.location == backward.location
            keeps = keeps or _are_given_apart(pipeline, both, first, backward)
            if both and not keeps:
                yield both[0], first, backward
                break


def _are_given_apart(pipeline: Pipeline, both: Sequence[Event], *backwards: Event) -> bool:
    """Whether one call gives two losses that are known to come from different passes, or may come from those of two."""
    losses = (each.details.get("loss") for each in backwards)
    graphs = [loss.graph for loss in losses if isinstance(loss, Tensor) and loss.graph]
    are_known = len(graphs) == len(backwards) and graphs[0].isdisjoint(graphs[1])
    # Two networks that teach each other get a loss each, of which the other only chooses the rows.
    are_apart = are_known or len({id(each.subject) for each in both}) > 1
    names = {pipeline.code(each.location).partition(".backward(")[0] for each in backwards}
    targets = (each.targets[0] for each in pipeline.source.nodes_of(ast.Assign) if isinstance(each.value, ast.Call))
    return are_apart and any(isinstance(each, ast.Tuple) and names <= set(map(unparse, each.elts)) for each in targets)


def uses_separate_outputs(pipeline: Pipeline, forward: Event, *backwards: Event) -> bool:
    """Whether losses use outputs of one pass that different parts of the network give: `logits, values = net(x)`."""
    source = pipeline.source
    names = _outputs_of(source, forward)
    used = [_used_of(pipeline, each, names) for each in backwards]
    known = all(used) and len(frozenset[str]().union(*used)) == sum(map(len, used))
    found = forward.subject.cls.lookup("forward") if isinstance(forward.subject, Instance) else None
    if not known or found is None or not isinstance(found[1], Function):
        return False
    return _gives_separate_outputs(found[1].source or source, found[1].node)


def _outputs_of(source: Source, forward: Event) -> frozenset[str]:
    """The names that the outputs of a pass get."""
    bound = (each.targets for each in source.nodes_of(ast.Assign) if source.location(each.value) == forward.location)
    return frozenset(origins.text_of(name) for targets in bound for name in origins.names_in(targets))


def _used_of(pipeline: Pipeline, backward: Event, names: frozenset[str]) -> frozenset[str]:
    """The names among those of the outputs of a pass that a loss is computed from."""
    loss = origins.loss_of(pipeline, backward)
    found = origins.origins(pipeline.source, loss, stays_on_graph) if loss is not None else ()
    return names & {origins.text_of(name) for each in found for name in origins.names_in([each.expression])}


def _gives_separate_outputs(source: Source, forward: ast.AST) -> bool:
    """Whether no two outputs of a `forward` are computed by the same part: `return self.actor(x), self.critic(x)`."""
    returned = [each.value for each in walk(forward) if isinstance(each, ast.Return) and each.value is not None]
    outputs = [each.elts for each in returned if isinstance(each, ast.Tuple)]
    parts = [[_parts_behind(source, output) for output in each] for each in outputs]
    return (
        bool(outputs)
        and len(outputs) == len(returned)
        and all(sum(map(len, each)) == len(frozenset[str]().union(*each)) for each in parts)
        and all(all(each) for each in parts[-1:])
    )


def _parts_behind(source: Source, output: ast.expr) -> frozenset[str]:
    """The attributes that an output is computed with: parts of the network, and its settings."""
    found = (
        origins.text_of(name)
        for each in origins.origins(source, output)
        for name in origins.names_in([each.expression])
    )
    return frozenset(name for name in found if name.startswith("self."))


def _passes_of(pipeline: Pipeline, backward: Event) -> dict[int, Event]:
    """The forward passes that a backward call certainly goes through, by their order."""
    around = backward.loops[-1] if backward.loops else None
    inside = pipeline.acts(Act.FORWARD) if around is None else pipeline.events_in(around)
    forwards = {each.location: each for each in inside if each.act is Act.FORWARD and _is_before(each, backward)}
    return {each.order: each for each in passes_behind(pipeline, backward, forwards)}


def _is_before(event: Event, backward: Event) -> bool:
    """Whether an event precedes a backward call in the same run of the same statements, with autograd on."""
    same = (event.loops, event.conditions, event.function) == (backward.loops, backward.conditions, backward.function)
    return same and event.order < backward.order and not event.without_grad


def _trains(pipeline: Pipeline, step: Event, forward: Event) -> bool:
    """Whether a step of an optimizer of torch changes all weights of the module of a pass."""
    optimizer = step.subject
    if not isinstance(optimizer, Optimizer) or not optimizer.path.startswith("torch.") or not optimizer.trains:
        return False
    return covers_all(pipeline, optimizer, [forward.subject]) is True


def passes_behind(pipeline: Pipeline, backward: Event, forwards: Mapping[Location, Event]) -> Iterator[Event]:
    """The forward passes of these that a loss is certainly computed from, latest first."""
    source, loss = pipeline.source_of(backward.location), origins.loss_of(pipeline, backward)
    found: dict[int, Event] = {}
    uses = partial(names_on_graph, pipeline)
    for each in origins.origins(source, loss, stays_on_graph, uses) if loss is not None else ():
        if not each.is_certain or each.operator is not None:
            continue
        here = source.location(each.expression)
        found.update((event.order, event) for location, event in forwards.items() if here.holds(location))
    for order in sorted(found, reverse=True):
        cut = cut_outputs(source, found[order])
        # Of `out, hidden = net(x)` the loss may use only what the network itself detaches.
        if not cut or not (used := _used_of(pipeline, backward, _outputs_of(source, found[order]))) or used - cut:
            yield found[order]


def is_output(source: Source, name: ast.expr, forwards: Mapping[Location, Event]) -> bool:
    """Whether a name is certainly what one of these passes gave: `out` after `out = model(x)`, but not `f(out)`."""

    def follows(expression: ast.expr) -> bool:
        return isinstance(expression, ast.Name) or source.location(expression) in forwards

    found = (each for each in origins.origins(source, name, follows) if each.is_certain and each.operator is None)
    return any(source.location(each.expression) in forwards for each in found)


def stays_on_graph(expression: ast.expr) -> bool:
    """Whether what an expression is computed from may get gradients through it."""
    return LEAVES_GRAPH.search(unparse(expression)) is None and not _only_takes_shape(expression)


def _only_takes_shape(expression: ast.expr) -> bool:
    """Whether another tensor gives a new one no more than its shape: `torch.ones(out.shape).to(device)`."""
    while isinstance(expression, ast.Call):
        if NEW.fullmatch(unparse(expression.func).rpartition(".")[2]):
            return True
        if not isinstance(expression.func, ast.Attribute):
            return False
        expression = expression.func.value
    return False


LEAVES_GRAPH = lazy_pattern(
    r"detach|\.data\b|\.item\(|no_grad|deepcopy|\.numpy\(|\.tolist\(|argmax|"
    r"\b(?:tune|update|adjust|anneal|track|record|observe|measure|accuracy|metrics?|stats|statistics)\("
)
"""Code after which nothing flows back, and functions that keep count of what they get."""

NEW = lazy_pattern(r"(?:new_)?(?:zeros|ones|full|empty|rand|randn)(?:_like)?|randint(?:_like)?")
"""Functions that make tensors of a shape."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A training loop that runs a fresh copy of the model, while its optimizer has the parameters of the original."""

    location: Location
    copy: str
    model: str
    forward: Event
    step: Event


def outer_passes(pipeline: Pipeline) -> Iterator[tuple[Event, Event]]:
    """Backward calls whose loss uses a forward pass from before their loop, whose graph the first iteration frees."""
    for backward in _first_backwards(pipeline):
        loss = backward.details.get("loss")
        loop = backward.loops[-1] if backward.loops else None
        if loop is None or not isinstance(loss, Tensor) or loss is not backward.subject:
            continue
        before = [pipeline.events[order] for order in sorted(loss.graph)]
        outside = {each.location for each in before if _is_outside(each, backward)}
        if outside and not _may_run_once(pipeline, backward, loop):
            for each in before:
                if each.location in outside and _is_kept_by(pipeline, loop, backward, each):
                    yield each, backward
                    break


def _is_kept_by(pipeline: Pipeline, loop: Loop, backward: Event, forward: Event) -> bool:
    """Whether the loss of each iteration certainly uses a pass from before the loop, by a name that the loop keeps."""
    source, loss = pipeline.source_of(backward.location), origins.loss_of(pipeline, backward)
    found = origins.origins(source, loss, stays_on_graph) if loss is not None else ()
    inside = [each.expression for each in found if loop.location.holds(source.location(each.expression))]
    bound = origins.names_bound_by(source, loop.location)
    return any(
        each.is_certain and source.location(each.expression).holds(forward.location)
        for name in origins.names_in(inside)
        if origins.text_of(name) not in bound
        for each in origins.origins(source, name, stays_on_graph)
    )


def _is_outside(forward: Event, backward: Event) -> bool:
    """Whether a pass certainly runs before the loop of a backward call, in the same run of the same function."""
    around = backward.loops[:-1]
    is_same = (forward.reading, forward.uncalled) == (backward.reading, backward.uncalled)
    is_always = forward.conditions == backward.conditions[: len(forward.conditions)]
    return is_same and is_always and forward.loops == around and not forward.without_grad


def _may_run_once(pipeline: Pipeline, backward: Event, loop: Loop) -> bool:
    """Whether the loop may have one iteration with a backward call, or the call may keep the graph."""
    keeps = RETAINS.search(pipeline.code(backward.location)) is not None
    is_rare = backward.is_conditional_in(loop) or is_left_after(pipeline, backward, loop)
    freezes = any(pipeline.acts(Act.FREEZE))
    return keeps or is_rare or freezes or FEW.search(loop.header) is not None


FEW = lazy_pattern(r"range\(\s*1\s*\)|\[:1\]")
"""Loops with one iteration."""


def trains_on_copies(pipeline: Pipeline) -> Iterator[Copied]:
    """The loops whose gradients end in a copy of the model that nothing else uses."""
    for training in training_loops(pipeline):
        inside, loop = training.inside, training.loop
        makes_optimizer = any(event.act is Act.OPTIMIZER for event in inside)
        if makes_optimizer or any(gradients.handles(pipeline, event) for event in inside):
            continue
        source = pipeline.source_of(loop.location)
        for statement in source.cached(_deep_copies):
            here, copied = source.location(statement), _deep_copy(statement)
            if copied is None or not (
                loop.location.holds(here) or _is_for_loop(pipeline, statement, copied[0], training)
            ):
                continue
            forwards = [event for event in inside if _is_called(pipeline, event, copied[0])]
            shares = loop.location.holds(here) and _is_touched(copied[0], pipeline.code(loop.location))
            if forwards and not shares and _gets_gradients(pipeline, copied[0], training):
                yield Copied(here, *copied, forwards[0], training.steps[0])
                break


def _is_touched(name: str, code: str) -> bool:
    """Whether code does more with a copy than run it, set its mode, and move it."""
    plain = r"train\(|eval\(|forward\(|zero_grad\(|to\(|cuda\(|state_dict\("
    return re.search(rf"\b{re.escape(name)}\.(?!{plain})", code) is not None


def _is_for_loop(pipeline: Pipeline, statement: ast.Assign, name: str, training: TrainingLoop) -> bool:
    """Whether a copy from before a loop stays as it is until the loop, whose optimizer was made without it."""
    source, loop = pipeline.source_of(training.loop.location), training.loop.location
    optimizer = training.steps[0].subject
    if not isinstance(optimizer, Optimizer) or not optimizer.trains or len(training.steps) != 1:
        return False
    here, is_attribute = source.location(statement), "." in name
    scope: ast.AST | None = source.cached(_classes).innermost(here) if is_attribute else blocks.scope_of(pipeline, here)
    if scope is None or (isinstance(scope, ast.stmt) and not source.location(scope).holds(loop)):
        return False
    others = (node for node in walk(scope) if isinstance(node, ast.stmt) and node is not statement)
    after = [node for node in others if is_attribute or source.location(node) > here]
    return (is_attribute or here < loop) and not any(_is_used(name, _own_code(node)) for node in after)


def _classes(source: Source) -> Nesting[ast.ClassDef]:
    return Nesting((source.location(node), node) for node in source.nodes_of(ast.ClassDef))


def _own_code(statement: ast.stmt) -> str:
    """The code of a statement without its blocks."""
    if not hasattr(statement, "body"):
        return unparse(statement)
    return "\n".join(unparse(each) for each in ast.iter_child_nodes(statement) if isinstance(each, ast.expr))


def _is_used(name: str, code: str) -> bool:
    """Whether code passes a copy on, binds its name again, or does more with it than run it."""
    given = rf"[(,=\[]\s*{re.escape(name)}\b(?!\s*[(.])|\b{re.escape(name)}\s*=(?!=)"
    return name in code and (_is_touched(name, code) or re.search(given, code) is not None)


def _gets_gradients(pipeline: Pipeline, name: str, training: TrainingLoop) -> bool:
    """Whether every pass of the loop in the graph of its loss is one of the copy."""
    loss = training.backward.details.get("loss")
    passes = [pipeline.events[order] for order in loss.graph] if isinstance(loss, Tensor) else []
    inside = passes or [
        event
        for event in training.inside
        if event.act is Act.FORWARD and event.order < training.backward.order and not event.without_grad
    ]
    return bool(inside) and all(_is_called(pipeline, event, name) for event in inside)


def _deep_copies(source: Source) -> list[ast.Assign]:
    return [node for node in source.nodes_of(ast.Assign) if _deep_copy(node) is not None]


def _deep_copy(statement: ast.Assign) -> tuple[str, str] | None:
    """The names in `mine = copy.deepcopy(model)`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name() | ast.Attribute(value=ast.Name(id="self")) as target],
            value=ast.Call(func=ast.Attribute(attr="deepcopy") | ast.Name(id="deepcopy"), args=[model]),
        ):
            return unparse(target), unparse(model)
        case _:
            return None


def _is_called(pipeline: Pipeline, event: Event, name: str) -> bool:
    code = pipeline.code(event.location)
    return event.act is Act.FORWARD and re.match(rf"{re.escape(name)}(?:\.forward)?\(", code) is not None
