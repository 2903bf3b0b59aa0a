"""Metrics that are computed after a loop over batches, or logged by Lightning, from what the last batch left."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis import hits
from lintrain.analysis.loader_loops import loops_over_loaders
from lintrain.analysis.script_text import mentions
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class LastBatch:
    """A metric that is computed after a loop from what the last batch left.

    Where, its name or code, the names that it compares, the loop, and whether it is written as a comparison.
    """

    location: Location
    metric: str
    names: tuple[str, ...]
    loop: Location
    is_comparison: bool = False


METRICS = frozenset(
    {
        *("accuracy_score", "balanced_accuracy_score", "f1_score", "precision_score", "recall_score", "roc_auc_score"),
        *("classification_report", "confusion_matrix", "mean_squared_error", "mean_absolute_error", "r2_score"),
    }
)
"""Functions of scikit-learn that compare targets with predictions."""


def metrics_of_last_batch(pipeline: Pipeline) -> Iterator[LastBatch]:
    """The metrics after a loop over batches whose targets and predictions are those of its last iteration."""
    source = pipeline.source
    if not source.cached(loops_over_loaders) or mentions(pipeline, hits.WHOLE):
        return
    for call, (name, names, is_comparison) in source.gathered(_metrics_in):
        here = source.location(call)
        scope = blocks.scope_of(pipeline, here)
        for loop, _ in source.cached(loops_over_loaders):
            at = source.location(loop)
            is_before = blocks.scope_of(pipeline, at) is scope and (loop.end_lineno or 0) < here.line
            if is_comparison and any(map(hits.trains, walk(loop))):
                # What a log says about training may be about its last batch.
                continue
            if is_before and not hits.leaves(loop) and _bound_by_each_batch(source, scope, loop, names):
                yield LastBatch(here, name, tuple(names), at, is_comparison)
                break


def _metrics_in(statement: ast.stmt) -> list[tuple[ast.Call, tuple[str, list[str], bool]]]:
    calls = (each for each in walk(statement) if isinstance(each, ast.Call))
    return [(call, metric) for call in calls if (metric := _metric(call)) is not None]


def _metric(call: ast.Call) -> tuple[str, list[str], bool] | None:
    """The name of a metric, the names that it compares, and whether it is written as a comparison."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    names = [each.id for each in call.args[:2] if isinstance(each, ast.Name)]
    if name in METRICS and len(names) == 2:
        return name, names, False
    if name not in {"sum", "mean"}:
        return None
    reduced = call.args[0] if call.args else getattr(call.func, "value", None)
    match hits.same_number(reduced) if reduced is not None else None:
        case ast.Compare(ops=[ast.Eq()], left=left, comparators=[right]) as compared:
            pass
        case ast.Call(func=ast.Attribute(value=left, attr="eq"), args=[right]) as compared:
            pass
        case _:
            return None
    match hits.same_number(left), hits.same_number(right):
        case ast.Name(id=one), ast.Name(id=other):
            return unparse(compared), [one, other], True
        case _:
            return None


def _bound_by_each_batch(source: Source, scope: ast.AST, loop: ast.For, names: Sequence[str]) -> bool:
    """Whether only a loop binds names, in each iteration to something else."""
    inside = {id(node) for node in walk(loop)}
    for name in names:
        stored = [
            node
            for node in walk(scope)
            if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
        ]
        if not stored or any(id(node) not in inside for node in stored):
            return False
        values = [node.value for node in walk(loop) if isinstance(node, ast.Assign) and hits.binds(node, name)]
        is_sum = any(isinstance(node, ast.AugAssign) and unparse(node.target) == name for node in walk(loop))
        if is_sum or any(_keeps(value, name) for value in values):
            return False
    return True


def _keeps(value: ast.expr, name: str) -> bool:
    """Whether a value may hold more than one batch; `y = y.cpu()` takes the same one to another place."""
    is_more = name in hits.names_in(value) and not _is_same(value, name)
    return is_more or isinstance(value, ast.List | ast.Dict | ast.ListComp)


def _is_same(value: ast.expr, name: str) -> bool:
    """Whether a value is what a name held, in another place or of another type."""
    while True:
        match value:
            case ast.Call(func=ast.Attribute(value=owner)):
                value = owner
            case ast.Attribute(value=owner) | ast.Subscript(value=owner):
                value = owner
            case ast.Name(id=found):
                return found == name
            case _:
                return False


