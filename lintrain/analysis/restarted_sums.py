"""Sums over the batches of a loop that each batch starts again from 0, and that code after the loop reads."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.hits import Overwritten, leaves, plain_statements
from lintrain.analysis.loader_loops import loops_over_loaders
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import walk
from lintrain.source.source import Source

SHOWS = frozenset(
    {"print", "set_postfix", "set_postfix_str", "set_description", "set_description_str", "info", "debug"}
)
"""Functions that show a number in a loop: one that anything else reads may be meant for each batch."""


def restarted_sums(pipeline: Pipeline) -> Iterator[Overwritten]:
    """The sums of a file that hold no more than the last batch where they are read."""
    source = pipeline.source
    for loop, _ in source.cached(loops_over_loaders):
        restarts = source.once(_restarts_in, loop)
        if not restarts or leaves(loop):
            continue
        scope = blocks.scope_of(pipeline, source.location(loop))
        for name, start in restarts:
            read = _read_below(source, scope, loop, name)
            if read is not None:
                yield Overwritten(source.location(read), name, source.location(start), is_count=True)


def _restarts_in(loop: ast.For) -> list[tuple[str, ast.stmt]]:
    """The names that each iteration sets to 0 and adds to once, without another use of them."""
    plain = plain_statements(loop)
    found: list[tuple[str, ast.stmt]] = []
    for statement in plain:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=0 | 0.0)) if _is_sum(
                loop, plain, name
            ):
                found.append((name, statement))
            case _:
                pass
    return found


def _is_sum(loop: ast.For, plain: Sequence[ast.stmt], name: str) -> bool:
    additions = [
        each
        for each in plain
        if isinstance(each, ast.AugAssign)
        and isinstance(each.op, ast.Add)
        and isinstance(each.target, ast.Name)
        and each.target.id == name
    ]
    if len(additions) != 1:
        return False
    shown = {
        id(part)
        for each in walk(loop)
        if isinstance(each, ast.Call) and last_name(each.func) in SHOWS
        for part in walk(each)
    }
    uses = [each for each in walk(loop) if isinstance(each, ast.Name) and each.id == name and id(each) not in shown]
    return len(uses) == 2  # the two statements


def _read_below(source: Source, scope: ast.AST, loop: ast.For, name: str) -> ast.Name | None:
    """Where the code after a loop reads a name, if it does not set it first."""
    uses = [each for each in source.named_in(scope, name) if isinstance(each, ast.Name)]
    below = [each for each in uses if each.lineno > (loop.end_lineno or 0)]
    first = min(below, key=lambda each: (each.lineno, each.col_offset), default=None)
    is_set = any(
        isinstance(each.ctx, ast.Store) and first is not None and each.lineno == first.lineno for each in below
    )
    return None if first is None or is_set else first
