"""Hand-written training loops: their loop over batches, and which statements update weights."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from tests.metamorphic.editing import name_of_call
from tests.metamorphic.script import Function, Script, bound_names, own_nodes, parameters_of

UPDATES = {
    *("zero_grad", "backward", "step", "update", "unscale_", "clip_grad_norm_", "clip_grad_value_", "clip_gradients"),
    *("manual_backward", "set_epoch"),
}


@dataclass(frozen=True, slots=True)
class Training:
    """The loop over batches, the loop over epochs around it, and their block and function."""

    batches: ast.For
    epochs: ast.For | None
    block: Sequence[ast.stmt]
    around: Function | None

    @property
    def body(self) -> list[ast.stmt]:
        """The statements for each batch, including those in `with accelerator.accumulate(model):`."""
        flat: list[ast.stmt] = []
        for statement in self.batches.body:
            match statement:
                case ast.With(items=[ast.withitem(context_expr=ast.Call() as call)], body=body):
                    flat += body if name_of_call(call) == "accumulate" else [statement]
                case _:
                    flat.append(statement)
        return flat


def trainings(script: Script) -> Iterator[Training]:
    """Every innermost loop with a backward pass."""
    yield from _within(script.tree, None, None)


def _within(node: ast.AST, epochs: ast.For | None, around: Function | None) -> Iterator[Training]:
    for name in ("body", "orelse", "finalbody"):
        value = getattr(node, name, None)
        block = cast("list[ast.stmt]", value) if isinstance(value, list) else []  # a lambda's body is an expression
        for statement in block:
            if isinstance(statement, ast.For) and _is_innermost(statement):
                yield Training(statement, epochs, block, around)
            elif isinstance(statement, ast.For):
                yield from _within(statement, statement, around)
            elif isinstance(statement, Function):
                yield from _within(statement, None, statement)
            else:
                yield from _within(statement, epochs, around)


def _is_innermost(loop: ast.For) -> bool:
    inner = [node for node in own_nodes(loop.body) if isinstance(node, ast.For)]
    return has_backward(loop.body) and not any(_is_innermost(one) for one in inner)


def has_backward(statements: Sequence[ast.stmt]) -> bool:
    """Whether these statements make a backward pass."""
    calls = (node for node in own_nodes(statements) if isinstance(node, ast.Call))
    return any(name_of_call(call) in ("backward", "manual_backward") for call in calls)


def updates(statement: ast.stmt) -> bool:
    """Whether a statement clears, computes, clips or uses gradients."""
    return any(isinstance(node, ast.Call) and name_of_call(node) in UPDATES for node in own_nodes([statement]))


def forward(training: Training) -> list[ast.stmt]:
    """The statements that compute the first loss; none if they also make the backward pass."""
    made: list[ast.stmt] = []
    for statement in training.body:
        if has_backward([statement]):
            return made
        if not updates(statement):
            made.append(statement)
    return []


def models(script: Script, training: Training) -> list[str]:
    """The models that the loop calls, as code: `model`, `self.model`."""
    owners = {
        ast.unparse(node.func.value)
        for node in ast.walk(script.tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("parameters", "train", "state_dict")
    }
    called = [ast.unparse(node.func) for node in own_nodes(training.batches.body) if isinstance(node, ast.Call)]
    around = training.around
    known = bound_names(script.tree.body)
    if around:
        known |= bound_names(around.body) | set(parameters_of(around))
    return [name for name in dict.fromkeys(called) if name in owners and (name in known or name.startswith("self."))]