@dataclass(frozen=True, slots=True)
class LoggedAttribute:
    """A number of one batch that a module of Lightning logs for the epoch: where, its code, and where it is set."""

    location: Location
    code: str
    set_at: Location


STEPS = {
    "training_step": ("on_train_epoch_end", "training_epoch_end"),
    "validation_step": ("on_validation_epoch_end", "validation_epoch_end"),
    "test_step": ("on_test_epoch_end", "test_epoch_end"),
}
"""The methods of Lightning for a batch, each with those that run after all batches."""

NUMBERS = frozenset(
    {"loss", "acc", "accuracy", "f1", "iou", "dice", "error", "mae", "mse", "auc", "precision", "recall"}
)
"""Words in the names of attributes that hold a loss or a score."""

LOGS = lazy_pattern(r"^self\.(?:log|log_dict|logger\.(?:log_metrics|experiment\.(?:log|add_scalar)))$")
OF_MANY = lazy_pattern(r"compute\(|running|total|sum|avg|average|ema|best|all_|gather|epoch")
"""Code of numbers that may be about more than one batch."""


def logged_of_last_batch(source: Source) -> Iterator[LoggedAttribute]:
    """The numbers of the last batch that modules of Lightning log after all batches."""
    for cls in source.nodes_of(ast.ClassDef) if source.contains(r"def on_\w+_epoch_end|_epoch_end\(") else ():
        methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
        for name, ends in STEPS.items():
            kept = _kept_of_batch(cls, methods[name]) if name in methods else {}
            for call in (node for end in ends if end in methods for node in walk(methods[end])):
                if not kept or not isinstance(call, ast.Call) or not LOGS.match(unparse(call.func)):
                    continue
                found = [node for node in walk(call) if isinstance(node, ast.Attribute) and unparse(node) in kept]
                for node in found[:1]:
                    code = unparse(node)
                    yield LoggedAttribute(source.location(node), code, source.location(kept[code]))


def _kept_of_batch(cls: ast.ClassDef, step: ast.FunctionDef) -> dict[str, ast.Assign]:
    """The statements of a step by which attributes of `self` hold a number of one batch, and nothing else sets them."""
    found: dict[str, ast.Assign] = {}
    for node in walk(step):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=attr) as target], value=value) if (
                not isinstance(value, ast.List | ast.Dict | ast.ListComp)
            ):
                words = frozenset(attr.lower().split("_"))
                if words & NUMBERS and not OF_MANY.search(attr) and not OF_MANY.search(unparse(value)):
                    found[unparse(target)] = node
            case _:
                pass
    setters = [node for each in cls.body if getattr(each, "name", "") != "__init__" for node in walk(each)]
    stored = [unparse(node) for node in setters if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return {code: node for code, node in found.items() if stored.count(code) == 1 and code not in unparse(node.value)}


@dataclass(frozen=True, slots=True)
class SharedMetric:
    """A metric that a module of Lightning logs in training and in an evaluation: where, its code, the other place."""

    location: Location
    code: str
    trained: Location


def shared_metrics(source: Source) -> Iterator[SharedMetric]:
    """The metrics of torchmetrics that `training_step` and `validation_step` of one module log as objects."""
    for cls in source.nodes_of(ast.ClassDef) if source.contains("torchmetrics") else ():
        methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
        if "training_step" not in methods or "validation_step" not in methods or "__init__" not in methods:
            continue
        made = {
            unparse(node.targets[0])
            for node in walk(methods["__init__"])
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        }
        trained = {unparse(each): each for each in _logged_objects(methods["training_step"])}
        for each in _logged_objects(methods["validation_step"]):
            code = unparse(each)
            if code in trained and code in made:
                yield SharedMetric(source.location(each), code, source.location(trained[code]))


def _logged_objects(step: ast.FunctionDef) -> Iterator[ast.Attribute]:
    """The attributes that `self.log(name, self.attribute)` of a method gets as they are."""
    for node in walk(step):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="self"), attr="log"), args=[_, ast.Attribute() as given, *_]
            ):
                yield given
            case _:
                pass
