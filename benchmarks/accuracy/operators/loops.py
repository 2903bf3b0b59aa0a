"""Mistakes in loops of one's own: gradients, steps, modes, clipping."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Code, Edit
from benchmarks.accuracy.finding import (
    backwards,
    calls_of,
    function_around,
    has_one_optimizer,
    method_calls,
    names_in,
    optimizer_steps,
)
from benchmarks.accuracy.mutants import injects

MODELS = ("model", "net", "module", "classifier")


@injects("missing-zero-grad", shows="gradients weights")
def forget_to_clear(code: Code) -> Iterator[list[Edit]]:
    """Delete the only `zero_grad` of a script that steps one optimizer."""
    if has_one_optimizer(code):
        (clear,) = code.calls("zero_grad")
        for backward in backwards(code)[:1]:
            yield [code.delete(code.statement(clear)), code.here(code.statement(backward))]


@injects("missing-step", shows="steps")
def forget_to_step(code: Code) -> Iterator[list[Edit]]:
    """Delete the only `optimizer.step()`."""
    if has_one_optimizer(code) and not list(code.calls("GradScaler")):
        (step,) = optimizer_steps(code)
        for backward in backwards(code)[:1]:
            yield [code.delete(code.statement(step)), code.here(code.statement(backward))]


@injects("missing-backward", shows="losses error")
def forget_to_go_backward(code: Code) -> Iterator[list[Edit]]:
    """Delete the only backward pass."""
    if has_one_optimizer(code) and len(backwards(code)) == 1:
        (backward,), (step,) = backwards(code), optimizer_steps(code)
        yield [code.delete(code.statement(backward)), code.here(code.statement(step))]


@injects("wrong-step-order", shows="gradients weights")
def clear_before_the_step(code: Code) -> Iterator[list[Edit]]:
    """Clear the gradients between the backward pass and the step."""
    if has_one_optimizer(code) and len(backwards(code)) == 1:
        (clear,) = map(code.statement, code.calls("zero_grad"))
        (backward,) = map(code.statement, backwards(code))
        if clear.lineno < backward.lineno and code.block(clear) == code.block(backward):
            yield [code.delete(clear), code.after(backward, HERE + code.lines_of(clear))]


@injects("clip-after-step", shows="clipping weights")
def clip_too_late(code: Code) -> Iterator[list[Edit]]:
    """Clip when the step is done."""
    for clip, step in _clips_and_steps(code):
        yield [code.delete(clip), code.after(step, HERE + code.lines_of(clip))]


@injects("clip-before-backward", shows="clipping error")
def clip_too_early(code: Code) -> Iterator[list[Edit]]:
    """Clip before there are gradients."""
    for clip, step in _clips_and_steps(code):
        backward = next((one for one in map(code.statement, backwards(code)) if one in code.block(step)), None)
        if backward and not list(method_calls(code, "unscale_")):
            yield [code.delete(clip), code.before(backward, HERE + code.lines_of(clip))]


def _clips_and_steps(code: Code) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    clips = [code.statement(call) for call in code.calls("clip_grad_norm_", "clip_grad_value_")]
    steps = [code.statement(call) for call in optimizer_steps(code)]
    for clip in clips:
        for step in steps:
            if code.block(clip) == code.block(step):
                yield clip, step


@injects("clip-before-unscale", shows="clipping weights")
def clip_scaled_gradients(code: Code) -> Iterator[list[Edit]]:
    """Forget `unscale_` before clipping."""
    for unscale in method_calls(code, "unscale_"):
        for clip in code.calls("clip_grad_norm_"):
            yield [code.delete(code.statement(unscale)), code.here(code.statement(clip))]


@injects("missing-scaler-update", shows="error")
def forget_to_update_the_scaler(code: Code) -> Iterator[list[Edit]]:
    """Delete `scaler.update()`."""
    for update in method_calls(code, "update", "scaler"):
        for step in method_calls(code, "step", "scaler"):
            yield [code.delete(code.statement(update)), code.here(code.statement(step))]


@injects("retained-graph", shows="memory")
def keep_the_loss_tensor(code: Code) -> Iterator[list[Edit]]:
    """Sum up or collect losses with their graphs."""
    for item in method_calls(code, "item", "loss"):
        statement = code.statement(item)
        is_kept = isinstance(statement, ast.AugAssign) and statement.value is item
        is_collected = isinstance(statement, ast.Expr) and ".append(" in code.code(statement)
        if (is_kept or is_collected) and isinstance(item.func, ast.Attribute) and code.loops(item):
            if not _is_without_gradients(code, item) and not _is_emptied(code, statement):
                yield [code.here(statement), code.replace(item, code.code(item.func.value))]


def _is_emptied(code: Code, statement: ast.stmt) -> bool:
    """Whether the same loop sets a sum back, and with it lets go of all graphs."""
    if not isinstance(statement, ast.AugAssign):
        return False
    loop = code.loops(statement)[0]
    resets = (node for node in ast.walk(loop) if isinstance(node, ast.Assign))
    return any(ast.unparse(each.targets[0]) == ast.unparse(statement.target) for each in resets)


def _is_without_gradients(code: Code, node: ast.AST) -> bool:
    around = [outer for outer in code.ancestors(node) if isinstance(outer, ast.With | ast.FunctionDef)]
    return any("no_grad" in code.text.split("\n")[outer.lineno - 1] for outer in around) or any(
        "no_grad" in ast.unparse(decorator)
        for outer in around
        if isinstance(outer, ast.FunctionDef)
        for decorator in outer.decorator_list
    )


@injects("eval-mode-in-training", shows="modes")
def stay_in_eval_mode(code: Code) -> Iterator[list[Edit]]:
    """Delete `model.train()`, where an evaluation inside the same loop sets eval mode."""
    trains = list(method_calls(code, "train", *MODELS))
    for leave in method_calls(code, "eval", *MODELS):
        for train in trains:
            loops = code.loops(train)
            if len(trains) == 1 and loops and set(loops) & set(code.loops(leave)) and _may_differ(code):
                yield [code.delete(code.statement(train)), code.here(code.statement(leave))]


@injects("train-mode-in-eval", shows="modes")
def stay_in_train_mode(code: Code) -> Iterator[list[Edit]]:
    """Delete `model.eval()` of an evaluation without gradients."""
    for leave in method_calls(code, "eval", *MODELS):
        passes = [call for call in calls_of(code, *MODELS) if _is_without_gradients(code, call)]
        same = [call for call in passes if function_around(code, call) is function_around(code, leave)]
        if same and _may_differ(code):
            yield [code.delete(code.statement(leave)), *(code.here(code.statement(call)) for call in same)]


def _may_differ(code: Code) -> bool:
    """Whether the model does not do the same in both modes."""
    return names_in(code, "Dropout", "BatchNorm", "from_pretrained")


@injects("missing-no-grad", shows="modes")
def evaluate_with_gradients(code: Code) -> Iterator[list[Edit]]:
    """Evaluate outside `no_grad`, batch after batch: the graph of one pass alone is gone with its name."""
    for block in code.nodes(ast.With):
        if "no_grad" in code.code(block.items[0].context_expr) and len(block.items) == 1:
            passes = [call for call in calls_of(code, *MODELS) if block in code.ancestors(call)]
            if any(_is_one_of_many(code, call) for call in passes):
                context = block.items[0].context_expr
                start = code.span(block)[0]
                marks = [code.here(code.statement(call)) for call in passes]
                yield [Edit(start, code.span(context)[1], "if True"), *marks]


def _is_one_of_many(code: Code, call: ast.Call) -> bool:
    """Whether a pass stands in a function, or in a loop that does not train: over batches, not over epochs."""
    trains = [loop for backward in backwards(code) for loop in code.loops(backward)]
    loops = code.loops(call)
    return function_around(code, call) is not None or (bool(loops) and loops[0] not in trains)


@injects("detached-loss", shows="weights")
def rebuild_the_loss(code: Code) -> Iterator[list[Edit]]:
    """Make a new tensor of the loss's value."""
    for backward in backwards(code):
        statement = code.statement(backward)
        if code.code(statement) == "loss.backward()" and "import torch" in code.text and code.loops(backward):
            yield [code.before(statement, f"{HERE}loss = torch.tensor(loss.item(), requires_grad=True)")]


@injects("unscaled-accumulation", shows="losses gradients")
def gather_without_dividing(code: Code) -> Iterator[list[Edit]]:
    """Leave out the division of an accumulated loss."""
    for division in code.nodes(ast.BinOp):
        if isinstance(division.op, ast.Div) and "GATHERED" in code.code(division.right):
            marks = [code.here(code.statement(backward)) for backward in backwards(code)]
            if code.code(division.left).endswith("loss"):
                yield [code.replace(division, code.code(division.left)), *marks]
