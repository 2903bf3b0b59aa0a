"""What `evaluate` of a network of Keras returns: one number, unless `compile` was given metrics."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values import python
from lintrain.pipeline.values.model import Network
from lintrain.pipeline.values.training import KerasRun
from lintrain.source.nodes import unparse
from lintrain.source.source import Source


def numbers_taken_apart(pipeline: Pipeline) -> Iterator[tuple[Location, str, Location]]:
    """The results of `evaluate` that code takes apart, though they are one number: where, the code, the `compile`."""
    for run in pipeline.keras_runs:
        others = [each for each in pipeline.keras_runs if each.model is run.model]
        if run.compiled is None or not all(map(_gives_one_number, others)):
            continue
        names = {binding.name for binding in pipeline.names_of(run.model)}
        for location, code in _taken_apart(pipeline.source, names):
            yield location, code, run.compiled


def _gives_one_number(run: KerasRun) -> bool:
    """Whether a network with one output is compiled with a loss and no metrics."""
    model, metrics, loss = run.model, run.value("metrics"), run.value("loss")
    is_single = isinstance(model, Network) and (
        model.path.endswith("Sequential") or not isinstance(run.output, python.Unknown)
    )
    is_empty = isinstance(metrics, python.Sequence) and not metrics.items and metrics.is_complete
    has_others = isinstance(loss, python.Mapping | python.Sequence) or "weighted_metrics" in run.compile_arguments
    return is_single and run.is_complete and (is_empty or python.is_missing(metrics)) and not has_others


def _taken_apart(source: Source, names: set[str]) -> Iterator[tuple[Location, str]]:
    """`loss, accuracy = model.evaluate(…)`, and `score[1]` of a score that was bound by it."""
    scores: dict[str, int] = {}
    for node in source.nodes_of(ast.Assign):
        match node:
            case ast.Assign(
                targets=[ast.Tuple(elts=[_, _, *_]) as target],
                value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="evaluate")) as call,
            ) if name in names and not _returns_dictionary(call):
                yield source.location(target), unparse(target)
            case ast.Assign(targets=[ast.Name(id=score)], value=value):
                match value:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="evaluate")) if (
                        name in names and score not in scores and not _returns_dictionary(value)
                    ):
                        scores[score] = node.lineno
                    case _:
                        scores[score] = 0
            case _:
                pass
    for each in source.nodes_of(ast.Subscript) if any(scores.values()) else ():
        match each:
            case ast.Subscript(value=ast.Name(id=score), slice=ast.Constant(value=0 | 1)) if (
                0 < scores.get(score, 0) < each.lineno
            ):
                yield source.location(each), unparse(each)
            case _:
                pass


def _returns_dictionary(call: ast.Call) -> bool:
    return any(each.arg in {None, "return_dict"} for each in call.keywords)
