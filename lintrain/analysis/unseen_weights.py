"""Weights that code writes: computations that autograd does not see, through `.data`, and numbers that do not fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.analysis import origins
from lintrain.interpreter.layer_shapes import OPEN, argument_of
from lintrain.interpreter.shapes import integer
from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act, Event
from lintrain.pipeline.modules import weight_of
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Module, Tensor
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, LibraryObject, Value, text_of
from lintrain.source.nodes import unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


@dataclass(frozen=True, slots=True)
class Overwritten:
    """An assignment to `.data` that hides a computation from autograd: where, its target, and what learns nothing."""

    location: Location
    target: str
    lost: str


CHANGES_TWICE = re.compile(r"\b(?:softplus|exp|sigmoid|softmax|tanh|log)\b")
"""Functions that change numbers again when they are applied to their own result."""


def overwritten(pipeline: Pipeline) -> Iterator[Overwritten]:
    """The tensors that get computed numbers through `.data` where training would have to see the computation."""
    source = pipeline.source
    for node in source.nodes_of(ast.Assign):
        match node.targets:
            case [ast.Attribute(value=target, attr="data")]:
                pass
            case _:
                continue
        scope = blocks.scope_of(pipeline, source.location(node))
        lost = _lost_in_forward(source, scope, target, node.value) or _lost_in_hook(source, scope, target, node.value)
        lost = lost or _lost_output(pipeline, scope, target, node)
        if lost:
            yield Overwritten(source.location(node), unparse(target), lost)


def only_read_detached(source: Source) -> Iterator[tuple[Location, str]]:
    """The parameters of networks whose `forward` reads nothing but their `.data`: where, and the name."""
    for cls in source.nodes_of(ast.ClassDef):
        if "Parameter(" not in source.code(source.location(cls)):
            continue
        code = unparse(cls)
        names = set(re.findall(r"self\.(\w+) = (?:\w+\.)*Parameter\(", code))
        methods = [each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]
        for name in sorted(names):
            uses = [
                (node, parent)
                for method in methods
                for parent in walk(method)
                for node in ast.iter_child_nodes(parent)
                if isinstance(node, ast.Attribute) and node.attr == name and unparse(node.value) == "self"
            ]
            reads = [parent for _, parent in uses if isinstance(parent, ast.Attribute)]
            are_cut = all(parent.attr in {"data", "detach"} and isinstance(parent.ctx, ast.Load) for parent in reads)
            if uses and len(reads) == len(uses) and are_cut and not re.search(rf"{name}[^\n]*requires_grad", code):
                yield source.location(reads[0]), f"self.{name}"


def _lost_in_forward(source: Source, scope: ast.AST, target: ast.expr, value: ast.expr) -> str:
    """The other parameter of a network that the new numbers are computed from, if `forward` reads it nowhere else."""
    if not isinstance(scope, ast.FunctionDef) or scope.name != "forward":
        return ""
    owner = next((each for each in source.nodes_of(ast.ClassDef) if scope in each.body), None)
    code = unparse(owner) if owner is not None else ""
    for name in dict.fromkeys(re.findall(r"self\.(\w+)", unparse(value))):
        uses = re.findall(rf"\bself\.{name}\b(?!\.(?:data|detach|shape|size))", unparse(scope))
        is_parameter = re.search(rf"self\.{name}\b[^=\n]*= *(?:\w+\.)*Parameter\(", code)
        inside = re.findall(rf"\bself\.{name}\b(?!\.(?:data|detach|shape|size))", unparse(value))
        if is_parameter and f"self.{name}" != unparse(target) and inside and len(inside) == len(uses):
            return f"self.{name}"
    return ""


def _lost_in_hook(source: Source, scope: ast.AST, target: ast.expr, value: ast.expr) -> str:
    """The weight that a hook replaces by a function of itself, again before each pass."""
    match value:
        case ast.Attribute(value=ast.Call() as made, attr="data") if "register_forward_pre_hook" in source.text:
            pass
        case _:
            return ""
    is_hook = isinstance(scope, ast.FunctionDef) and len(scope.args.args) in (2, 3)
    code = unparse(target)
    called = made.func.attr if isinstance(made.func, ast.Attribute) else ""
    bodies = [unparse(each) for each in source.nodes_of(ast.FunctionDef) if each.name == called]
    is_repeated = any(CHANGES_TWICE.search(text) for text in (unparse(made), *bodies))
    return code if is_hook and is_repeated and code in {unparse(each) for each in made.args} else ""


def _lost_output(pipeline: Pipeline, scope: ast.AST, target: ast.expr, node: ast.Assign) -> str:
    """The output of a network whose numbers a tensor that requires gradients gets, of which it is no part."""
    source, value = pipeline.source, node.value
    while isinstance(value, ast.Attribute | ast.Call):
        value = value.func if isinstance(value, ast.Call) else value.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Name):
        return ""
    made = [each for each in walk(scope) if isinstance(each, ast.Assign) and each.lineno < node.lineno]
    leaf = [each.value for each in made if unparse(each.targets[0]) == target.id]
    given = [each.value for each in made if unparse(each.targets[0]) == value.id]
    passes = {event.location for event in pipeline.acts(Act.FORWARD) if not event.without_grad}
    is_output = bool(given) and source.location(given[-1]) in passes
    return value.id if is_output and leaf and "requires_grad=True" in unparse(leaf[-1]) else ""


@dataclass(frozen=True, slots=True)
class Misfit:
    """A weight that gets numbers of another shape or type than its layer has: both as text."""

    location: Location
    weight: str
    has: str
    gets: str


DOUBLES = re.compile(r"\bnp\.(?:linspace|logspace|zeros|ones|eye|full|random\.\w+|concatenate|array|asarray)\(")
SINGLES = re.compile(r"dtype|float\(\)|float32|half|astype|\.(?:Float)?Tensor\(|\.to\(|type\(")
"""Calls of NumPy that give float64, and code that chooses another type."""


def misfits(pipeline: Pipeline) -> Iterator[Misfit]:
    """The weights of layers of torch that are replaced by numbers that do not fit.

    A layer that gets float64 for its weight and its bias computes in float64, with inputs that may be float64 too.
    """
    found = list(_misfits(pipeline))
    doubles = {(code, part) for code, part, each in found if each.gets == "float64"}
    for code, _, each in found:
        if each.gets != "float64" or not {(code, "weight"), (code, "bias")} <= doubles:
            yield each


def _misfits(pipeline: Pipeline) -> Iterator[tuple[str, str, Misfit]]:
    """The misfits with the code of the layer and the name of the weight."""
    for event in pipeline.acts(Act.REPLACE):
        source, weight = pipeline.source_of(event.location), _weight_in(event)
        statement = blocks.statement_at(pipeline, event.location)
        if weight is None or not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        given, code = _numbers_in(event.details["value"], statement.value)
        found = _misfit_of(pipeline, *weight, given, code)
        if found is not None:
            target = unparse(statement.targets[0]).removesuffix(".data")
            yield target.rpartition(".")[0], weight[1], Misfit(source.location(statement), target, *found)


def _weight_in(event: Event) -> tuple[Module, str] | None:
    """The layer and the name of the weight that `layer.weight = …` or `layer.weight.data = …` sets."""
    name, owner = text_of(event.details["name"]) or "", event.subject
    if not isinstance(owner, Module):
        return None
    if name == "data":
        return weight_of(owner)
    return (owner, name) if owner.path.startswith("torch.nn.") and name in {"weight", "bias"} else None


def _numbers_in(value: Value, code: ast.expr) -> tuple[Value, ast.expr]:
    """What a parameter is made of: `nn.Parameter(numbers)` with its code."""
    if not isinstance(value, LibraryObject) or not value.path.endswith(".Parameter"):
        return value, code
    inner = code.args[0] if isinstance(code, ast.Call) and code.args else code
    return value.arguments.get("0", value.arguments.get("data", UNKNOWN)), inner


def _misfit_of(pipeline: Pipeline, layer: Module, part: str, given: Value, code: ast.expr) -> tuple[str, str] | None:
    """What a weight has and gets, as text, where that differs."""
    expected = _shape_of_weight(layer, part)
    sizes = given.shape.sizes if isinstance(given, Tensor) and not given.shape.is_open else ()
    if expected and sizes and None not in sizes and (len(sizes) != len(expected) or _differ(expected, sizes)):
        return f"shape {_shown(expected)}", _shown(sizes)
    if isinstance(given, Tensor) and given.kind == "int":
        return "floating-point numbers", "integers"
    text = "\n".join(unparse(each.expression) for each in origins.origins(pipeline.source, code) if each.is_certain)
    is_double = "torch.tensor(" in text or "from_numpy(" in text
    is_other = SINGLES.search(text) or pipeline.source.contains(WIDENS)
    return ("float32", "float64") if is_double and DOUBLES.search(text) and not is_other else None


WIDENS = lazy_pattern(r"\.double\(|set_default_(?:dtype|tensor_type)")
"""Code that computes in float64."""


def _differ(expected: tuple[int | None, ...], sizes: tuple[int | None, ...]) -> bool:
    return any(one is not None and one != other for one, other in zip(expected, sizes, strict=True))


def _shown(sizes: tuple[int | None, ...]) -> str:
    names = ["*" if size is None else str(size) for size in sizes]
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"


def _shape_of_weight(layer: Module, part: str) -> tuple[int | None, ...]:
    """The sizes of a layer's weight or bias, as far as they are written; empty for a layer that is not known.

    Without a bias a layer has as many outputs as its weight has rows.
    """
    match layer.name:
        case "Embedding":
            rows, width = (integer(argument_of(layer, name, at)) for at, name in enumerate(EMBEDDING))
            return (rows, width) if part == "weight" else ()
        case "Linear":
            narrow, wide = (integer(argument_of(layer, name, at)) for at, name in enumerate(LINEAR))
            outputs = None if _is_false(argument_of(layer, "bias", 2)) else wide
            return (outputs, narrow) if part == "weight" else (wide,)
        case "Conv1d" | "Conv2d" | "Conv3d":
            narrow, wide = (integer(argument_of(layer, name, at)) for at, name in enumerate(CONVOLUTION))
            kernel = (None,) * int(layer.name[4])
            is_grouped = not isinstance(argument_of(layer, "groups", 6), Absent) or OPEN in layer.arguments
            outputs = None if _is_false(argument_of(layer, "bias", 7)) else wide
            return (wide,) if part == "bias" else (outputs, None if is_grouped else narrow, *kernel)
        case _:
            return ()


def _is_false(value: Value) -> bool:
    return isinstance(value, Constant) and value.value is False


EMBEDDING = ("num_embeddings", "embedding_dim")
LINEAR = ("in_features", "out_features")
CONVOLUTION = ("in_channels", "out_channels")
