"""Where the rows of a training are divided among its processes: by a data set, a sampler, a launcher or a Trainer."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import expressions, loaders
from lintrain.analysis.expressions import Expression
from lintrain.analysis.rank_conditions import RANK
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.data import Dataset, Rows
from lintrain.pipeline.values.loading import Loader, TorchDataset
from lintrain.pipeline.values.model import Launcher
from lintrain.pipeline.values.python import Instance, LibraryObject, Sequence, Value, options_of
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SAMPLER = "torch.utils.data.DistributedSampler"
OF_PROCESS = lazy_pattern(rf"(?!\w*node_)(?!.*\bnode_?rank\b){RANK}")
"""The number of one process, among all; that of a node divides the rows among the nodes, and not further."""

POSITIONS = {"shard": ("index", 1), "split_dataset_by_node": ("rank", 1)}
"""The parameter that says which part a process gets (datasets 5.2)."""

BY_POSITIONS = frozenset({"select", "Subset"})
STRIDE = lazy_pattern(
    rf"range\((?:int\()?{RANK}\)?, [^()]*(?:\([^()]*\)[^()]*)?, [^()]+(?:\(\))?\)|\[{RANK}::[^:\]]+\]"
)
"""Every so many-th row from that of the process on: `range(rank, len(rows), world_size)`, `order[rank::world_size]`."""


@dataclass(frozen=True, slots=True)
class Division:
    """One operation that leaves each process its part of the rows: its name, and where it is."""

    name: str
    location: Location


def rows_of(pipeline: Pipeline, dataset: Value) -> Iterator[Value]:
    """A data set, or those that an own data set keeps or goes through in its methods."""
    for option in options_of(dataset):
        yield option
        if isinstance(option, Instance):
            owners = [owner.origin for owner in option.cls.lineage() if owner.origin is not None]
            for kept in option.attributes.values():
                yield from options_of(kept)
            for loop in pipeline.loops:
                if any(owner.holds(loop.location) for owner in owners):
                    yield from _data_under(loop.each)


def _data_under(each: Value) -> Iterator[Value]:
    """The data sets that the element of a loop is a row of: alone, or in a tuple with an index."""
    for option in options_of(each):
        if isinstance(option, Rows):
            yield from options_of(option.dataset)
        for item in option.items[:2] if isinstance(option, Sequence) else ():
            yield from _data_under(item)


def sampler_of(loader: Loader) -> Location | None:
    """Where the distributed sampler of a loader is made."""
    for option in options_of(loader.value("sampler")):
        if isinstance(option, LibraryObject) and option.path == SAMPLER:
            return option.origin
    return None


def counts_all_processes(pipeline: Pipeline, sampler: Location) -> bool:
    """Whether a distributed sampler divides rows among all processes, as far as its code shows: not among nodes."""
    call = expressions.call_at(pipeline, sampler)
    given = call.keywords.get("rank") if call is not None else None
    return call is not None and (given is None or OF_PROCESS.fullmatch(given.code) is not None)


def is_asked_for(pipeline: Pipeline, sampler: Location) -> bool:
    """Whether a sampler is made only if the caller of its function asks for it, by a parameter."""
    function = blocks.scope_of(pipeline, sampler)
    if not isinstance(function, ast.FunctionDef):
        return False
    arguments = function.args
    taken = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    return any(loaders.is_decided_by(pipeline, sampler, name) for name in taken)


def launcher_of(pipeline: Pipeline, loader: Loader) -> Launcher | None:
    """What prepares a loader, and divides its rows by that."""
    for launcher in pipeline.launchers:
        if any(each is loader for given in launcher.prepared for each in options_of(given)):
            return launcher
    return None


def by_process(pipeline: Pipeline, dataset: Value) -> Iterator[Division]:
    """The operations of a data set that give each process other rows, by its number."""
    for rows in rows_of(pipeline, dataset):
        yield from _divisions(pipeline, rows)


def _divisions(pipeline: Pipeline, rows: Value) -> Iterator[Division]:
    if isinstance(rows, TorchDataset) and rows.parts and rows.name in {"Subset", "random_split"}:
        if rows.origin is not None and _is_for_process(pipeline, rows.name, rows.origin):
            yield Division(rows.name, rows.origin)
        for option in options_of(rows.parts[0]):
            yield from _divisions(pipeline, option)
    for step in rows.steps if isinstance(rows, Dataset) else ():
        is_candidate = step.operation in POSITIONS or step.operation in BY_POSITIONS
        if is_candidate and _is_for_process(pipeline, step.operation, step.location):
            yield Division(step.operation, step.location)


def _is_for_process(pipeline: Pipeline, operation: str, location: Location) -> bool:
    call = expressions.call_at(pipeline, location)
    if call is None:
        return False
    if operation in POSITIONS:
        given = _given(call, *POSITIONS[operation])
        return given is not None and OF_PROCESS.fullmatch(given.code) is not None
    chosen = [*call.arguments, *call.keywords.values()]
    return any(STRIDE.search(each.code) and "node_rank" not in each.code for each in chosen)


def _given(call: Expression, name: str, position: int) -> Expression | None:
    """An argument by its name or position; `split_dataset_by_node` has the data set before it."""
    if name in call.keywords:
        return call.keywords[name]
    return call.arguments[position] if len(call.arguments) > position else None
