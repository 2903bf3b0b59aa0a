"""Loops whose sums are named for an evaluation, and that go through the loader that the same function trains on."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.evaluations import EVALUATION_WORDS, TRAINING_WORDS
from lintrain.analysis.training_loops import words_of
from lintrain.source.by_name import scopes_naming
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

WRAPPERS = frozenset({"enumerate", "tqdm", "trange", "track"})
KEEPS = frozenset({"append", "extend", "update"})


@dataclass(frozen=True, slots=True)
class TrainedOnLoop:
    """The loader in the head of a loop, and a sum of the loop that is named for held-out rows."""

    loader: ast.expr
    total: str


def trained_on_loops(source: Source) -> Iterator[TrainedOnLoop]:
    """The evaluations of a file that go through the training loader, by the names of what they add up."""
    if ".backward(" not in source.text:
        return
    for scope in scopes_naming(source, "backward"):
        loops = [(loop, loader) for loop in own_nodes(scope) if isinstance(loop, ast.For) and (loader := _loader(loop))]
        trained = {unparse(loader) for loop, loader in loops if _trains(loop)}
        for loop, loader in loops:
            if unparse(loader) in trained and not _trains(loop):
                totals = _totals(loop)
                if totals and all(map(_is_held_out, totals)):
                    yield TrainedOnLoop(loader, totals[0])


def _loader(loop: ast.For) -> ast.expr | None:
    """The loader of training rows that a loop goes through, inside of `enumerate` and `tqdm`."""
    found = loop.iter
    while isinstance(found, ast.Call) and found.args and unparse(found.func).rpartition(".")[2] in WRAPPERS:
        found = found.args[0]
    words = words_of(unparse(found)) if isinstance(found, ast.Name | ast.Attribute) else set[str]()
    return found if words & TRAINING_WORDS and not words & EVALUATION_WORDS else None


def _trains(loop: ast.For) -> bool:
    return any(isinstance(node, ast.Attribute) and node.attr in {"backward", "step"} for node in walk(loop))


def _totals(loop: ast.For) -> list[str]:
    """The names of what the rounds of a loop add to: `val_loss += …`, `scores.append(…)`."""
    found: list[str] = []
    for node in walk(loop):
        match node:
            case ast.AugAssign(target=ast.Name() | ast.Attribute() as target):
                found.append(unparse(target))
            case ast.Call(func=ast.Attribute(value=ast.Name() | ast.Attribute() as owner, attr=attr)) if attr in KEEPS:
                found.append(unparse(owner))
            case _:
                pass
    return found


def _is_held_out(name: str) -> bool:
    words = words_of(name)
    return bool(words & EVALUATION_WORDS) and not words & TRAINING_WORDS
