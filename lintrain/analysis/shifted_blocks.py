"""Rows that a function of the script returns with labels which are its token ids, moved by one token.

By the text, so that blocks of a text count whose tokens the reader does not follow: `[block[1:] + [end] for block in
blocks]` next to `blocks`, or `text[i + 1 : i + size + 1]` next to `text[i : i + size]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline.shifts import is_moved_by_one
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

MOVES = lazy_pattern(r"\[[^\]\n]*\b1\s*:")
"""Code that leaves out a first token."""

MOST_NAMES = 4


def shifted_rows(source: Source) -> Iterator[Location]:
    """Where functions make labels that are the token ids of the same row, moved by one."""
    if "labels" in source.text and source.contains(MOVES):
        for function in source.nodes_of(ast.FunctionDef):
            yield from map(source.location, source.once(_labels_moved, function))


def _labels_moved(function: ast.FunctionDef) -> list[ast.expr]:
    assigned = _assigned(function)
    found: list[ast.expr] = []
    for ids, given in _rows_in(function):
        labels = _resolved(given, assigned)
        moved = _Tokens.of(labels)
        if _is_next(_Tokens.of(_resolved(ids, assigned, moved.over)), moved):
            found.append(labels)
    return found


def _rows_in(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The values of `input_ids` and `labels` in a dictionary, or those put into one batch."""
    stored: dict[str, dict[str, list[ast.expr]]] = {}
    for node in own_nodes(function):
        match node:
            case ast.Dict(keys=keys, values=values):
                named = {
                    key.value: each for key, each in zip(keys, values, strict=True) if isinstance(key, ast.Constant)
                }
                if "input_ids" in named and "labels" in named:
                    yield named["input_ids"], named["labels"]
            case ast.Assign(targets=[ast.Subscript(value=owner, slice=ast.Constant(value=str(key)))], value=value):
                stored.setdefault(unparse(owner), {}).setdefault(key, []).append(value)
            case _:
                pass
    for columns in stored.values():
        ids, labels = columns.get("input_ids", []), columns.get("labels", [])
        if len(ids) == len(labels) == 1:
            yield ids[0], labels[0]


def _assigned(function: ast.FunctionDef) -> dict[str, list[ast.expr | None]]:
    """The values of a function's names; None for one that is not given by a plain assignment."""
    found: dict[str, list[ast.expr | None]] = {}
    for node in own_nodes(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.AugAssign(target=ast.Name(id=name)):
                found.setdefault(name, []).append(None)
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append" | "extend" | "insert" | "pop")):
                found.setdefault(name, []).append(None)
            case _:
                pass
    return found


def _resolved(node: ast.expr, assigned: dict[str, list[ast.expr | None]], until: str = "") -> ast.expr:
    """What a name was given, if it was given a part or a list of parts, once; a name stays that is `until`."""
    for _ in range(MOST_NAMES):
        values = assigned.get(node.id, []) if isinstance(node, ast.Name) and node.id != until else []
        given = values[0] if len(values) == 1 else None
        if not isinstance(given, ast.ListComp | ast.Subscript | ast.BinOp | ast.Name):
            return node
        node = given
    return node


@dataclass(frozen=True, slots=True)
class _Tokens:
    """The tokens of a row: what they are taken from, the code in its brackets, and whether one is put at the end.

    `over` is what a list of rows iterates over; `whole` the code of the rows themselves.
    """

    taken_from: str
    stretch: str = ""
    is_filled: bool = False
    over: str = ""

    @classmethod
    def of(cls, node: ast.expr) -> _Tokens:
        """What an expression takes, of one row or of each row in a list."""
        match node:
            case ast.ListComp(elt=item, generators=[ast.comprehension(target=target, iter=rows, ifs=[])]):
                part = cls.of(item)
                name = unparse(target)
                return cls(
                    "." if part.taken_from == name else part.taken_from, part.stretch, part.is_filled, unparse(rows)
                )
            case ast.BinOp(left=left, op=ast.Add(), right=ast.List(elts=[_])):
                part = cls.of(left)
                return cls(part.taken_from, part.stretch, True, part.over)
            case ast.Subscript(value=whole, slice=ast.Slice() as part):
                return cls(unparse(whole), unparse(part))
            case _:
                return cls(unparse(node))


def _is_next(ids: _Tokens, labels: _Tokens) -> bool:
    if ids.is_filled:
        return False
    if labels.is_filled:
        is_whole = ids.taken_from == labels.over and not ids.over if labels.over and labels.taken_from == "." else None
        same = is_whole if is_whole is not None else (ids.taken_from, ids.over) == (labels.taken_from, labels.over)
        return same and not ids.stretch and labels.stretch == "1:"
    same_rows = (ids.taken_from, ids.over) == (labels.taken_from, labels.over)
    return same_rows and is_moved_by_one(ids.stretch, labels.stretch)
