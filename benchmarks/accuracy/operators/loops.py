"""Mistakes in loops of one's own: gradients, steps, modes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import Code, Edit
from benchmarks.accuracy.mutants import injects


def steps_of(code: Code) -> Iterator[ast.Call]:
    """The calls of `optimizer.step()`, under whatever name with `optim` or `opt` in it."""
    for call in code.calls("step"):
        if "opt" in ast.unparse(call.func).lower() and code.loops(call) and not call.args:
            yield call


@injects("missing-zero-grad", shows="gradients weights")
def forget_to_clear(code: Code) -> Iterator[list[Edit]]:
    """Delete the only `zero_grad` of a script that steps one optimizer."""
    clears, steps = list(code.calls("zero_grad")), list(steps_of(code))
    if len(clears) == 1 and len(steps) == 1:
        for backward in code.calls("backward"):
            yield [code.delete(code.statement(clears[0])), code.here(code.statement(backward))]


@injects("missing-step", shows="steps")
def forget_to_step(code: Code) -> Iterator[list[Edit]]:
    """Delete the only `optimizer.step()`."""
    steps = list(steps_of(code))
    if len(steps) == 1:
        for backward in code.calls("backward"):
            yield [code.delete(code.statement(steps[0])), code.here(code.statement(backward))]
