"""Lightning: loaders of held-out rows that read the training rows, and the reverse."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis.split_names import split_of
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

HELD_OUT = ("val_dataloader", "test_dataloader")
OTHER_ROWS = frozenset({"sampler", "batch_sampler", None})
"""Arguments of a loader, `**` among them, that may choose some of the rows."""


@dataclass(frozen=True, slots=True)
class RepeatedRows:
    """The rows of a loader of held-out rows, and where the loader of the training gets the same."""

    location: Location
    code: str
    training: Location


def repeated_rows(source: Source) -> Iterator[RepeatedRows]:
    """The loaders of held-out rows that read the training rows, by the name of the attribute."""
    for each in source.nodes_of(ast.ClassDef) if source.contains("def train_dataloader") else ():
        methods = {method.name: method for method in each.body if isinstance(method, ast.FunctionDef)}
        trained = _rows(methods.get("train_dataloader"))
        if trained is None or split_of(trained.attr) != "train":
            continue
        for name in HELD_OUT:
            rows = _rows(methods.get(name))
            if rows is not None and unparse(rows) == unparse(trained):
                yield RepeatedRows(source.location(rows), unparse(rows), source.location(trained))


def _rows(method: ast.FunctionDef | None) -> ast.Attribute | None:
    """The attribute that the only loader of a method reads all rows of; None if that is not certain."""
    nodes = list(walk(method)) if method is not None else []
    calls = [each for each in nodes if isinstance(each, ast.Call) and unparse(each.func).endswith("DataLoader")]
    if len(calls) != 1 or not OTHER_ROWS.isdisjoint(keyword.arg for keyword in calls[0].keywords):
        return None
    given = {keyword.arg: keyword.value for keyword in calls[0].keywords}
    rows = calls[0].args[0] if calls[0].args else given.get("dataset")
    is_own = isinstance(rows, ast.Attribute) and isinstance(rows.value, ast.Name) and rows.value.id == "self"
    return rows if is_own and isinstance(rows, ast.Attribute) else None


@dataclass(frozen=True, slots=True)
class SwappedLoaders:
    """Held-out rows that `fit` gets to train with, their code, and the training rows that it gets to validate with."""

    location: Location
    code: str
    validation: Location


FITTED = {"train_dataloaders": 1, "train_dataloader": 1, "val_dataloaders": 2}
"""The parameters of `fit` for loaders, each with its position; the second name is that of Lightning 1."""


def swapped_loaders(source: Source) -> Iterator[SwappedLoaders]:
    """The calls of `fit` of a trainer that get both loaders, each in the place of the other."""
    for call in source.nodes_of(ast.Call) if source.contains(r"lightning") else ():
        if not isinstance(call.func, ast.Attribute) or call.func.attr != "fit":
            continue
        given = {FITTED[each.arg]: each.value for each in call.keywords if each.arg in FITTED}
        given |= {position: call.args[position] for position in (1, 2) if position < len(call.args)}
        train, held_out = given.get(1), given.get(2)
        if train is None or held_out is None or "trainer" not in unparse(call.func.value).lower():
            continue
        if split_of(_name(train)) in {"validation", "test"} and split_of(_name(held_out)) == "train":
            yield SwappedLoaders(source.location(train), unparse(train), source.location(held_out))


def _name(loader: ast.expr) -> str:
    """The name of a loader, or of the method that makes it."""
    match loader:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Attribute(attr=name) | ast.Name(id=name):
            return name
        case _:
            return ""
