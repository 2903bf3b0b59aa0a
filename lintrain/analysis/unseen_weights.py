"""Computations on weights that autograd does not see: written through `.data`, or read from it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from lintrain.model.location import Location
from lintrain.pipeline import blocks
from lintrain.pipeline.events import Act
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass


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
            yield Overwritten(source.location(node), ast.unparse(target), lost)


def only_read_detached(source: Source) -> Iterator[tuple[Location, str]]:
    """The parameters of networks whose `forward` reads nothing but their `.data`: where, and the name."""
    for cls in source.nodes_of(ast.ClassDef):
        if "Parameter(" not in source.code(source.location(cls)):
            continue
        code = ast.unparse(cls)
        names = set(re.findall(r"self\.(\w+) = (?:\w+\.)*Parameter\(", code))
        methods = [each for each in cls.body if isinstance(each, ast.FunctionDef) and each.name != "__init__"]
        for name in sorted(names):
            uses = [
                (node, parent)
                for method in methods
                for parent in walk(method)
                for node in ast.iter_child_nodes(parent)
                if isinstance(node, ast.Attribute) and node.attr == name and ast.unparse(node.value) == "self"
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
    code = ast.unparse(owner) if owner is not None else ""
    for name in dict.fromkeys(re.findall(r"self\.(\w+)", ast.unparse(value))):
        uses = re.findall(rf"\bself\.{name}\b(?!\.(?:data|detach|shape|size))", ast.unparse(scope))
        is_parameter = re.search(rf"self\.{name}\b[^=\n]*= *(?:\w+\.)*Parameter\(", code)
        inside = re.findall(rf"\bself\.{name}\b(?!\.(?:data|detach|shape|size))", ast.unparse(value))
        if is_parameter and f"self.{name}" != ast.unparse(target) and inside and len(inside) == len(uses):
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
    code = ast.unparse(target)
    called = made.func.attr if isinstance(made.func, ast.Attribute) else ""
    bodies = [ast.unparse(each) for each in source.nodes_of(ast.FunctionDef) if each.name == called]
    is_repeated = any(CHANGES_TWICE.search(text) for text in (ast.unparse(made), *bodies))
    return code if is_hook and is_repeated and code in {ast.unparse(each) for each in made.args} else ""


def _lost_output(pipeline: Pipeline, scope: ast.AST, target: ast.expr, node: ast.Assign) -> str:
    """The output of a network whose numbers a tensor that requires gradients gets, of which it is no part."""
    source, value = pipeline.source, node.value
    while isinstance(value, ast.Attribute | ast.Call):
        value = value.func if isinstance(value, ast.Call) else value.value
    if not isinstance(target, ast.Name) or not isinstance(value, ast.Name):
        return ""
    made = [each for each in walk(scope) if isinstance(each, ast.Assign) and each.lineno < node.lineno]
    leaf = [each.value for each in made if ast.unparse(each.targets[0]) == target.id]
    given = [each.value for each in made if ast.unparse(each.targets[0]) == value.id]
    passes = {event.location for event in pipeline.acts(Act.FORWARD) if not event.without_grad}
    is_output = bool(given) and source.location(given[-1]) in passes
    return value.id if is_output and leaf and "requires_grad=True" in ast.unparse(leaf[-1]) else ""
