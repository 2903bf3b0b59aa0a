"""Forward passes that backward calls share, outlive or miss: through changed weights, a freed graph, or a copy."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from lintrain.analysis import gradients, origins
from lintrain.analysis.iterations import covers_all
from lintrain.analysis.training_loops import training_loops
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer
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
    earlier: list[tuple[Event, dict[int, Event]]] = []
    for backward in _first_backwards(pipeline):
        if pipeline.source_of(backward.location) is not pipeline.source:
            continue
        around = backward.loops[-1] if backward.loops else None
        inside = pipeline.acts(Act.FORWARD) if around is None else pipeline.events_in(around)
        forwards = {each.location: each for each in inside if each.act is Act.FORWARD and _is_before(each, backward)}
        through = {each.order: each for each in passes_behind(pipeline, backward, forwards)}
        for first, freed in earlier:
            both = [freed[order] for order in freed.keys() & through.keys()]
            keeps = RETAINS.search(pipeline.code(first.location)) or first.location == backward.location
            if both and not keeps and _is_before(first, backward):
                yield both[0], first, backward
                break
        earlier.append((backward, through))


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
    for each in origins.origins(source, loss, stays_on_graph) if loss is not None else ():
        if not each.is_certain or each.operator is not None:
            continue
        here = source.location(each.expression)
        found.update((event.order, event) for location, event in forwards.items() if here.holds(location))
    yield from (found[order] for order in sorted(found, reverse=True))


def stays_on_graph(expression: ast.expr) -> bool:
    """Whether what an expression is computed from may get gradients through it."""
    return LEAVES_GRAPH.search(ast.unparse(expression)) is None


LEAVES_GRAPH = lazy_pattern(r"detach|\.data\b|\.item\(|no_grad|deepcopy|\.numpy\(|\.tolist\(|argmax")
"""Code after which nothing flows back."""


@dataclass(frozen=True, slots=True)
class Copied:
    """A training loop that runs a fresh copy of the model, while its optimizer has the parameters of the original."""

    location: Location
    copy: str
    model: str
    forward: Event
    step: Event


def trains_on_copies(pipeline: Pipeline) -> Iterator[Copied]:
    """The loops whose gradients end in a copy that the iteration makes, and that nothing else uses."""
    for training in training_loops(pipeline):
        inside, loop = training.inside, training.loop
        makes_optimizer = any(event.act is Act.OPTIMIZER for event in inside)
        if makes_optimizer or any(gradients.handles(pipeline, event) for event in inside):
            continue
        source = pipeline.source_of(loop.location)
        for statement in source.nodes_of(ast.Assign):
            copied = _deep_copy(statement) if loop.location.holds(source.location(statement)) else None
            if copied is None:
                continue
            forwards = [event for event in inside if _is_called(pipeline, event, copied[0])]
            code = pipeline.code(loop.location)
            if forwards and not re.search(
                rf"\b{copied[0]}\.(?!train\(|eval\(|forward\(|zero_grad\(|to\(|cuda\()", code
            ):
                yield Copied(source.location(statement), *copied, forwards[0], training.steps[0])


def _deep_copy(statement: ast.Assign) -> tuple[str, str] | None:
    """The names in `mine = copy.deepcopy(model)`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Call(func=ast.Attribute(attr="deepcopy") | ast.Name(id="deepcopy"), args=[model]),
        ):
            return name, ast.unparse(model)
        case _:
            return None


def _is_called(pipeline: Pipeline, event: Event, name: str) -> bool:
    return event.act is Act.FORWARD and re.match(rf"{name}(?:\.forward)?\(", pipeline.code(event.location)) is not None
