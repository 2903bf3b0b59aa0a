"""Networks that are used with the weights of the last epoch, though a callback of their training knew better ones."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from lintrain.analysis import handed_on
from lintrain.model.location import Location
from lintrain.source.nodes import unparse
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

USES = frozenset({"evaluate", "predict", "evaluate_generator", "predict_generator", "save", "save_weights", "export"})
"""Methods of Keras that use or keep the weights of a network."""

KEEPS = r"ModelCheckpoint|BestWeights|get_weights"
"""Code that may keep the best weights by itself."""

LOADS = frozenset({"load_weights", "load_model", "set_weights", "restore"})

FEWEST_EPOCHS = 2
"""Epochs without an improvement after which weights certainly are older than the best ones."""


@dataclass(frozen=True, slots=True)
class LastWeights:
    """A callback that does not bring back the best weights, and where the last ones are used."""

    callback: Location
    used: Location
    network: str
    way: str


def stopped_late(source: Source) -> Iterator[LastWeights]:
    """The callbacks of Keras that stop a training after its best epoch, whose last weights are used afterwards."""
    if not source.contains(r"EarlyStopping\(") or source.contains(KEEPS):
        return
    for fit in _methods(source, frozenset({"fit", "fit_generator"})):
        given = next((each.value for each in fit.keywords if each.arg == "callbacks"), None)
        for callback in _calls_in(source, given):
            if _called(callback) == "EarlyStopping" and _keeps_last(source, callback):
                used = _used_after(source, fit)
                if used is not None:
                    yield LastWeights(source.location(callback), source.location(used), _owner(fit), _called(used))


def tested_late(source: Source) -> Iterator[LastWeights]:
    """The Trainers of Lightning that keep the best checkpoint and test the network that they have trained."""
    if not source.contains(r"\.test\(") or source.contains(r"load_from_checkpoint|best_model_path|load_state_dict"):
        return
    for test in _methods(source, frozenset({"test"})):
        named = {each.arg: each.value for each in test.keywords}
        network = test.args[0] if test.args else named.get("model")
        if network is None or named.keys() & {"ckpt_path", None} or len(test.args) > 2:
            continue
        code, trainer = unparse(network), _owner(test)
        fits = (each for each in _methods(source, frozenset({"fit"})) if _owner(each) == trainer)
        is_fitted = any(_network_of(each) == code and each.lineno < test.lineno for each in fits)
        made = handed_on.given_to(source, _receiver(test)) if is_fitted else None
        for callback in _calls_in(source, _callbacks_of(made)):
            if _called(callback) == "ModelCheckpoint" and _keeps_best(callback):
                yield LastWeights(source.location(callback), source.location(test), code, "test")


def _callbacks_of(made: ast.expr | None) -> ast.expr | None:
    """The callbacks of a Trainer."""
    match made:
        case ast.Call(func=func, keywords=given) if handed_on.plain_name(func) == "Trainer":
            return next((each.value for each in given if each.arg == "callbacks"), None)
        case _:
            return None


def _network_of(fit: ast.Call) -> str:
    given = fit.args[0] if fit.args else next((each.value for each in fit.keywords if each.arg == "model"), None)
    return unparse(given) if given is not None else ""


def _keeps_best(callback: ast.Call) -> bool:
    named = {each.arg: unparse(each.value) for each in callback.keywords}
    return (
        None not in named and named.get("monitor", "None") != "None" and named.get("save_top_k", "1") not in {"0", "-1"}
    )


def _keeps_last(source: Source, callback: ast.Call) -> bool:
    """Whether a callback certainly leaves the weights of the last epoch, some epochs after the best one."""
    named = {each.arg: each.value for each in callback.keywords}
    if None in named or len(callback.args) > 1:
        return False
    restores, patience = named.get("restore_best_weights"), named.get("patience")
    monitor = callback.args[0] if callback.args else named.get("monitor")
    if isinstance(patience, ast.Name):
        patience = handed_on.given_to(source, patience) or patience
    is_long = patience is not None and not (isinstance(patience, ast.Constant) and patience.value in {0, 1})
    is_validated = monitor is None or (isinstance(monitor, ast.Constant) and str(monitor.value).startswith("val"))
    return is_long and is_validated and (restores is None or unparse(restores) == "False")


def _used_after(source: Source, fit: ast.Call) -> ast.Call | None:
    """A use of the network after its training: later in the same code, or in another method of the same class."""
    network, scope = _owner(fit), _scope(source, fit)
    for call in _methods(source, USES):
        if _owner(call) != network:
            continue
        other = _scope(source, call)
        loaded = [each.lineno for each in source.nodes_of(ast.Call) if _called(each) in LOADS]
        if other is scope and call.lineno > fit.lineno:
            return call if not any(fit.lineno < line <= call.lineno for line in loaded) else None
        if other is not scope and network.startswith("self.") and isinstance(other, ast.FunctionDef) and not loaded:
            return call
    return None


def _scope(source: Source, node: ast.expr) -> ast.AST:
    around = [each for each in source.nodes_of(ast.FunctionDef) if each.lineno <= node.lineno <= (each.end_lineno or 0)]
    return max(around, key=lambda each: each.lineno, default=source.tree)


def _calls_in(source: Source, node: ast.expr | None) -> Iterator[ast.Call]:
    """The calls that make the callbacks of a list, through names and sums of lists."""
    if isinstance(node, ast.Name | ast.Attribute):
        node = handed_on.given_to(source, node)
    match node:
        case ast.Call():
            yield node
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for each in parts:
                yield from _calls_in(source, each)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            yield from _calls_in(source, left)
            yield from _calls_in(source, right)
        case _:
            pass


def _methods(source: Source, names: frozenset[str]) -> Iterator[ast.Call]:
    return (
        each for each in source.nodes_of(ast.Call) if isinstance(each.func, ast.Attribute) and each.func.attr in names
    )


def _called(call: ast.Call) -> str:
    return handed_on.plain_name(call.func)


def _receiver(call: ast.Call) -> ast.Name | ast.Attribute:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return owner if isinstance(owner, ast.Name | ast.Attribute) else ast.Name("")


def _owner(call: ast.Call) -> str:
    """The code of what a method is called on."""
    return unparse(call.func.value) if isinstance(call.func, ast.Attribute) else ""
