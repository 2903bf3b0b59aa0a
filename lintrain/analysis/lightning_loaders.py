"""Lightning: methods for held-out rows whose loader reads the attribute that `train_dataloader` reads."""

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
