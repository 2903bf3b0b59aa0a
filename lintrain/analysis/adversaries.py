"""Optimizers of several networks in one iteration, and the forward passes that their losses go through.

A generator and a discriminator have an optimizer each, and the loss of one goes through both networks.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain

from lintrain.analysis import gradients, lightning_events, origins
from lintrain.analysis.iterations import concerns, trains_any
from lintrain.analysis.training_loops import callee_text, may_hide
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event, Loop
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer, Tensor
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class Untrained:
    """A step of an optimizer whose network runs in the iteration, while no loss goes back through that pass."""

    backward: Event
    step: Event
    forward: Event


@dataclass(frozen=True, slots=True)
class Leftover:
    """A backward call for one optimizer that leaves gradients behind which another optimizer applies later."""

    backward: Event
    own_step: Event
    step: Event


def untrained_steps(pipeline: Pipeline) -> Iterator[Untrained]:
    """The steps of optimizers that no backward call of their iteration reaches, though their network runs."""
    for step, around in _steps_of_several(pipeline):
        backwards = [event for event in around if event.act is Act.BACKWARD]
        before = [event for event in backwards if event.order < step.order]
        if not before or any(_reached(pipeline, event, step.subject) is not False for event in backwards):
            continue
        passes = [event for event in around if event.act is Act.FORWARD and event.order < before[-1].order]
        own = [event for event in passes if _is_pass_of(pipeline, event, step.subject)]
        if own and _explains(pipeline, before[-1], own):
            yield Untrained(before[-1], step, own[-1])


def _explains(pipeline: Pipeline, backward: Event, own: Sequence[Event]) -> bool:
    """Whether the code of a loss, back to its passes, has all of those that are known and none of some others."""
    source, loss = pipeline.source_of(backward.location), origins.loss_of(pipeline, backward)
    known = backward.details["loss"]
    if loss is None or not isinstance(known, Tensor):
        return False
    parts = [each.expression for each in origins.origins(source, loss)]
    locations = [source.location(each) for each in parts]
    is_whole = all(any(each.holds(pipeline.events[order].location) for each in locations) for order in known.graph)
    return is_whole and all(event.without_grad or _is_cut(source, event, parts) for event in own)


def _is_cut(source: Source, forward: Event, parts: Sequence[ast.expr]) -> bool:
    """Whether a loss that is computed from some expressions gets the result of a pass only where it is detached."""
    cut = f"{source.code(forward.location)}.detach()"
    holding = [each for each in parts if source.location(each).holds(forward.location)]
    open_ = {source.location(each) for each in holding if cut not in source.code(source.location(each))}
    made = [each for each in source.nodes_of(ast.Assign) if source.location(each.value) in open_]
    if len(made) != len(open_) or not all(isinstance(each.targets[0], ast.Name) for each in made):
        return False
    names = "|".join(unparse(each.targets[0]) for each in made)
    return not made or not any(re.search(rf"\b(?:{names})\b(?!\.detach\()", unparse(each)) for each in parts)


def leftovers(pipeline: Pipeline) -> Iterator[Leftover]:
    """The backward calls through two networks, after which only one of them steps and the other keeps its gradients."""
    for step, around in _steps_of_several(pipeline):
        before = [event for event in around if event.order < step.order and event.conditions == step.conditions]
        clears = [event for event in before if event.act is Act.ZERO_GRAD and _may_clear(pipeline, event, step)]
        since = [event for event in before if clears and event.order > clears[-1].order]
        backwards = [event for event in since if event.act is Act.BACKWARD]
        if len(backwards) != 2 or not all(_reached(pipeline, event, step.subject) for event in backwards):
            continue
        first, second = backwards
        others = [event for event in since if event.act is Act.STEP and first.order < event.order < second.order]
        is_apart = len(others) == 1 and concerns(pipeline, others[0], step.subject) is False
        if is_apart and all(_reached(pipeline, event, others[0].subject) for event in backwards):
            yield Leftover(first, others[0], step)


def _steps_of_several(pipeline: Pipeline) -> Iterator[tuple[Event, Sequence[Event]]]:
    """The steps in iterations that train with several optimizers, each with the events of its iteration."""
    for step in pipeline.acts(Act.STEP):
        if not isinstance(step.subject, Optimizer) or not step.subject.trains:
            continue
        around = pipeline.events_in(step.loops[-1]) if step.loops else lightning_events.in_step(pipeline, step)
        several = {id(event.subject) for event in around if event.act is Act.STEP}
        hidden = any(event.act is Act.FREEZE or gradients.handles(pipeline, event) for event in around)
        if len(several) > 1 and not hidden and not any(may_hide(pipeline, event, step.subject) for event in around):
            yield step, around


def _reached(pipeline: Pipeline, backward: Event, optimizer: object) -> bool | None:
    """Whether a loss goes back through what an optimizer trains; None if its graph is not known."""
    loss = backward.details.get("loss")
    if not isinstance(loss, Tensor) or not loss.graph or not isinstance(optimizer, Optimizer):
        return None
    return trains_any(pipeline, [pipeline.events[order].subject for order in loss.graph], optimizer)


def _is_pass_of(pipeline: Pipeline, forward: Event, optimizer: object) -> bool:
    return isinstance(optimizer, Optimizer) and trains_any(pipeline, [forward.subject], optimizer) is True


def _may_clear(pipeline: Pipeline, clear: Event, step: Event) -> bool:
    return concerns(pipeline, clear, step.subject) is not False


@dataclass(frozen=True, slots=True)
class Unstepped:
    """An optimizer that is cleared before a backward call, after which another one steps, and that never steps."""

    backward: Location
    cleared: Location
    stepped: Location
    name: str
    other: str


def unstepped(source: Source) -> Iterator[Unstepped]:
    """The optimizers of several in a function that are cleared and never step, wherever a loop calls the function."""
    for function in source.nodes_of(ast.FunctionDef):
        named = source.once(_steps_in, function)
        steps = {name for _, method, name in named if method == "step"}
        for index, (clear, method, name) in enumerate(named):
            after = named[index + 1 : index + 3]
            if method != "zero_grad" or name in steps or [each[1] for each in after] != ["backward", "step"]:
                continue
            if not _is_only_cleared(source, name) or not _makes_optimizer(source, after[1][2]):
                continue
            backward, step = (source.location(each[0]) for each in after)
            yield Unstepped(backward, source.location(clear), step, name, after[1][2])


def _steps_in(function: ast.FunctionDef) -> list[tuple[ast.Call, str, str]]:
    found = [each for node in own_nodes(function) for each in _method_calls(node)]
    return sorted(found, key=lambda each: (each[0].lineno, each[0].col_offset))


def _method_calls(node: ast.AST) -> Iterator[tuple[ast.Call, str, str]]:
    """The call that a statement is, with the name of the method and the code of its owner."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method)) as call):
            if method in {"zero_grad", "backward", "step"}:
                yield call, method, unparse(owner)
        case _:
            pass


