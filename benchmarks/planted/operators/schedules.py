"""Mistakes about what a schedule counts, reads and moves, about scaled gradients and groups of parameters."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, receiver
from benchmarks.planted.operators.loops import is_optimizer, steps
from benchmarks.planted.operators.optimizers import PER_BATCH, PER_EPOCH
from benchmarks.planted.planting import plants

OPTIMIZERS = ("Adam", "AdamW", "SGD", "RMSprop", "Adagrad", "RAdam", "NAdam", "Adamax")
BETTER_IF_HIGHER = re.compile(r"acc|f1|auc|bleu|dice|iou|recall|precision|psnr|ssim|reward", re.I)
WARMED = ("get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup", "get_scheduler")


def _plateaus(form: Form) -> Iterator[tuple[ast.Assign, ast.Call]]:
    """Each ReduceLROnPlateau with its only step, which gets a metric."""
    for made in form.assigned("ReduceLROnPlateau"):
        name = ast.unparse(made.targets[0])
        called = [call for call in form.calls("step") if receiver(call) == name]
        if len(called) == 1 and len(called[0].args) == 1 and not called[0].keywords and form.is_statement(called[0]):
            yield made, called[0]


@plants("plateau-without-metric")
def plateau_without_metric(form: Form) -> Iterator[list[Edit]]:
    """`scheduler.step(val_loss)` of ReduceLROnPlateau loses its metric."""
    for _, called in _plateaus(form):
        yield [form.replace(called.args[0], ""), form.here(called)]


@plants("wrong-metric-direction")
def plateau_of_higher_metric_lowers(form: Form) -> Iterator[list[Edit]]:
    """ReduceLROnPlateau, stepped with an accuracy, loses its `mode="max"`."""
    for made, called in _plateaus(form):
        call = made.value
        mode = form.argument(call, "mode") if isinstance(call, ast.Call) else None
        is_max = mode is not None and isinstance(mode.value, ast.Constant) and mode.value.value == "max"
        metric = ast.unparse(called.args[0])
        if is_max and isinstance(call, ast.Call) and BETTER_IF_HIGHER.search(metric) and "loss" not in metric:
            yield [form.drop_argument(call, "mode"), form.here(made), form.here(called)]


@plants("schedule-unit-mismatch", also="warmup-exceeds-training")
def schedule_of_one_epoch(form: Form) -> Iterator[list[Edit]]:
    """The steps of a schedule, `len(loader) * epochs`, lose their factor of epochs."""
    for made in form.assigned(*WARMED):
        call = made.value
        called = [each for each in form.calls("step") if receiver(each) == ast.unparse(made.targets[0])]
        if not isinstance(call, ast.Call) or len(called) != 1:
            continue
        loop = form.loop(called[0])
        outer = form.loop(loop) if loop is not None else None
        steps_of = _steps_of_schedule(form, call)
        product = _product(form, made, steps_of) if steps_of is not None and outer is not None else None
        if product is not None and "epoch" in ast.unparse(outer.target if isinstance(outer, ast.For) else made):
            length = product.left if "len(" in ast.unparse(product.left) else product.right
            yield [form.replace(product, form.code(length)), form.here(product), form.here(made)]


def _steps_of_schedule(form: Form, call: ast.Call) -> ast.expr | None:
    keyword = form.argument(call, "num_training_steps")
    if keyword is not None:
        return keyword.value
    return call.args[2] if len(call.args) > 2 and not ast.unparse(call.func).endswith("get_scheduler") else None


def _product(form: Form, made: ast.Assign, value: ast.expr) -> ast.BinOp | None:
    """`len(loader) * epochs`, as it is passed or as the only value of a name in the same function."""
    if isinstance(value, ast.Name):
        same = [
            each
            for each in form.nodes(ast.Assign)
            if form.function(each) is form.function(made) and ast.unparse(each.targets[0]) == value.id
        ]
        if len(same) != 1:
            return None
        value = same[0].value
    if not isinstance(value, ast.BinOp) or not isinstance(value.op, ast.Mult):
        return None
    sides = [ast.unparse(value.left), ast.unparse(value.right)]
    lengths = [side for side in sides if re.fullmatch(r"len\([\w.]*load[\w.]*\)", side, re.I)]
    epochs = [side for side in sides if re.fullmatch(r"[\w.]*epochs?(\(\))?", side, re.I)]
    return value if len(lengths) == len(epochs) == 1 else None


@plants("unstepped-scheduler", also="swapped-names")
def scheduler_of_other_optimizer(form: Form) -> Iterator[list[Edit]]:
    """The second of two schedulers gets the optimizer of the first."""
    made = [each for each in form.assigned(*PER_EPOCH, *PER_BATCH, "LambdaLR") if _optimizer(each) is not None]
    for index, other in enumerate(made):
        for one in made[:index]:
            first, second = _optimizer(one), _optimizer(other)
            names = {ast.unparse(one.targets[0]), ast.unparse(other.targets[0])}
            if first is None or second is None or len(names) != 2 or not form.are_neighbours(one, other):
                continue
            mine, its = ast.unparse(first), ast.unparse(second)
            if mine != its and is_optimizer(mine) and is_optimizer(its):
                if all(_has_step(form, name) for name in (*names, mine, its)):
                    yield [form.replace(second, HERE + form.code(first))]
                    break


def _optimizer(made: ast.Assign) -> ast.expr | None:
    value = made.value
    return value.args[0] if isinstance(value, ast.Call) and value.args else None


def _has_step(form: Form, name: str) -> bool:
    return any(receiver(call) == name for call in form.calls("step"))


@plants("missing-parameters")
def group_left_out(form: Form) -> Iterator[list[Edit]]:
    """The last of several groups `{"params": module.parameters()}` of an optimizer is left out."""
    for call in form.calls(*OPTIMIZERS):
        groups = call.args[0] if call.args else None
        if not isinstance(groups, ast.List) or len(groups.elts) < 2:
            continue
        owners = [_owner(each) for each in groups.elts]
        last = owners[-1]
        if (
            last
            and all(owners)
            and len(set(owners)) == len(owners)
            and not any(last.startswith(f"{each}.") for each in owners)
        ):
            uses = re.findall(re.escape(last) + r"\.(?:parameters|named_parameters|requires_grad_|eval)\(", form.text)
            if len(uses) == 1 and not form.says("requires_grad = False", "requires_grad=False"):
                kept = ", ".join(form.code(each) for each in groups.elts[:-1])
                yield [form.replace(groups, HERE + f"[{kept}]")]


def _owner(group: ast.expr) -> str:
    """`head` of `{"params": head.parameters(), …}`; empty for anything else."""
    if isinstance(group, ast.Dict):
        for key, value in zip(group.keys, group.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "params" and isinstance(value, ast.Call):
                if isinstance(value.func, ast.Attribute) and value.func.attr == "parameters":
                    return ast.unparse(value.func.value)
    return ""


@plants("missing-scaler-update", also="clip-before-unscale")
def scaled_gradients_stepped(form: Form) -> Iterator[list[Edit]]:
    """`scaler.step(optimizer)` becomes `optimizer.step()`; the loss is still scaled."""
    scaled = [call for call in form.calls("backward") if ".scale(" in receiver(call)]
    stepped = [call for call in form.calls("step") if "scaler" in receiver(call) and len(call.args) == 1]
    if len(scaled) == len(stepped) == 1 and not list(form.calls("unscale_")) and form.is_statement(stepped[0]):
        optimizer = stepped[0].args[0]
        plain = [call for call in form.calls("step") if receiver(call) == ast.unparse(optimizer)]
        if form.are_neighbours(scaled[0], stepped[0]) and not plain:
            yield [form.replace(stepped[0], HERE + f"{form.code(optimizer)}.step()")]


@plants("recreated-optimizer", also="schedule-unit-mismatch unstepped-scheduler")
def schedule_made_each_epoch(form: Form) -> Iterator[list[Edit]]:
    """The schedule is made once more in each epoch: its line is moved into the loop over the epochs."""
    for made in form.assigned("StepLR", "MultiStepLR", "CosineAnnealingLR"):
        name = ast.unparse(made.targets[0])
        called = [call for call in form.calls("step") if receiver(call) == name]
        for _, _, inner in steps(form):
            loop = form.loop(inner)
            block = form.block(made)
            if loop is None or loop not in block or made.lineno > loop.lineno or not form.is_alone(made):
                continue
            between = [
                each for each in form.nodes(ast.Name) if each.id == name and made.lineno < each.lineno < loop.lineno
            ]
            if len(called) == 1 and form.loop(called[0]) is loop and name.isidentifier() and not between:
                yield [form.delete(made), form.before(loop.body[0], HERE + form.lines_of(made))]
