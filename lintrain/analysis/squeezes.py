"""Tensors of a batch whose axes of size 1 are all squeezed, and that code then goes through row by row."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from lintrain.model.location import Location
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

MODEL = lazy_pattern(r"(^|\.|_)(model|net|network|classifier|regressor|discriminator|critic|scorer)\w*$", re.IGNORECASE)
"""Code of a network that is called."""

LOADS = lazy_pattern(r"load|batch|_dl\b|\bdl\b|data", flags=0)
"""Code that a loop over batches iterates over."""

KEEP_AXES = frozenset(
    {"cpu", "detach", "numpy", "tolist", "float", "double", "int", "long", "half", "to", "cuda", "data"}
)
"""Methods and attributes that leave the axes of a tensor as they are."""

WITHOUT_LAST_BATCH = r"\bdrop_last\s*=\s*True|\bbatch_size\s*=\s*1\b"
RESTORES = r"\.(?:dim|ndim|ndimension|shape|size|unsqueeze|reshape|view|flatten|ravel)\b|atleast_1d|\[None"


def restored_later(nodes: Sequence[ast.AST]) -> set[int]:
    """The nodes that compute what `view(-1, …)` later gives the batch axis again, whatever was squeezed in it."""
    lines: dict[str, int] = {}
    for node in nodes:
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="view" | "reshape"), args=[first, _, *_], lineno=line
            ) if ast.unparse(first) == "-1":
                lines[name] = max(line, lines.get(name, line))
            case _:
                pass
    computed = (each for each in nodes if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name))
    return {
        id(part)
        for each in computed
        if each.lineno < lines.get(ast.unparse(each.targets[0]), 0)
        for part in walk(each.value)
    }


def iterated_squeezes(source: Source) -> list[tuple[Location, str]]:
    """The squeezes of a batch whose result is iterated in the same loop, with what is squeezed."""
    if not source.contains(r"squeeze\(\)") or source.contains(WITHOUT_LAST_BATCH):
        return []
    return source.cached(_iterated_squeezes)


def _iterated_squeezes(source: Source) -> list[tuple[Location, str]]:
    found: dict[Location, str] = {}
    for loop in source.nodes_of(ast.For):
        if LOADS.search(ast.unparse(loop.iter)):
            for node in _iterated_in(loop):
                found.setdefault(source.location(node), ast.unparse(node.func.value))  # type: ignore[attr-defined]
    return list(found.items())


def _iterated_in(loop: ast.For) -> Iterator[ast.Call]:
    """The squeezes in a loop over batches whose rows the same iteration goes through."""
    rows = {each.id for each in walk(loop.target) if isinstance(each, ast.Name)}
    squeezed: dict[str, ast.Call] = {}
    for node in walk(loop):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                inner = _squeeze_in(value)
                if inner is not None and _names(inner) & rows:
                    squeezed[name] = inner
                elif name in squeezed:
                    del squeezed[name]
                if _names(value) & rows:
                    rows.add(name)
            case _:
                pass
    text = ast.unparse(loop)
    for group in _iterated(loop):
        given = [(each, _given_squeeze(each, squeezed, rows)) for each in group]
        is_beside_rows = any(inner is None and _names(each) & rows for each, inner in given)
        for each, inner in given:
            if inner is None or _is_restored(each, text):
                continue
            if is_beside_rows or _is_prediction(inner, rows):
                yield inner


def _iterated(loop: ast.For) -> Iterator[list[ast.expr]]:
    """What code goes through: each group of expressions is read row by row together."""
    for node in walk(loop):
        match node:
            case ast.For(iter=over) | ast.comprehension(iter=over) if node is not loop:
                yield _read_together(over)
            case ast.Call(func=ast.Attribute(attr="extend"), args=[only]):
                yield _read_together(only)
            case _:
                pass


def _read_together(node: ast.expr) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Name(id="zip"), args=given):
            return given
        case ast.Call(func=ast.Name(id="enumerate" | "list" | "tqdm"), args=[first, *_]):
            return _read_together(first)
        case _:
            return [node]


def _given_squeeze(node: ast.expr, squeezed: dict[str, ast.Call], rows: set[str]) -> ast.Call | None:
    """The squeeze that an expression is the result of, in itself or by its name."""
    plain = _without_moves(node)
    if isinstance(plain, ast.Name):
        return squeezed.get(plain.id)
    inner = _squeeze_in(node)
    return inner if inner is not None and _names(inner) & rows else None


def _squeeze_in(node: ast.expr) -> ast.Call | None:
    """The call of `squeeze()` that a chain of methods which keep the axes ends with: `x.squeeze().tolist()`."""
    match _without_moves(node):
        case ast.Call(func=ast.Attribute(attr="squeeze"), args=[], keywords=[]) as call:
            return call
        case _:
            return None


def _without_moves(node: ast.expr) -> ast.expr:
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) | ast.Attribute(value=owner, attr=name):
            return _without_moves(owner) if name in KEEP_AXES else node
        case _:
            return node


def _is_prediction(inner: ast.Call, rows: set[str]) -> bool:
    """Whether what is squeezed is what a model gives for the batch itself: `model(x).squeeze()`."""
    match _without_moves(inner.func.value) if isinstance(inner.func, ast.Attribute) else inner:
        case ast.Call(func=func, args=given):
            return MODEL.search(ast.unparse(func)) is not None and any(_names(each) & rows for each in given)
        case _:
            return False


def _is_restored(node: ast.expr, text: str) -> bool:
    """Whether the loop asks a squeezed tensor for its axes, or gives it one again."""
    plain = _without_moves(node)
    name = plain.id if isinstance(plain, ast.Name) else None
    return name is not None and re.search(rf"\b{name}(?:{RESTORES})|atleast_1d\({name}\b", text) is not None


def _names(node: ast.AST) -> set[str]:
    return {each.id for each in walk(node) if isinstance(each, ast.Name)}
