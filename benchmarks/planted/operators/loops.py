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


@plants("clip-after-step")
def clipped_after_step(form: Form) -> Iterator[list[Edit]]:
    """Gradients are clipped after the step in place of before it."""
    for clip, _, step in _clips(form):
        yield [form.delete(clip), form.after(step, HERE + form.lines_of(clip))]


@plants("clip-before-backward")
def clipped_before_backward(form: Form) -> Iterator[list[Edit]]:
    """Gradients are clipped before the backward pass."""
    for clip, backward, _ in _clips(form):
        yield [form.delete(clip), form.before(backward, HERE + form.lines_of(clip))]


def _clips(form: Form) -> Iterator[tuple[ast.stmt, ast.stmt, ast.stmt]]:
    """Each clipping between a backward pass and a step of the same block, without a scaler."""
    for backward, step, loop in steps(form):
        clips = form.calls_in(loop, "clip_grad_norm_", "clip_grad_value_")
        if len(clips) == 1 and form.is_statement(clips[0]) and form.are_neighbours(clips[0], step):
            first, clip, last = form.statement(backward), form.statement(clips[0]), form.statement(step)
            if first.lineno < clip.lineno < last.lineno and not form.calls_in(loop, "unscale_"):
                yield clip, first, last


@plants("retained-graph", also="lasting-sum")
def loss_summed_with_graph(form: Form) -> Iterator[list[Edit]]:
    """`total += loss.item()` of a training loop is written without `.item()`."""
    for total in form.nodes(ast.AugAssign):
        loop = form.loop(total)
        items = [call for call in form.calls_in(total, "item") if not call.args]
        if loop is None or len(items) != 1 or not isinstance(total.op, ast.Add):
            continue
        losses = {receiver(backward) for backward in form.calls_in(loop, "backward")}
        if receiver(items[0]) in losses and isinstance(items[0].func, ast.Attribute):
            yield [form.replace(items[0], HERE + form.code(items[0].func.value))]


@plants("detached-loss", also="missing-backward unchanged-parameters")
def loss_wrapped_again(form: Form) -> Iterator[list[Edit]]:
    """The loss becomes a new tensor with `requires_grad=True` before its backward pass."""
    for backward, _, _ in steps(form):
        loss = receiver(backward)
        if loss.isidentifier() and not backward.args and not backward.keywords:
            line = f"{loss} = torch.tensor({loss}.item(), requires_grad=True)"
            if form.says("import torch\n"):
                yield [form.before(form.statement(backward), HERE + line)]


@plants("detached-loss", also="missing-backward unchanged-parameters")
def output_detached(form: Form) -> Iterator[list[Edit]]:
    """The model's output is detached where the only loss of a loop is computed."""
    for backward, _, loop in steps(form):
        loss = receiver(backward)
        for statement in form.nodes(ast.Assign):
            if form.is_in(statement, loop) and ast.unparse(statement.targets[0]) == loss:
                value = statement.value
                written = sum(ast.unparse(each) == loss for each in ast.walk(loop) if isinstance(each, ast.Name))
                if isinstance(value, ast.Call) and len(value.args) == 2 and isinstance(value.args[0], ast.Name):
                    if is_loss(last_name(value.func)) and written >= 2 and _is_output(form, value.args[0].id, loop):
                        yield [form.replace(value.args[0], HERE + f"{value.args[0].id}.detach()")]


def is_loss(name: str) -> bool:
    """Whether a name is written as that of a loss function."""
    return any(word in name.lower() for word in ("criterion", "loss", "entropy", "objective"))


def _is_output(form: Form, name: str, loop: ast.AST) -> bool:
    """Whether a name is assigned the result of a model in this loop."""
    for statement in form.nodes(ast.Assign):
        if form.is_in(statement, loop) and ast.unparse(statement.targets[0]) == name:
            if isinstance(statement.value, ast.Call) and is_model(ast.unparse(statement.value.func)):
                return True
    return False


def is_model(name: str) -> bool:
    """Whether a name is written as that of a network."""
    return name.rsplit(".", 1)[-1].lower() in MODELS


MODELS = {"model", "net", "network", "classifier", "unet", "encoder", "transformer", "cnn", "vae", "generator"}


@plants("unscaled-accumulation")
def accumulation_not_divided(form: Form) -> Iterator[list[Edit]]:
    """`loss = loss / accumulation_steps` is removed."""
    statements: list[ast.Assign | ast.AugAssign] = [*form.nodes(ast.Assign), *form.nodes(ast.AugAssign)]
    for statement in statements:
        value = statement.value
        divisor = value.right if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) else value
        if "accum" in ast.unparse(divisor) and form.loop(statement) and form.is_alone(statement):
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            same = isinstance(statement, ast.AugAssign) or ast.unparse(value).startswith(f"{ast.unparse(target)} / ")
            backwards = [
                call for call in form.calls("backward") if ast.unparse(target) in receiver(call) + ast.unparse(call)
            ]
            near = [call for call in backwards if form.is_in(call, form.function(statement))]
            if same and near:
                yield [form.delete(statement), form.here(form.statement(near[0]))]


@plants("recreated-optimizer", also="stale-parameters")
def optimizer_made_each_epoch(form: Form) -> Iterator[list[Edit]]:
    """The line that creates Adam is moved into the loop over the epochs."""
    for made in form.assigned("Adam", "AdamW"):
        for loop in form.block(made):
            if isinstance(loop, ast.For) and loop.lineno > made.lineno and form.calls_in(loop, "step"):
                name = ast.unparse(made.targets[0])
                epochs = "epoch" in ast.unparse(loop.target).lower()
                between = [
                    node
                    for node in form.nodes(ast.Name)
                    if node.id == name and (made.end_lineno or 0) < node.lineno < loop.lineno
                ]
                inner = any(isinstance(each, ast.For) for each in ast.walk(loop) if each is not loop)
                if epochs and inner and name.isidentifier() and not between and form.is_alone(made):
                    yield [form.delete(made), form.before(loop.body[0], HERE + form.lines_of(made))]
                    break
