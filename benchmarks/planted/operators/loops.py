"""Mistakes in loops of one's own: gradients, backward passes and steps."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.planting import plants


def steps(form: Form) -> Iterator[tuple[ast.Call, ast.Call, ast.For | ast.While]]:
    """Each plain `backward()` with the only `step()` of an optimizer in its block, and the loop around them."""
    for backward in form.calls("backward"):
        loop = form.loop(backward)
        if loop is None or not form.is_statement(backward):
            continue
        inside = [step for step in form.calls_in(loop, "step") if is_optimizer(receiver(step))]
        alone = len(form.calls_in(loop, "backward")) == 1 and len(inside) == 1
        if alone and form.is_statement(inside[0]) and form.are_neighbours(backward, inside[0]):
            yield backward, inside[0], loop


def is_optimizer(name: str) -> bool:
    """Whether a name is written as that of an optimizer."""
    last = name.rsplit(".", 1)[-1].lower()
    return "opt" in last and not any(word in last for word in ("option", "sched"))


@plants("missing-zero-grad", also="wrong-step-order cleared-accumulation")
def zero_grad_removed(form: Form) -> Iterator[list[Edit]]:
    """`zero_grad()`, the only one in the function of a loop with one step, is removed."""
    for backward, step, loop in steps(form):
        function = form.function(backward)
        clears = form.calls_in(function, "zero_grad")
        if len(clears) == 1 and form.is_in(clears[0], loop) and form.is_statement(clears[0]):
            if form.are_neighbours(clears[0], step) and form.text.count("zero_grad") == len(
                list(form.calls("zero_grad"))
            ):
                yield [form.delete(form.statement(clears[0])), form.here(form.statement(backward))]


@plants("missing-step", also="unchanged-parameters missing-backward")
def step_removed(form: Form) -> Iterator[list[Edit]]:
    """`optimizer.step()`, the only step of a loop, is removed."""
    for backward, step, _ in steps(form):
        if len(form.calls_in(form.function(backward), "step")) == 1:
            yield [form.delete(form.statement(step)), form.here(form.statement(backward))]


@plants("missing-backward", also="missing-step")
def backward_removed(form: Form) -> Iterator[list[Edit]]:
    """`loss.backward()`, the only one of a loop with a step, is removed."""
    for backward, step, _ in steps(form):
        if len(form.calls_in(form.function(backward), "backward", "manual_backward", "grad")) == 1:
            yield [form.delete(form.statement(backward)), form.here(form.statement(step))]


@plants("stepped-before-backward", also="wrong-step-order missing-backward missing-zero-grad")
def step_before_backward(form: Form) -> Iterator[list[Edit]]:
    """`optimizer.step()` is moved above `loss.backward()`."""
    for backward, step, _ in steps(form):
        one, other = form.statement(backward), form.statement(step)
        if one.lineno < other.lineno:
            yield [form.delete(other), form.before(one, HERE + form.lines_of(other))]


@plants("wrong-step-order", also="missing-zero-grad cleared-accumulation")
def cleared_before_step(form: Form) -> Iterator[list[Edit]]:
    """`zero_grad()` is moved between the backward pass and the step."""
    for backward, step, loop in steps(form):
        clears = form.calls_in(loop, "zero_grad")
        if len(clears) != 1 or not form.is_statement(clears[0]) or not form.are_neighbours(clears[0], step):
            continue
        clear, one, other = form.statement(clears[0]), form.statement(backward), form.statement(step)
        if one.lineno < other.lineno and not one.lineno < clear.lineno < other.lineno:
            yield [form.delete(clear), form.after(one, HERE + form.lines_of(clear))]


@plants("uncalled-method")
def zero_grad_uncalled(form: Form) -> Iterator[list[Edit]]:
    """`optimizer.zero_grad()` is written without its parentheses."""
    for clear in form.calls("zero_grad"):
        if form.is_statement(clear) and form.loop(clear) and not clear.args and last_name(clear.func):
            yield [form.replace(clear, HERE + form.code(clear.func))]
