"""Metrics of single batches that are averaged, though the metric of all rows is another number."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import handed_on
from lintrain.analysis.script_text import imports_of
from lintrain.model.location import Location
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

OF_ALL_ROWS = (
    r"(?:binary_|multiclass_|multilabel_)?(?:f1_score|fbeta_score|precision|recall|precision_score|recall_score|auroc"
    r"|roc_auc_score|average_precision|average_precision_score|matthews_corrcoef|cohen_kappa|cohen_kappa_score"
    r"|balanced_accuracy_score|r2_score|pearson_corrcoef|spearman_corrcoef|specificity)"
)
"""Functions whose value for all rows is not the mean of those of their parts."""

PACKAGES = ("torchmetrics", "sklearn.metrics")
OF_MICRO = frozenset({"f1_score", "fbeta_score", "precision", "recall", "specificity"})
"""Functions of torchmetrics that average over all predictions by default: of one class each, that is the accuracy."""

STEPS = frozenset({"validation_step", "test_step", "training_step"})
LOADERS = re.compile(r"loader|batches", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class BatchMetric:
    """A metric that is computed for each batch: where, its name, and where the values are averaged."""

    location: Location
    name: str
    averaged: Location


def averaged(source: Source) -> Iterator[BatchMetric]:
    """The metrics of batches that Lightning averages, or a loop over a loader."""
    names = source.cached(_names)
    if names:
        yield from _logged(source, names)
        yield from _summed(source, names)


def _names(source: Source) -> dict[str, str]:
    """What is imported from the packages of metrics, by the names in the file."""
    found: dict[str, str] = {}
    for each in imports_of(source):
        path = each.module if each.name is None else f"{each.module}.{each.name}"
        if path.startswith(PACKAGES):
            name = each.alias or each.name or each.module.partition(".")[0]
            found[name] = path if each.alias or each.name else name
    return found


def _metric(node: ast.expr | None, names: dict[str, str]) -> str:
    """The name of the metric that a call computes of arrays; empty for other code."""
    if not isinstance(node, ast.Call):
        return ""
    head, _, rest = unparse(node.func).partition(".")
    path = names.get(head, "") + (f".{rest}" if rest else "")
    name = path.rpartition(".")[2]
    is_function = path.startswith("sklearn.metrics.") or (path.startswith("torchmetrics.") and "functional" in path)
    if not is_function or re.fullmatch(OF_ALL_ROWS, name) is None or len(node.args) < 2:
        return ""
    named = {each.arg: unparse(each.value).strip("'") for each in node.keywords}
    is_micro = named.get("average", "micro" if name in OF_MICRO else "") == "micro"
    is_open = name in OF_MICRO and named.get("task") not in {"binary", "multilabel"}
    return "" if None in named or (is_micro and (is_open or path.startswith("sklearn"))) else name


def _logged(source: Source, names: dict[str, str]) -> Iterator[BatchMetric]:
    """The values that steps of Lightning log for an epoch, which is their mean."""
    for method in source.nodes_of(ast.FunctionDef):
        if method.name not in STEPS:
            continue
        for call in walk(method):
            for value in _values_for_epochs(call, is_training=method.name == "training_step"):
                made = handed_on.given_to(source, value) if isinstance(value, ast.Name | ast.Attribute) else value
                name = _metric(made, names)
                if name and made is not None:
                    yield BatchMetric(source.location(made), name, source.location(value))


def _values_for_epochs(node: ast.AST, *, is_training: bool) -> list[ast.expr]:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="log" | "log_dict" as way), args=given):
            named = {each.arg: each.value for each in node.keywords}
            on_epoch = unparse(named["on_epoch"]) if "on_epoch" in named else str(not is_training)
            if on_epoch != "True":
                return []
            if way == "log":
                return [*given[1:2], *([named["value"]] if "value" in named else [])]
            return given[0].values if given and isinstance(given[0], ast.Dict) else []
        case _:
            return []


def _summed(source: Source, names: dict[str, str]) -> Iterator[BatchMetric]:
    """The values that a loop over the batches of a loader adds up, where the sum is divided by their number."""
    for loop in source.nodes_of(ast.For):
        rows = loop.iter.args[0] if isinstance(loop.iter, ast.Call) and loop.iter.args else loop.iter
        if not LOADERS.search(unparse(rows)):
            continue
        for node in walk(loop):
            match node:
                case ast.AugAssign(target=ast.Name(id=total), op=ast.Add(), value=value):
                    made = handed_on.given_to(source, value) if isinstance(value, ast.Name) else value
                    name = _metric(made, names)
                    mean = _mean_of(source, total, unparse(rows)) if name else None
                    if name and mean is not None and made is not None:
                        yield BatchMetric(source.location(made), name, mean)
                case _:
                    pass


def _mean_of(source: Source, total: str, rows: str) -> Location | None:
    """Where a sum is divided by the number of batches."""
    for node in source.nodes_of(ast.BinOp):
        if isinstance(node.op, ast.Div) and unparse(node) == f"{total} / len({rows})":
            return source.location(node)
    return None
