"""Where a preprocessor that was fitted on training rows is fitted again on test rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.leaks import LEARNERS, SPLIT
from lintrain.analysis.training_loops import words_of
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

PREPROCESSORS = LEARNERS | {"CountVectorizer", "OneHotEncoder", "OrdinalEncoder"}


@dataclass(frozen=True, slots=True)
class Refit:
    """A second fit of a preprocessor: its name, where, and where it was fitted on training rows."""

    learner: str
    location: Location
    callee: Location
    first: Location


def refitted(pipeline: Pipeline) -> Iterator[Refit]:
    """Each second fit on rows that were split off for testing, or have a name for it; names of one block."""
    source = pipeline.source
    made = {call.location for call in pipeline.calls if call.path.rpartition(".")[2] in PREPROCESSORS}
    splits = {call.location for call in pipeline.calls if call.path == SPLIT}
    if made:
        for function in source.nodes_of(ast.FunctionDef):
            yield from _in_block(source, function.body, made, splits)
        yield from _in_block(source, source.tree.body, made, splits)


def _in_block(source: Source, body: list[ast.stmt], made: set[Location], splits: set[Location]) -> Iterator[Refit]:
    learners: dict[str, Location | None] = {}
    held_out: set[str] = set()
    for statement in body:
        call = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
        targets = list(statement.targets) if isinstance(statement, ast.Assign) else []
        if isinstance(call, ast.Call):
            yield from _fit(source, call, learners, held_out)
        for target in targets:
            if isinstance(target, ast.Name):
                learners.pop(target.id, None)
                if isinstance(call, ast.Call) and source.location(call) in made:
                    learners[target.id] = None
            elif isinstance(target, ast.Tuple) and isinstance(call, ast.Call) and source.location(call) in splits:
                held_out |= {each.id for each in target.elts[1::2] if isinstance(each, ast.Name)}


def _fit(source: Source, call: ast.Call, learners: dict[str, Location | None], held_out: set[str]) -> Iterator[Refit]:
    """The refit that a call is; a first fit is noted."""
    match call:
        case ast.Call(
            func=ast.Attribute(value=ast.Name(id=name), attr="fit" | "fit_transform" as method), args=[rows, *_]
        ) if name in learners:
            first, is_test = learners[name], _is_test(rows, held_out)
            if first is None and not is_test:
                learners[name] = source.location(call)
            elif first is not None and is_test and method == "fit_transform":
                yield Refit(name, source.location(call), source.location(call.func), first)
        case _:
            pass


def _is_test(rows: ast.expr, held_out: set[str]) -> bool:
    """Whether rows were split off, or are named for an evaluation and not for training."""
    while isinstance(rows, ast.Subscript | ast.Attribute | ast.Call):
        rows = rows.func if isinstance(rows, ast.Call) else rows.value
    if not isinstance(rows, ast.Name):
        return False
    words = words_of(rows.id)
    return rows.id in held_out or (bool(words & EVALUATION_WORDS) and not words & TRAINING_WORDS)
