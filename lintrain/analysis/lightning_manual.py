"""What a module of Lightning with manual optimization leaves out, or lets two of its optimizers change."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import permutations

from lintrain.analysis import lightning_modules, lightning_updates, script_text
from lintrain.pipeline.modules import modules_in
from lintrain.pipeline.record import Pipeline, Returned
from lintrain.pipeline.values.model import Optimizer, Scheduler
from lintrain.pipeline.values.python import Instance, Mapping, Sequence, Value, options_of

REACHES_SCHEDULES = frozenset({"lr_schedulers", "lr_scheduler_step", "lr_scheduler_configs"})
"""Names by which code gets the schedules of a module."""


def unstepped_schedules(pipeline: Pipeline) -> Iterator[Scheduler]:
    """The schedules that a module returns and no code steps: with manual optimization, Lightning does not either."""
    for returned in _configured(pipeline):
        found = [each for option in options_of(returned.value) for each in lightning_modules.schedules(option)]
        if found and not _reaches_schedules(pipeline):
            held = _locations_of_attributes(pipeline)
            yield from (each for each, _ in found if each.origin is not None and each.origin not in held)


def _configured(pipeline: Pipeline) -> Iterator[Returned]:
    """What the modules with manual optimization return from `configure_optimizers`."""
    for returned in pipeline.returned:
        if returned.method.name == "configure_optimizers" and lightning_updates.updates_by_itself(returned.cls):
            yield returned


def _reaches_schedules(pipeline: Pipeline) -> bool:
    attributes = (node.attr for node in script_text.nodes_of_kind(pipeline, ast.Attribute))
    methods = (node.name for node in script_text.nodes_of_kind(pipeline, ast.FunctionDef))
    return not REACHES_SCHEDULES.isdisjoint((*attributes, *methods))


def _locations_of_attributes(pipeline: Pipeline) -> set[object]:
    """Where values are made that an attribute keeps, by which other code may reach them."""
    return {
        source.location(node.value)
        for source in pipeline.sources.values()
        for node in source.nodes_of(ast.Assign)
        if any(isinstance(target, ast.Attribute) for target in node.targets)
    }


def overlapping(pipeline: Pipeline) -> Iterator[tuple[Optimizer, Optimizer]]:
    """The optimizers of a module's manual steps that got the whole module, each with one that got a part of it."""
    for returned in _configured(pipeline):
        made = _optimizers_in(returned.value)
        for whole, part in permutations(made, 2):
            if _is_of_itself(whole, returned) and _is_of_part(part, returned):
                yield whole, part
                break


def _optimizers_in(value: Value) -> list[Optimizer]:
    match value:
        case Optimizer():
            return [value]
        case Sequence(items=items):
            return [found for each in items for found in _optimizers_in(each)]
        case Mapping(entries={"optimizer": optimizer}):
            return _optimizers_in(optimizer)
        case _:
            return []


def _is_of_itself(optimizer: Optimizer, returned: Returned) -> bool:
    """Whether an optimizer got all parameters of the module: `Adam(self.parameters())`."""
    is_whole = len(optimizer.trains) == 1 and not optimizer.is_part and optimizer.has_no_others
    return is_whole and isinstance(optimizer.trains[0], Instance) and optimizer.trains[0].cls is returned.cls


def _is_of_part(optimizer: Optimizer, returned: Returned) -> bool:
    """Whether an optimizer got parameters of attributes of the module alone."""
    owners = [each for each in optimizer.trains if isinstance(each, Instance) and each.cls is returned.cls]
    return bool(optimizer.trains) and not owners and all(any(modules_in(each)) for each in optimizer.trains)
