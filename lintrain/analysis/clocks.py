"""Clocks around work that a GPU does while Python goes on."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
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
                    yield from _judged(source, started[name], end, work)
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


def _judged(source: Source, start: ast.Assign, end: Location, work: list[Location]) -> Iterator[Timing]:
    first = source.location(start)
    lines = source.lines[first.end_line : end.line - 1]
    done = [each for each in work if first.end_line < each.line and each.end_line < end.line]
    if done and not WAITS.search("\n".join(line.partition("#")[0] for line in lines)):
        yield Timing(end, first, done[-1])