def _is_only_cleared(source: Source, name: str) -> bool:
    """Whether a file makes an optimizer of this name, clears it, and does nothing else with it."""
    attribute, text = re.escape(name.rpartition(".")[2]), re.sub(r"#.*", "", source.text)
    uses = len(re.findall(rf"\b{attribute}\b", text))
    cleared = len(re.findall(rf"\b{attribute}\.(?:zero_grad|state_dict|load_state_dict)\(", text))
    return uses == cleared + 1 and _makes_optimizer(source, name)


def _makes_optimizer(source: Source, name: str) -> bool:
    made = [each for each in source.nodes_of(ast.Assign) if unparse(each.targets[0]) == name]
    return len(made) == 1 and re.search(r"\.parameters\(\)", unparse(made[0].value)) is not None


def is_judged_network(pipeline: Pipeline, forward: Event) -> bool:
    """Whether a pass runs a generator, which is trained through a network that also has a loss without it.

    Where a third network gets the output too, it is meant for that one, such as features that fit two domains.
    """
    holding, counts = pipeline.cached(_networks_of_losses, pipeline)
    with_it = Counter(chain.from_iterable(holding.get(id(forward.subject), ())))
    judges = {network for network, count in with_it.items() if counts[network] > count}
    around = pipeline.cached(_passes_by_loops, pipeline).get((forward.reading, forward.loops), [])
    beside = [each for each in around if each.subject is not forward.subject]
    # Where the output is not followed, the name of what else runs has to do.
    named = {id(each.subject) for each in beside if JUDGE.search(callee_text(pipeline, each))}
    return bool(judges | named) and {id(each.subject) for each in beside} <= judges | named


def _passes_by_loops(pipeline: Pipeline, _: Pipeline) -> dict[tuple[int, tuple[Loop, ...]], list[Event]]:
    """The forward passes by the loops that they are in."""
    found: dict[tuple[int, tuple[Loop, ...]], list[Event]] = {}
    for each in pipeline.acts(Act.FORWARD):
        found.setdefault((each.reading, each.loops), []).append(each)
    return found


def _networks_of_losses(pipeline: Pipeline, _: Pipeline) -> tuple[dict[int, list[set[int]]], Counter[int]]:
    """What ran for the loss of each backward pass: these sets by each network in them, and how many have it."""
    holding: dict[int, list[set[int]]] = {}
    counts = Counter[int]()
    for backward in pipeline.acts(Act.BACKWARD):
        loss = backward.details.get("loss")
        ran = {id(pipeline.events[order].subject) for order in loss.graph} if isinstance(loss, Tensor) else set[int]()
        counts.update(ran)
        for network in ran:
            holding.setdefault(network, []).append(ran)
    return holding, counts


JUDGE = lazy_pattern(r"(?i)discriminator|critic|\bnet_?d\b|\bd_net\b")
"""Names of networks that judge the output of another one."""
