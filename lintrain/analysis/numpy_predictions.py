"""Methods of tensors on what a metric function gets from a Trainer, which are arrays of NumPy."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from lintrain.analysis import trainer_methods
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.python import Function, is_true
from lintrain.pipeline.values.training import TrainerRun
from lintrain.source.nodes import unparse, walk
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

OF_TENSORS = frozenset(
    {"cpu", "cuda", "detach", "numpy", "softmax", "sigmoid", "log_softmax", "float", "long", "int", "bool", "to"}
    | {"unsqueeze", "permute", "masked_fill", "gather", "eq", "ne", "topk", "scatter", "numel", "contiguous", "size"}
)
"""Methods of a tensor that an array does not have, or (`size`) cannot call."""

REDUCTIONS = frozenset({"argmax", "argmin", "max", "min", "mean", "sum", "squeeze", "softmax", "std"})
"""Methods of both whose axis is `dim` only for tensors."""

ASKS = lazy_pattern(r"\bisinstance\(|\bhasattr\(|is_tensor\(")
FIELDS = frozenset({"predictions", "label_ids"})
OWN_EVALUATION = frozenset({"evaluation_loop", "prediction_loop", "evaluate", "predict", "prediction_step"})


@dataclass(frozen=True, slots=True)
class TensorMethod:
    """A call that arrays cannot answer: where, what it is called on, and what they lack in words."""

    location: Location
    owner: str
    lacks: str


def tensor_methods(pipeline: Pipeline) -> Iterator[TensorMethod]:
    """The calls of methods of tensors in metric functions that plain trainers call."""
    for run in pipeline.runs:
        function = trainer_methods.own_function(run.value("compute_metrics"))
        if function is not None and isinstance(function.node, ast.FunctionDef) and _gives_arrays(run):
            source = function.source or pipeline.source
            if not ASKS.search(source.code(source.location(function.node))):
                for call, owner, lacks in _calls(function, function.node):
                    yield TensorMethod(source.location(call), owner, lacks)


def _gives_arrays(run: TrainerRun) -> bool:
    batched = run.settings.value("batch_eval_metrics") if run.settings is not None else None
    is_plain = run.path.startswith("transformers.") and not run.overrides & OWN_EVALUATION
    return is_plain and (batched is None or not is_true(batched))


def _calls(function: Function, node: ast.FunctionDef) -> Iterator[tuple[ast.Call, str, str]]:
    names = [each.arg for each in node.args.args if each.arg != "self"]
    if not names:
        return
    stored = Counter(each.id for each in walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store))
    arrays = {name for name in _arrays_of(node, names[0]) if stored[name] == 1}
    for each in walk(node) if not stored[names[0]] else ():
        match each:
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if _is_array(owner, names[0], arrays):
                if name in OF_TENSORS:
                    yield each, unparse(owner), f"`{name}`"
                elif name == "view" and each.args and _counts(each.args[0]):
                    yield each, unparse(owner), "`view` with a shape"
                elif name in REDUCTIONS and any(keyword.arg in {"dim", "keepdim"} for keyword in each.keywords):
                    yield each, unparse(owner), f"`{name}` by `dim`"
            case _:
                pass


def _arrays_of(function: ast.FunctionDef, given: str) -> Iterator[str]:
    """The names of the predictions and labels: `logits, labels = given`, `logits = given.predictions`."""
    for node in walk(function):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)])], value=value):
                parts = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == 2 else []
                if isinstance(value, ast.Name) and value.id == given:
                    yield from (first, second)
                for name, part in zip((first, second), parts, strict=False):
                    if _is_field(part, given):
                        yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if _is_field(value, given):
                yield name
            case _:
                pass


def _is_field(node: ast.expr, given: str) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id=name), attr=attr):
            return name == given and attr in FIELDS
        case _:
            return False


def _is_array(node: ast.expr, given: str, arrays: set[str]) -> bool:
    """Whether code is one of the arrays, or an entry of it: of a tuple, or a row."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant | ast.Tuple | ast.Slice) and _is_array(node.value, given, arrays)
    return _is_field(node, given) or (isinstance(node, ast.Name) and node.id in arrays)


def _counts(node: ast.expr) -> bool:
    """Whether the first argument of `view` is a size, and not a type."""
    match node:
        case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant(value=int())):
            return True
        case _:
            return False
