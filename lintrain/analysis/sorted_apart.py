"""Inputs of a batch that are sorted without their labels, although both came from the same rows.

texts, labels = zip(*batch)
texts = sorted(texts, key=len)
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.hits import names_in
from lintrain.model.location import Location
from lintrain.source.nodes import own_nodes, unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SortedApart:
    """A list that is sorted without another one of the same rows: where, both names, and where both are returned."""

    location: Location
    name: str
    other: str
    returned: Location


def sorted_apart(source: Source) -> Iterator[SortedApart]:
    """The parts of the rows of a batch that a function sorts alone, and returns with the others."""
    if not source.contains(r"\bsorted\(|\.sort\("):
        return
    for function in source.nodes_of(ast.FunctionDef):
        parts = _parts_of_rows(function.body)
        if len(parts) > 1:
            yield from _apart_in(source, function, parts)


def _parts_of_rows(body: Sequence[ast.stmt]) -> dict[str, tuple[str, int]]:
    """The names that hold one part of each row, with the code of the rows and the line: `zip(*batch)`."""
    found = dict[str, tuple[str, int]]()
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Call() as call):
                rows = _unzipped(call)
                found |= {each.id: (rows, statement.lineno) for each in names if rows and isinstance(each, ast.Name)}
            case ast.Assign(
                targets=[ast.Name(id=name)],
                value=ast.ListComp(
                    elt=ast.Subscript(value=ast.Name(id=item)),
                    generators=[ast.comprehension(target=ast.Name(id=same), iter=rows, ifs=[])],
                ),
            ) if item == same:
                found[name] = (unparse(rows), statement.lineno)
            case _:
                pass
    return found


def _unzipped(call: ast.Call) -> str:
    """The code of `batch` in `zip(*batch)`, or in `map(list, zip(*batch))`; empty for other calls."""
    match call:
        case ast.Call(func=ast.Name(id="zip"), args=[ast.Starred(value=rows)]):
            return unparse(rows)
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name(), ast.Call() as inner]):
            return _unzipped(inner)
        case _:
            return ""


def _apart_in(source: Source, function: ast.FunctionDef, parts: dict[str, tuple[str, int]]) -> Iterator[SortedApart]:
    for index, statement in enumerate(function.body):
        name = _sorted_alone(statement)
        if name not in parts or statement.lineno < parts[name][1]:
            continue
        later = function.body[index + 1 :]
        returned = next((each for each in later if isinstance(each, ast.Return) and each.value is not None), None)
        # A list that is put into another order as well, or is used to find one, may be right.
        changed = {each.id for node in (*function.body[:index], *later) for each in _stored_later(node, parts)}
        if returned is None or returned.value is None or name in changed:
            continue
        together = names_in(returned.value)
        same = (each for each, (rows, _) in parts.items() if each != name and rows == parts[name][0])
        other = next((each for each in same if {name, each} <= together and each not in changed), "")
        if other:
            yield SortedApart(source.location(statement), name, other, source.location(returned))


def _sorted_alone(statement: ast.stmt) -> str:
    """The name of a list that a statement sorts by its own items: `texts.sort(key=len)`."""
    match statement:
        case ast.Assign(
            targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="sorted"), args=[ast.Name(id=same)])
        ):
            return name if name == same else ""
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="sort"), args=[])):
            return name
        case _:
            return ""


def _stored_later(node: ast.stmt, parts: dict[str, tuple[str, int]]) -> Iterator[ast.Name]:
    """The names that a statement gives another order, as far as it is not known that their order stays."""
    for each in (node, *own_nodes(node)):
        match each:
            case ast.Name(id=name, ctx=ast.Store()) if name in parts and node.lineno != parts[name][1]:
                if not _keeps_order(node, name):
                    yield each
            case ast.Call(func=ast.Attribute(value=ast.Name() as owner, attr="sort" | "reverse")):
                yield owner
            case _:
                pass


CONVERTS = frozenset(
    {"tensor", "stack", "pad_sequence", "array", "asarray", "list", "LongTensor", "FloatTensor", "cat"}
)


def _keeps_order(node: ast.stmt, name: str) -> bool:
    """Whether a statement only converts a list: `labels = torch.tensor(labels)`."""
    match node:
        case ast.Assign(targets=[ast.Name()], value=ast.Call(func=func, args=[ast.Name(id=given), *_])):
            return given == name and last_name(func) in CONVERTS
        case _:
            return False
