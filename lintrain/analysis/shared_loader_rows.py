"""Loaders for held-out rows that get the same expression as the training loader next to them, which names its rows."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.split_names import OtherSplit, split_of
from lintrain.source.by_name import scopes_naming
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source

CHOOSES = frozenset({"sampler", "batch_sampler"})


def shared_loader_rows(source: Source) -> Iterator[OtherSplit]:
    """`val_loader = DataLoader(train_rows)` in one block with `train_loader = DataLoader(train_rows)`."""
    if "DataLoader(" not in source.text:
        return
    for scope in scopes_naming(source, "DataLoader"):
        trained: dict[str, set[str]] = {}
        for statement in scope.body:
            name, rows = _loader(statement) or ("", None)
            code = unparse(rows) if rows is not None else ""
            if rows is not None and split_of(name) in {"validation", "test"} and code in trained:
                yield OtherSplit(source.location(rows), name, code)
            bound = _bound_by(statement) if trained else set[str]()
            trained = {each: names for each, names in trained.items() if not names & bound}
            if rows is not None and split_of(name) == "train" and _are_of_training(rows):
                trained[code] = {last_name(each) for each in walk(rows) if isinstance(each, ast.Name | ast.Attribute)}


def _bound_by(statement: ast.stmt) -> set[str]:
    """The names and attributes that a statement gives a value, wherever in it."""
    nodes = (node for node in walk(statement) if isinstance(node, ast.Name | ast.Attribute))
    return {last_name(node) for node in nodes if isinstance(node.ctx, ast.Store)}


def _loader(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The name of a loader and its rows, if it reads all of them."""
    match statement:
        case ast.Assign(
            targets=[ast.Name() | ast.Attribute() as target], value=ast.Call(func=made, args=[rows, *_]) as call
        ):
            is_loader = last_name(made) == "DataLoader" and not any(
                each.arg is None or each.arg in CHOOSES for each in call.keywords
            )
            return (last_name(target), rows) if is_loader else None
        case _:
            return None


def _are_of_training(rows: ast.expr) -> bool:
    """Whether code names training rows and no others: `train_rows`, `Rows(folder, "train")`."""
    names = [each.value for each in walk(rows) if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    names += [last_name(each) for each in walk(rows) if isinstance(each, ast.Name | ast.Attribute)]
    return {split for name in names if (split := split_of(name)) is not None} == {"train"}
