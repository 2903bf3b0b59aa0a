"""Optimizers that an accelerator does not prepare together with the model, by the names of the file."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.source.by_name import calls_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MODEL = lazy_pattern(r"(?i)model|unet|net$|transformer|encoder|policy|lora")
OPTIMIZER = lazy_pattern(r"(?i)(?:^|[._])\w*optim\w*$")
PREPARES_OTHERWISE = lazy_pattern(r"prepare_optimizer|\.prepare\([^)]*[*][^)]*\)|_optimizers\b")
"""Code that may prepare an optimizer in another way, or leaves it to DeepSpeed."""


@dataclass(frozen=True, slots=True)
class UnpreparedOptimizer:
    """A step of an optimizer that is not prepared: where, its name, and where the model is."""

    location: Location
    name: str
    prepared: Location


def unprepared_optimizers(source: Source) -> Iterator[UnpreparedOptimizer]:
    """The first step of an optimizer in a file that prepares a model, and calls the accelerator's `backward`."""
    if not source.contains(r"accelerator\.prepare\(") or not source.contains(r"accelerator\.backward\("):
        return
    if source.contains(PREPARES_OTHERWISE):
        return
    preparing = [call for call in calls_of(source, {"prepare"}) if unparse(call.func).endswith("accelerator.prepare")]
    given = [unparse(each) for call in preparing for each in call.args]
    if any("optim" in each.lower() for each in given):
        return
    trained = {each.partition(".")[0] for each in _given_to_optimizers(source)}
    if not any(MODEL.search(each) or each in trained for each in given):
        return
    made = _made(source) - set(_handed_on(source))
    for step in sorted(calls_of(source, {"step"}), key=lambda call: call.lineno):
        owner = unparse(step.func).removesuffix(".step")
        if OPTIMIZER.search(owner) and owner in made:
            yield UnpreparedOptimizer(source.location(step), owner, source.location(preparing[0]))
            return


def _made(source: Source) -> set[str]:
    """What the file gives a name by calls alone: no second name of something, and no part of what a call gives."""
    given = [(target, node.value) for node in source.nodes_of(ast.Assign) for target in node.targets]
    called = {unparse(target) for target, value in given if isinstance(value, ast.Call)}
    others = {unparse(target) for target, value in given if not isinstance(value, ast.Call)}
    unpacked = {unparse(each) for target, _ in given if isinstance(target, ast.Tuple) for each in target.elts}
    return called - others - unpacked


def _given_to_optimizers(source: Source) -> Iterator[str]:
    """The code of what calls get that make an optimizer: `net` of `optimizer = make_optimizer(net)`."""
    for node in source.nodes_of(ast.Assign):
        if isinstance(node.value, ast.Call) and any(OPTIMIZER.search(unparse(target)) for target in node.targets):
            yield from (unparse(each) for each in node.value.args)


SCHEDULES = lazy_pattern(r"(?i)sched|LR$|^print$|^len$|warmup")
"""Calls that read an optimizer, and leave it as it is."""


def _handed_on(source: Source) -> Iterator[str]:
    """The code of what calls get that make no schedule, alone or in a list or dictionary: they may prepare it.

    A function of the file that prepares nothing only trains with it.
    """
    functions = {node.name: node for node in source.nodes_of(ast.FunctionDef)}
    for call in source.nodes_of(ast.Call):
        function = functions.get(call.func.id) if isinstance(call.func, ast.Name) else None
        if function is not None and "prepare" not in unparse(function):
            continue
        if not SCHEDULES.search(unparse(call.func).rpartition(".")[2]):
            for given in (*call.args, *(each.value for each in call.keywords)):
                yield from (unparse(each) for each in walk(given) if isinstance(each, ast.Name | ast.Attribute))
