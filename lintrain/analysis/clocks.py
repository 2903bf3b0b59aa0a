"""Clocks around work that a GPU does while Python goes on."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence

from lintrain.analysis import script_text
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

CLOCKS = frozenset({"time.time", "time.perf_counter", "time.monotonic", "timeit.default_timer"})

ON_GPU = lazy_pattern(r"\.cuda\(|[\"']cuda\b")
"""Code that moves a model or its inputs to a GPU."""

WAITS = lazy_pattern(
    r"synchronize|\.(?:item|cpu|numpy|tolist|wait|elapsed_time|nonzero)\(|print\(|float\(|int\(|bool\(|assert |\bif "
    r"|while |barrier|to\([\"']cpu|block_until"
)
"""Code that waits until a tensor has been computed, or may do so."""


MOVED = lazy_pattern(r"\.(?:cuda|to)\(|device|cuda")
"""Code that chooses where a tensor is."""


@dataclass(frozen=True, slots=True)
class Timing:
    """A time that is measured around a pass of a model: where the clock is read last and first, and the pass."""

    end: Location
    start: Location
    work: Location


def unsynchronized(pipeline: Pipeline) -> Iterator[Timing]:
    """The times around a forward or backward pass on a GPU, with nothing that waits for the pass."""
    source = pipeline.source
    clocks = clock_reads(pipeline)
    if not clocks or not source.contains(ON_GPU):
        return
    work = [event.location for event in pipeline.acts(Act.FORWARD, Act.BACKWARD) if event.location.path == source.path]
    for block in _blocks(source):
        started: dict[str, ast.Assign] = {}
        for statement in block:
            for name, end in _differences(source, statement, clocks):
                if name in started:
                    yield from _judged(pipeline, started[name], end, work)
            if _is_start(source, statement, clocks):
                assert isinstance(statement, ast.Assign)
                started[ast.unparse(statement.targets[0])] = statement


def clock_reads(pipeline: Pipeline) -> frozenset[Location]:
    """Where the script reads a clock."""
    return frozenset(call.location for call in pipeline.calls if call.path in CLOCKS)


def _blocks(source: Source) -> Iterator[list[ast.stmt]]:
    yield source.tree.body
    nodes: Sequence[ast.FunctionDef | ast.For | ast.While | ast.With | ast.If] = source.nodes_of(
        ast.FunctionDef, ast.For, ast.While, ast.With, ast.If
    )
    for node in nodes:
        yield node.body


def _is_start(source: Source, statement: ast.stmt, clocks: frozenset[Location]) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and len(statement.targets) == 1
        and isinstance(statement.value, ast.Call)
        and source.location(statement.value) in clocks
    )


def _differences(source: Source, statement: ast.stmt, clocks: frozenset[Location]) -> Iterator[tuple[str, Location]]:
    """The names in `clock() - name` of a plain statement, each with where the clock is read."""
    for node in ast.walk(statement) if isinstance(statement, ast.Assign | ast.AugAssign | ast.Expr) else ():
        match node:
            case ast.BinOp(left=ast.Call() as left, op=ast.Sub(), right=right) if source.location(left) in clocks:
                yield ast.unparse(right), source.location(left)
            case _:
                pass


def _judged(pipeline: Pipeline, start: ast.Assign, end: Location, work: list[Location]) -> Iterator[Timing]:
    source, first = pipeline.source, pipeline.source.location(start)
    lines = source.lines[first.end_line : end.line - 1]
    done = [each for each in work if first.end_line < each.line and each.end_line < end.line]
    if not done or WAITS.search("\n".join(line.partition("#")[0] for line in lines)):
        return
    scope = blocks.scope_of(pipeline, first)
    used = {
        each.id
        for each in ast.walk(scope)
        if isinstance(each, ast.Name) and first.end_line < each.lineno < end.line and isinstance(each.ctx, ast.Load)
    }
    if _may_be_on_gpu(source, scope, used):
        yield Timing(end, first, done[-1])


def _may_be_on_gpu(source: Source, scope: ast.AST, used: set[str]) -> bool:
    """Whether one of these names is moved in a scope, or made of something that is, or comes in from outside of it."""
    neutral = script_text.imported_names(source) | set(dir(builtins))
    made: dict[str, list[ast.expr]] = {}
    moved: set[str] = set()
    for node in ast.walk(scope):
        match node:
            case ast.Assign(targets=targets, value=value):
                for name in (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)):
                    made.setdefault(name, []).append(value)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="to" | "cuda")):
                moved.add(name)
            case _:
                pass
    pending, seen = list(used), set[str]()
    while pending:
        name = pending.pop()
        if name in seen or name in neutral:
            continue
        seen.add(name)
        if name in moved or name not in made:
            return True
        if any(MOVED.search(ast.unparse(value)) for value in made[name]):
            return True
        pending.extend(each.id for value in made[name] for each in ast.walk(value) if isinstance(each, ast.Name))
    return False
