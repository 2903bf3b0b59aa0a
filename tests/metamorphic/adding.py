"""Parts that many scripts have in addition: a validation after every epoch, a second optimizer."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from tests.metamorphic.loops import Training, forward, models, trainings
from tests.metamorphic.script import Line, Script, bound_names, read_names

HELD = "held_"
"""The start of every name in a validation."""

SIDE = ("side_model = torch.nn.Linear(4, 1)", "side_optimizer = torch.optim.SGD(side_model.parameters(), lr=0.01)")
SIDE_STEP = (
    "side_optimizer.zero_grad()",
    "side_loss = side_model(torch.randn(8, 4)).pow(2).mean()",
    "side_loss.backward()",
    "side_optimizer.step()",
)
"""A small model with an optimizer, and one correct training step."""


def add_validation(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with a validation after each epoch, in eval mode and without gradients; it restores the mode."""
    if "torch" not in bound_names(script.tree.body):
        return None
    added: dict[tuple[int, int], Sequence[Line]] = {}
    for training in trainings(script):
        below = (training.batches.end_lineno or 0) + 1
        margin = " " * training.batches.col_offset
        lines = [Line(margin + line) for line in _validation(script, training)]
        added |= {(below, below - 1): lines} if lines else {}
    return script.with_lines(added) if added else None


def _validation(script: Script, training: Training) -> list[str]:
    """Its lines; none if the forward pass reads what an earlier batch left, or no model is known."""
    statements, called, loop = forward(training), models(script, training), training.batches
    bound = bound_names([*statements, loop.target])
    if not statements or not called or _reads_before_it_binds(statements, bound, bound_names([loop.target])):
        return []
    copied = ast.For(target=loop.target, iter=loop.iter, body=statements, orelse=[], lineno=1, col_offset=0)
    text = ast.unparse(_Held(bound).visit(ast.parse(ast.unparse(copied))))
    return [
        *(f"was_training{number} = {name}.training" for number, name in enumerate(called)),
        *(f"{name}.eval()" for name in called),
        "with torch.no_grad():",
        *(f"    {line}" for line in text.split("\n")),
        *(f"{name}.train(was_training{number})" for number, name in enumerate(called)),
    ]


def _reads_before_it_binds(statements: Sequence[ast.stmt], bound: set[str], known: set[str]) -> bool:
    seen = set(known)
    for statement in statements:
        own = bound_names([statement])
        if (read_names([statement]) & bound) - seen - (own if isinstance(statement, ast.With) else set[str]()):
            return True
        seen |= own
    return False


class _Held(ast.NodeTransformer):
    """Renames the variables of a copy."""

    def __init__(self, names: set[str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = f"{HELD}{node.id}" if node.id in self.names else node.id
        return node


def add_optimizer(script: Script, focus: frozenset[int]) -> Script | None:
    """The script with a second model, which an optimizer of its own trains correctly in the same loop.

    Both are created above the loop over epochs; None if that loop is in another function.
    """
    added: dict[tuple[int, int], Sequence[Line]] = {}
    for training in trainings(script):
        if training.epochs is None and training.around is not None:
            return None
        outer = training.epochs or training.batches
        above, below = script.span(outer)[0], (training.batches.end_lineno or 0) + 1
        added[above, above - 1] = [Line(" " * outer.col_offset + line) for line in SIDE]
        margin = " " * training.batches.body[0].col_offset
        added[below, below - 1] = [Line(margin + line) for line in SIDE_STEP]
    return script.with_lines(added) if added and "torch" in bound_names(script.tree.body) else None
