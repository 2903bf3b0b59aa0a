"""Mistakes of indentation in loops of one's own: what belongs to a batch is done for all of them, or the reverse."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, number, receiver
from benchmarks.planted.operators.loops import steps
from benchmarks.planted.operators.modes import LOADER
from benchmarks.planted.planting import plants


@plants("missing-zero-grad", also="wrong-step-order")
def zero_grad_before_batches(form: Form) -> Iterator[list[Edit]]:
    """`zero_grad()`, the only one of a loop that steps after each batch, is moved above the loop."""
    for backward, step, loop in steps(form):
        clears = form.calls_in(form.function(loop), "zero_grad")
        if len(clears) == 1 and form.is_statement(clears[0]) and form.are_neighbours(clears[0], step):
            if form.statement(clears[0]) in loop.body and "accum" not in form.text:
                clear = form.statement(clears[0])
                yield [
                    form.before(loop, form.lines_of(clear)),
                    form.delete(clear),
                    form.here(form.statement(backward)),
                ]


@plants("cleared-accumulation", also="missing-step wrong-step-order")
def step_after_batches(form: Form) -> Iterator[list[Edit]]:
    """`optimizer.step()` is moved below the loop over batches, which still clears the gradients of each."""
    for _, step, loop in steps(form):
        clears = form.calls_in(loop, "zero_grad")
        one = form.statement(step)
        if len(clears) == 1 and form.are_neighbours(clears[0], step) and one in loop.body and not loop.orelse:
            if isinstance(loop, ast.For) and LOADER.search(ast.unparse(loop.iter)):
                yield [form.delete(one), form.after(loop, HERE + form.lines_of(one))]


@plants("early-return")
def returned_after_first_batch(form: Form) -> Iterator[list[Edit]]:
    """The `return` below a training loop is indented into it, so the function ends after the first batch."""
    for function in form.functions():
        for loop, last in zip(function.body, function.body[1:], strict=False):
            if not isinstance(loop, ast.For) or not isinstance(last, ast.Return) or last is not function.body[-1]:
                continue
            returns = [each for each in form.nodes(ast.Return) if form.is_in(each, loop)]
            if last.value is not None and not returns and not loop.orelse and form.calls_in(loop, "backward"):
                if form.is_alone(last):
                    yield [form.delete(last), form.after(loop.body[-1], HERE + form.lines_of(last))]


@plants("retained-graph")
def loss_collected_with_graph(form: Form) -> Iterator[list[Edit]]:
    """`losses.append(loss.item())` of a training loop is written without `.item()`."""
    for append in form.calls("append"):
        loop = form.loop(append)
        if loop is None or len(append.args) != 1 or not form.is_statement(append):
            continue
        (item,) = append.args
        if isinstance(item, ast.Call) and isinstance(item.func, ast.Attribute) and item.func.attr == "item":
            losses = {receiver(backward) for backward in form.calls_in(loop, "backward")}
            if not item.args and receiver(item) in losses:
                yield [form.replace(item, HERE + form.code(item.func.value))]


@plants("last-batch-metric")
def sum_reset_each_batch(form: Form) -> Iterator[list[Edit]]:
    """`total = 0` above a loop over batches is moved into it, so the sum below the loop is that of the last batch."""
    for start in form.nodes(ast.Assign):
        target = start.targets[0]
        if len(start.targets) != 1 or not isinstance(target, ast.Name) or number(start.value) != 0:
            continue
        for loop in form.block(start):
            if isinstance(loop, ast.For) and loop.lineno > start.lineno and LOADER.search(ast.unparse(loop.iter)):
                if _sums(form, loop, target.id) and _is_read_below(form, loop, target.id) and form.is_alone(start):
                    yield [form.delete(start), form.before(loop.body[0], HERE + form.lines_of(start))]
                break


def _sums(form: Form, loop: ast.For, name: str) -> bool:
    """Whether each iteration adds to a name, and nothing else writes it."""
    writes = [each for each in ast.walk(loop) if isinstance(each, ast.Name) and each.id == name]
    written = [form.parent(each) for each in writes if isinstance(each.ctx, ast.Store)]
    added = [each for each in written if isinstance(each, ast.AugAssign) and isinstance(each.op, ast.Add)]
    return len(written) == len(added) == 1 and form.loop(added[0]) is loop


def _is_read_below(form: Form, loop: ast.For, name: str) -> bool:
    """Whether a statement of the loop's block reads a name after the loop, before it is set again."""
    for statement in form.block(loop):
        if statement.lineno > loop.lineno:
            for each in ast.walk(statement):
                if isinstance(each, ast.Name) and each.id == name:
                    return isinstance(each.ctx, ast.Load)
    return False
