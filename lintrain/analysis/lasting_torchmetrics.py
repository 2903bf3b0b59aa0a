"""Metrics of torchmetrics that count the batches of all epochs, because no code resets them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from lintrain.analysis.built_layers import last_name
from lintrain.analysis.lasting_sums import LastingSum, metric_calls
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source

KEEPS_ON_PURPOSE = frozenset({"MaxMetric", "MinMetric", "Running", "RunningMean", "RunningSum", "MetricTracker"})
"""Wrappers of torchmetrics that are meant to last for several epochs."""

EPOCH_ENDS = frozenset({"training_epoch_end", "on_train_epoch_end", "validation_epoch_end", "on_validation_epoch_end"})
"""The methods of a Lightning module that run after each epoch."""


def lasting_torchmetrics(source: Source) -> Iterator[LastingSum]:
    """The metrics of torchmetrics that are computed after each epoch, and that no code resets."""
    if not source.contains(r"\btorchmetrics\b") or not source.contains(r"\.compute\("):
        return
    classes = {
        alias.asname or alias.name
        for node in source.nodes_of(ast.ImportFrom)
        if (node.module or "").startswith("torchmetrics") and "functional" not in (node.module or "")
        for alias in node.names
    }
    found = list(_lasting(source, classes))
    made = _metrics_made(source.nodes_of(ast.Assign), classes) if found else {}
    calls = [each.func for each in source.nodes_of(ast.Call)] if found else []
    reset = {unparse(each.value) for each in calls if isinstance(each, ast.Attribute) and each.attr == "reset"}
    # What is reset under another name may be any of the metrics: `for metric in metrics: metric.reset()`.
    if reset <= made.keys():
        yield from (each for each in found if each.total not in reset)


def _lasting(source: Source, classes: set[str]) -> Iterator[LastingSum]:
    """The metrics that are made before all epochs, get each batch, and are computed after each epoch."""
    for epochs in source.nodes_of(ast.For):
        inner = [each for each in own_nodes(epochs) if isinstance(each, ast.For)]
        of_batches = {id(node) for loop in inner for node in own_nodes(loop)}
        made = _metrics_made(source.nodes_of(ast.Assign), classes) if inner else {}
        added = {**dict(metric_calls(inner, "update")), **dict(metric_calls(inner, ""))}
        for name, read in metric_calls([epochs], "compute"):
            if name in made.keys() & added.keys() and made[name].lineno < epochs.lineno and id(read) not in of_batches:
                at = source.location
                yield LastingSum(at(read), at(made[name]), at(added[name]), name)
    for module in source.nodes_of(ast.ClassDef):
        yield from _lasting_in_module(source, module, classes)
        yield from _lasting_in_trainer(source, module, classes)


def _lasting_in_trainer(source: Source, trainer: ast.ClassDef, classes: set[str]) -> Iterator[LastingSum]:
    """Those of a class with methods for one pass over a loader, which a loop calls for each epoch."""
    methods = [node for node in trainer.body if isinstance(node, ast.FunctionDef)]
    if any("LightningModule" in unparse(base) for base in trainer.bases):
        return
    made = _metrics_made((node for method in methods for node in walk(method) if isinstance(node, ast.Assign)), classes)
    repeated = _repeated(source, methods) if made else set[str]()
    for method in methods:
        own = own_nodes(method) if method.name in repeated else ()
        loops = [each for each in own if isinstance(each, ast.For)]
        added = {**dict(metric_calls(loops, "update")), **dict(metric_calls(loops, ""))}
        of_batches = {id(node) for loop in loops for node in walk(loop)}
        for name, read in metric_calls([method], "compute") if loops else ():
            is_made_here = name in made and any(each is made[name] for each in own)
            if name in made.keys() & added.keys() and not is_made_here and id(read) not in of_batches:
                at = source.location
                yield LastingSum(at(read), at(made[name]), at(added[name]), name)


def _repeated(source: Source, methods: Iterable[ast.FunctionDef]) -> set[str]:
    """The methods that a loop calls, or a method that a loop calls."""
    found = {name for loop in source.nodes_of(ast.For, ast.While) for name in _called_in(loop)}
    return found | {called for method in methods if method.name in found for called in _called_in(method)}


def _called_in(scope: ast.AST) -> Iterator[str]:
    yield from (last_name(each.func) for each in own_nodes(scope) if isinstance(each, ast.Call))


def _lasting_in_module(source: Source, module: ast.ClassDef, classes: set[str]) -> Iterator[LastingSum]:
    """Those of a Lightning module, which resets only metrics that are logged as objects."""
    methods = [node for node in module.body if isinstance(node, ast.FunctionDef)]
    if not any("LightningModule" in unparse(base) for base in module.bases):
        return
    made = _metrics_made((node for method in methods for node in walk(method) if isinstance(node, ast.Assign)), classes)
    steps = [method for method in methods if method.name not in EPOCH_ENDS]
    added = {**dict(metric_calls(steps, "update")), **dict(metric_calls(steps, ""))}
    logged = {unparse(each) for node in walk(module) if isinstance(node, ast.Call) for each in _logged(node)}
    for name, read in metric_calls([each for each in methods if each.name in EPOCH_ENDS], "compute"):
        if name in made.keys() & added.keys() and name not in logged:
            at = source.location
            yield LastingSum(at(read), at(made[name]), at(added[name]), name)


def _logged(call: ast.Call) -> Iterator[ast.expr]:
    """The values that `self.log` or `self.log_dict` gets."""
    if isinstance(call.func, ast.Attribute) and call.func.attr in {"log", "log_dict"}:
        for given in (*call.args, *(each.value for each in call.keywords)):
            yield from given.values if isinstance(given, ast.Dict) else (given,)


def _metrics_made(assigned: Iterable[ast.Assign], classes: set[str]) -> dict[str, ast.Assign]:
    """The assignments of metrics of torchmetrics, moved to a device or not, by the code of their targets."""
    found: dict[str, ast.Assign] = {}
    for node in assigned:
        made = node.value
        if isinstance(made, ast.Call) and isinstance(made.func, ast.Attribute) and made.func.attr in {"to", "cuda"}:
            made = made.func.value
        code = unparse(made.func) if isinstance(made, ast.Call) else ""
        name = code.rpartition(".")[2]
        is_metric = code in classes or code.startswith("torchmetrics.")
        if is_metric and name[:1].isupper() and name not in KEEPS_ON_PURPOSE:
            found.setdefault(unparse(node.targets[0]), node)
    return found
