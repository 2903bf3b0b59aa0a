"""Parts of a loss of reinforcement learning that are meant to be constants, and carry gradients.

A value that is estimated from the next state is the target of a step of temporal difference, and an advantage is the
weight of a policy's gradient. Both are numbers there: what computes them learns from a loss of its own.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.analysis import origins
from lintrain.analysis.iterations import concerns, trains_any
from lintrain.analysis.shared_passes import stays_on_graph
from lintrain.model.location import Location
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import modules_in
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Optimizer, Tensor
from lintrain.pipeline.values.python import Unknown, Value
from lintrain.pipeline.values.training import LossCall
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

REGRESSES = frozenset({"mse_loss", "smooth_l1_loss", "huber_loss", "l1_loss"})

DISCOUNTS = lazy_pattern(r"gamma|discount|\b(?:a?max)\(|\b1(?:\.0)? - \w*(?:done|term)", re.IGNORECASE)
"""Code of a value that is estimated from the next state."""


@dataclass(frozen=True, slots=True)
class Carried:
    """A value with gradients: where it is given, its code, and the pass that it was computed by."""

    location: Location
    code: str
    forward: Location


def targets(pipeline: Pipeline) -> Iterator[Carried]:
    """The estimates of the next state that are the target of the network which gives them."""
    for loss in pipeline.losses:
        given = loss.target
        if loss.name not in REGRESSES or given is None or loss.without_grad or not _is_estimate(pipeline, loss):
            continue
        value = given.value
        passes = [pipeline.events[order] for order in value.graph] if isinstance(value, Tensor) else []
        predicted = loss.prediction.value if loss.prediction else None
        same = [each for each in passes if isinstance(predicted, Tensor) and _holds(each.subject, predicted.model)]
        learned = [each for each in same if not each.without_grad and _is_trained(pipeline, each)]
        if learned:
            yield Carried(given.location, given.text, learned[0].location)


def _is_estimate(pipeline: Pipeline, loss: LossCall) -> bool:
    """Whether a target is `reward + gamma * net(next)`."""
    wanted = loss.target.value if loss.target else None
    if not isinstance(wanted, Tensor) or wanted.made is None or wanted.made.name != "add" or wanted.cut is not None:
        return False
    source = pipeline.source_of(loss.location)
    node = next((each for each in source.nodes if isinstance(each, ast.expr) and _is_at(source, each, loss)), None)
    code = " ".join(unparse(each.expression) for each in origins.origins(source, node)) if node is not None else ""
    return DISCOUNTS.search(code) is not None


def _holds(network: Value, part: Value) -> bool:
    return not isinstance(part, Unknown) and any(each is part for each in modules_in(network))


def _is_at(source: Source, node: ast.expr, loss: LossCall) -> bool:
    return loss.target is not None and source.location(node) == loss.target.location


def _is_trained(pipeline: Pipeline, forward: Event) -> bool:
    return any(trains_any(pipeline, [forward.subject], each) is True for each in pipeline.optimizers if each.trains)


def advantages(pipeline: Pipeline) -> Iterator[Carried]:
    """The advantages that weigh the logarithm of a policy, and through which the critic gets gradients too."""
    if "log_prob(" not in pipeline.source.text:
        return
    for backward in pipeline.acts(Act.BACKWARD):
        source, loss = pipeline.source_of(backward.location), origins.loss_of(pipeline, backward)
        if loss is None or source is not pipeline.source:
            continue
        for each in origins.origins(source, loss, stays_on_graph):
            for node in walk(each.expression):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                    yield from _in_product(pipeline, source, backward, node)


def _in_product(pipeline: Pipeline, source: Source, backward: Event, product: ast.BinOp) -> Iterator[Carried]:
    sides = [(product.left, product.right), (product.right, product.left)]
    for policy, weight in sides:
        if not isinstance(weight, ast.Name | ast.Attribute):
            continue
        if not any("log_prob(" in code for code in _codes(source, policy)):
            continue
        parts = [each.expression for each in origins.origins(source, weight, stays_on_graph)]
        is_difference = any(isinstance(each, ast.BinOp) and isinstance(each.op, ast.Sub) for each in parts)
        if not is_difference or any("log_prob(" in unparse(each) for each in parts):
            continue
        for forward in _passes_in(pipeline, source, backward, parts):
            if _steps_with(pipeline, backward, forward):
                yield Carried(source.location(weight), unparse(weight), forward.location)
                return


def _codes(source: Source, node: ast.expr) -> Iterator[str]:
    return (unparse(each.expression) for each in origins.origins(source, node))


def _passes_in(pipeline: Pipeline, source: Source, backward: Event, parts: Sequence[ast.expr]) -> Iterator[Event]:
    """The forward passes with gradients that some expressions contain, in the iteration of a backward call."""
    locations = [source.location(each) for each in parts]
    for event in pipeline.acts(Act.FORWARD):
        is_before = event.order < backward.order and event.loops == backward.loops and not event.without_grad
        if is_before and any(each.holds(event.location) for each in locations):
            yield event


def _steps_with(pipeline: Pipeline, backward: Event, forward: Event) -> bool:
    """Whether an optimizer of what ran steps with the gradients of a backward call, before it clears them."""
    after = [event for event in pipeline.acts(Act.STEP, Act.ZERO_GRAD) if event.order > backward.order]
    for event in after:
        optimizer = event.subject
        if event.act is not Act.STEP or event.loops != backward.loops or not isinstance(optimizer, Optimizer):
            continue
        cleared = any(
            each.act is Act.ZERO_GRAD and each.order < event.order and concerns(pipeline, each, optimizer) is not False
            for each in after
        )
        if not cleared and trains_any(pipeline, [forward.subject], optimizer) is True:
            return True
    return False
