"""Metrics that a script takes by their names from what a Trainer's evaluation, or prediction, returns."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

PREFIXES = {"evaluate": "eval", "predict": "test"}
"""What the names of the metrics begin with by default (transformers 4.0 to 5.23)."""

WITHOUT_PREFIX = frozenset({"epoch"})
REPLACING = frozenset({"evaluate", "predict", "evaluation_loop", "prediction_loop", "log"})
"""Methods with which a Trainer of the script may return other names."""


@dataclass(frozen=True, slots=True)
class MissingKey:
    """A metric that is read under a name which its evaluation does not give.

    Where, the name, what the names begin with, and the call that returned them.
    """

    location: Location
    key: str
    prefix: str
    call: Location
    method: str


@dataclass(frozen=True, slots=True)
class _Returned:
    """A call that returns metrics, and what their names begin with."""

    call: ast.Call
    prefix: str
    method: str


def missing_keys(pipeline: Pipeline) -> Iterator[MissingKey]:
    """The metrics that are read under names without the prefix of the evaluation that returned them."""
    source = pipeline.source
    if not pipeline.runs or not source.contains(r"\.evaluate\(|\.predict\("):
        return
    trainers = _trainers(pipeline)
    named = _named(source, trainers)
    for node in source.nodes_of(ast.Subscript):
        match node:
            case ast.Subscript(value=owner, slice=ast.Constant(value=str() as key), ctx=ast.Load()):
                returned = _returned_by(owner, trainers, named)
            case _:
                continue
        if returned is not None and key not in WITHOUT_PREFIX and not key.startswith(f"{returned.prefix}_"):
            at = source.location(node.slice)
            yield MissingKey(at, key, returned.prefix, source.location(returned.call), returned.method)


def _trainers(pipeline: Pipeline) -> frozenset[str]:
    """The code of the names and attributes that hold nothing but a plain Trainer of transformers."""
    made = {run.construction: run for run in pipeline.runs}
    found, others = set[str](), set[str]()
    for node in pipeline.source.nodes_of(ast.Assign):
        run = made.get(pipeline.source.location(node.value))
        names = {unparse(target) for target in node.targets}
        (found if run is not None and _is_plain(run) else others).update(names)
    return frozenset(found - others)


def _is_plain(run: TrainerRun) -> bool:
    return run.is_plain and not run.overrides & REPLACING


def _named(source: Source, trainers: frozenset[str]) -> dict[str, _Returned]:
    """What the names hold that a file binds to one such call only, and changes nowhere."""
    bound = Counter(each.id for each in source.nodes_of(ast.Name) if isinstance(each.ctx, ast.Store))
    bound.update(_changed(source))
    found: dict[str, _Returned] = {}
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                returned = _call_of(value, trainers)
                if returned is not None and bound[name] == 1:
                    found[name] = returned
            case _:
                pass
    return found


def _changed(source: Source) -> Iterator[str]:
    """The names of dictionaries that code puts entries into, or asks for a key."""
    for node in (*source.nodes_of(ast.Subscript), *source.nodes_of(ast.Call), *source.nodes_of(ast.Compare)):
        match node:
            case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
                yield unparse(owner).partition(".")[0]
            case ast.Call(func=ast.Attribute(value=owner, attr="update" | "setdefault" | "pop")):
                yield unparse(owner).partition(".")[0]
            case ast.Compare(ops=[ast.In()], comparators=[owner]):
                yield unparse(owner).partition(".")[0]
            case _:
                pass


def _returned_by(owner: ast.expr, trainers: frozenset[str], named: Mapping[str, _Returned]) -> _Returned | None:
    """The call whose metrics an expression is: `results`, `trainer.evaluate()`, `output.metrics`."""
    method = "evaluate"
    if isinstance(owner, ast.Attribute) and owner.attr == "metrics":
        owner, method = owner.value, "predict"
    found = named.get(owner.id) if isinstance(owner, ast.Name) else _call_of(owner, trainers)
    return found if found is not None and found.method == method else None


def _call_of(value: ast.expr, trainers: frozenset[str]) -> _Returned | None:
    match value:
        case ast.Call(func=ast.Attribute(value=owner, attr=method)) if (
            method in PREFIXES and unparse(owner) in trainers
        ):
            given = {each.arg: each.value for each in value.keywords}
            prefix = given.get("metric_key_prefix", value.args[2] if len(value.args) > POSITION else None)
            is_open = None in given or any(isinstance(each, ast.Starred) for each in value.args)
        case _:
            return None
    match prefix:
        case None if not is_open:
            return _Returned(value, PREFIXES[method], method)
        case ast.Constant(value=str() as text):
            return _Returned(value, text, method)
        case _:
            return None


POSITION = 2
"""The position of `metric_key_prefix` among the arguments."""
