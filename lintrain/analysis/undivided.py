"""Loops that step once every few batches, by a number named after accumulation, and divide no loss by it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from lintrain.analysis.script_text import mentions
from lintrain.model.location import Location
from lintrain.pipeline.record import Pipeline
from lintrain.source.nodes import own_nodes, unparse, walk
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

ACCUMULATES = lazy_pattern(r"(?i)accum")
DIVIDES = (
    r"(?im)^[^\n#]*/=?[^\n#]*accum|\.div_?\([^\n]*accum|accumulate\(|Accelerator\([^)]*accumulation|deepspeed|lightning|"
    r"\bfabric\b|reduction=['\"](?:sum|none)"
)
"""Code that may divide a loss, counts what it adds up, or leaves the accumulation to a library."""


@dataclass(frozen=True, slots=True)
class Undivided:
    """A backward pass of a loop whose loss is not divided: where, where it steps, and the code of the number."""

    backward: Location
    step: Location
    batches: str


def undivided(pipeline: Pipeline) -> Iterator[Undivided]:
    """The backward passes of the file whose gradients are added up as they are."""
    source = pipeline.source
    if not source.contains(r"%[^\n]*[Aa]ccum") or mentions(pipeline, DIVIDES):
        return
    for scope in (source.tree, *source.nodes_of(ast.FunctionDef)):
        nodes = own_nodes(scope)
        for loop in (node for node in nodes if isinstance(node, ast.For)):
            yield from _in_loop(source, nodes, loop)


def _in_loop(source: Source, nodes: Sequence[ast.AST], loop: ast.For) -> Iterator[Undivided]:
    inside = sorted(_of_one_pass(loop), key=lambda node: getattr(node, "lineno", 0))
    named = {
        unparse(node.targets[0]): number
        for node in inside
        if isinstance(node, ast.Assign) and (number := _number_of(node.value)) is not None
    }
    backwards = [node for node in inside if isinstance(node, ast.Call) and _is_backward(node)]
    windows = [(node, number) for node in inside if isinstance(node, ast.If) and (number := _window(node, named))]
    for window, number in windows[:1]:
        held = {id(node) for statement in window.body for node in walk(statement)}
        apart = [call for call in backwards if id(call) not in held]
        losses = {unparse(_loss_of(call)) for call in apart}
        if _steps(window) and apart and not any(_is_divided(node, losses) for node in inside):
            step = source.location(window.test)
            by_loss = {unparse(_loss_of(call)): call for call in reversed(apart)}  # branches pass the same loss
            yield from (Undivided(source.location(call), step, number) for call in by_loss.values())


def _of_one_pass(loop: ast.For) -> Iterator[ast.AST]:
    """The nodes of a loop without those of inner loops, which are judged alone."""
    pending: list[ast.AST] = [*loop.body]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.ClassDef):
            pending.extend(ast.iter_child_nodes(node))


def _window(node: ast.If, named: dict[str, str]) -> str:
    """The number of batches between two steps, in the condition of a step or in a name for it; empty without one."""
    number = _number_of(node.test)
    if number is not None:
        return number
    return next((found for name, found in named.items() if unparse(node.test) in {name, f"not {name}"}), "")


def _number_of(test: ast.expr) -> str | None:
    """The code of `N` in `(step + 1) % N == 0`, alone or as one of several conditions."""
    for node in walk(test):
        match node:
            case ast.Compare(left=ast.BinOp(op=ast.Mod(), right=number)) if ACCUMULATES.search(unparse(number)):
                return unparse(number)
            case _:
                pass
    return None


def _is_backward(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "backward"


def _loss_of(call: ast.Call) -> ast.expr:
    """The loss of `loss.backward()`, `scaler.scale(loss).backward()` or `accelerator.backward(loss)`."""
    if call.args:
        return call.args[0]
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call
    return owner.args[0] if isinstance(owner, ast.Call) and owner.args else owner


def _steps(window: ast.If) -> bool:
    """Whether the condition decides about a step: it may be in an inner condition."""
    calls = (node for statement in window.body for node in walk(statement) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "step" for call in calls)


def _is_divided(node: ast.AST, losses: set[str]) -> bool:
    """Whether a statement divides one of the losses, by whatever it is."""
    match node:
        case ast.AugAssign(target=target, op=ast.Div() | ast.Mult()):
            return unparse(target) in losses
        case ast.Assign(targets=[target], value=ast.BinOp(op=ast.Div() | ast.Mult())):
            return unparse(target) in losses
        case _:
            return False
