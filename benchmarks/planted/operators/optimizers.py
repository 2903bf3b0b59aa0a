"""Mistakes about optimizers, schedules, precision and launchers."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, number, receiver
from benchmarks.planted.operators.loops import steps
from benchmarks.planted.planting import plants

PER_EPOCH = ("StepLR", "MultiStepLR", "ExponentialLR", "ReduceLROnPlateau", "CosineAnnealingLR")
PER_BATCH = ("get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup", "OneCycleLR", "get_scheduler")


@plants("high-learning-rate")
def rate_times_thousand(form: Form) -> Iterator[list[Edit]]:
    """The learning rate of Adam is a thousand times as high."""
    for call in form.calls("Adam", "AdamW"):
        keyword = form.argument(call, "lr")
        rate = number(keyword.value) if keyword is not None else None
        if keyword is not None and rate is not None and 1e-5 <= rate <= 1e-2:
            yield [form.replace(keyword.value, HERE + f"{rate * 1000:g}")]


@plants("missing-parameters", also="duplicated-parameters")
def parameters_of_another_module(form: Form) -> Iterator[list[Edit]]:
    """The second of two optimizers gets the parameters of the first one's module."""
    made = [each for each in form.assigned("Adam", "AdamW", "SGD", "RMSprop") if _parameters(each) is not None]
    for one, other in pairwise(made):
        first, second = _parameters(one), _parameters(other)
        if first is not None and second is not None and form.are_neighbours(one, other):
            if ast.unparse(first) != ast.unparse(second):
                yield [form.replace(second, HERE + form.code(first))]


def _parameters(made: ast.Assign) -> ast.expr | None:
    value = made.value
    if isinstance(value, ast.Call) and value.args and isinstance(value.args[0], ast.Call):
        call = value.args[0]
        if isinstance(call.func, ast.Attribute) and call.func.attr == "parameters":
            return call.func.value
    return None


@plants("unstepped-scheduler")
def scheduler_never_stepped(form: Form) -> Iterator[list[Edit]]:
    """The only `scheduler.step()` is removed."""
    for made in form.assigned(*PER_EPOCH, *PER_BATCH):
        name = ast.unparse(made.targets[0])
        called = _steps_of(form, name)
        uses = form.text.count(name.rsplit(".", 1)[-1])
        if len(called) == 1 and form.is_statement(called[0]) and uses <= 4:
            yield [form.delete(form.statement(called[0])), form.here(made)]


def _steps_of(form: Form, name: str) -> list[ast.Call]:
    return [call for call in form.calls("step") if receiver(call) == name]


@plants("schedule-unit-mismatch", also="overrun-one-cycle multiplied-scheduler-steps warmup-exceeds-training")
def epoch_schedule_per_batch(form: Form) -> Iterator[list[Edit]]:
    """A schedule counted in epochs is stepped after each batch."""
    for made in form.assigned("StepLR", "MultiStepLR", "CosineAnnealingLR"):
        called = _steps_of(form, ast.unparse(made.targets[0]))
        for _, step, loop in steps(form):
            outer = form.loop(loop)
            if (
                len(called) == 1
                and outer is not None
                and form.loop(called[0]) is outer
                and form.is_statement(called[0])
            ):
                moved = form.statement(called[0])
                if moved.lineno > loop.lineno and not called[0].args and not form.text.count("len(") > 40:
                    yield [form.delete(moved), form.after(form.statement(step), HERE + form.lines_of(moved))]


@plants("schedule-unit-mismatch")
def batch_schedule_per_epoch(form: Form) -> Iterator[list[Edit]]:
    """A schedule counted in batches is stepped after each epoch."""
    for made in form.assigned("get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup", "OneCycleLR"):
        called = _steps_of(form, ast.unparse(made.targets[0]))
        for _, step, loop in steps(form):
            outer = form.loop(loop)
            if len(called) == 1 and outer is not None and form.loop(called[0]) is loop and form.is_statement(called[0]):
                moved = form.statement(called[0])
                if form.are_neighbours(called[0], step):
                    yield [form.delete(moved), form.after(loop, HERE + form.lines_of(moved))]


@plants("scheduler-before-optimizer")
def scheduler_first(form: Form) -> Iterator[list[Edit]]:
    """`scheduler.step()` is moved above `optimizer.step()`."""
    for _, step, loop in steps(form):
        for called in form.calls_in(loop, "step"):
            if "sched" in receiver(called).lower() and form.is_statement(called) and form.are_neighbours(called, step):
                if called.lineno > step.lineno:
                    moved = form.statement(called)
                    yield [form.delete(moved), form.before(form.statement(step), HERE + form.lines_of(moved))]
                    break


@plants("clip-before-unscale")
def unscale_removed(form: Form) -> Iterator[list[Edit]]:
    """`scaler.unscale_(optimizer)` before the clipping is removed."""
    for call in form.calls("unscale_"):
        loop = form.loop(call)
        clips = form.calls_in(loop, "clip_grad_norm_", "clip_grad_value_") if loop is not None else []
        if form.is_statement(call) and len(clips) == 1 and form.are_neighbours(call, clips[0]):
            yield [form.delete(form.statement(call)), form.here(form.statement(clips[0]))]


@plants("missing-scaler-update")
def scaler_update_removed(form: Form) -> Iterator[list[Edit]]:
    """`scaler.update()` is removed, in the file that makes the scaler."""
    for call in form.calls("update") if any(True for _ in form.calls("GradScaler")) else ():
        if "scaler" in receiver(call) and form.is_statement(call) and not call.args:
            same = [each for each in form.calls("step") if receiver(each) == receiver(call)]
            if len(same) == 1 and len([each for each in form.calls("update") if receiver(each) == receiver(call)]) == 1:
                yield [form.delete(form.statement(call)), form.here(form.statement(same[0]))]


@plants("autocast-without-scaler", also="missing-scaler-update missing-backward missing-step")
def loss_not_scaled(form: Form) -> Iterator[list[Edit]]:
    """`scaler.scale(loss).backward()` becomes `loss.backward()`, and `scaler.step(optimizer)` the optimizer's own."""
    scaled = [call for call in form.calls("backward") if ".scale(" in receiver(call)]
    for call in scaled if any(True for _ in form.calls("autocast")) else ():
        steps_of = [each for each in form.calls("step") if "scaler" in receiver(each) and len(each.args) == 1]
        updates = [each for each in form.calls("update") if "scaler" in receiver(each) and form.is_statement(each)]
        if len(scaled) == len(steps_of) == len(updates) == 1 and isinstance(call.func, ast.Attribute):
            inner = call.func.value
            if isinstance(inner, ast.Call) and len(inner.args) == 1 and not list(form.calls("unscale_")):
                optimizer = form.code(steps_of[0].args[0])
                yield [
                    form.replace(call, HERE + f"{form.code(inner.args[0])}.backward()"),
                    form.replace(steps_of[0], f"{optimizer}.step()"),
                    form.delete(form.statement(updates[0])),
                ]


@plants("plain-backward")
def backward_without_accelerator(form: Form) -> Iterator[list[Edit]]:
    """`accelerator.backward(loss)` becomes `loss.backward()`."""
    for call in form.calls("backward"):
        if receiver(call).rsplit(".", 1)[-1] in {"accelerator", "fabric"} and len(call.args) == 1:
            loss = form.code(call.args[0])
            whole = (
                loss if isinstance(call.args[0], ast.Name | ast.Attribute | ast.Subscript | ast.Call) else f"({loss})"
            )
            yield [form.replace(call, HERE + f"{whole}.backward()")]


@plants("unprepared-object", also="undivided-rows mixed-devices")
def argument_not_prepared(form: Form) -> Iterator[list[Edit]]:
    """An optimizer or loader is left out of `accelerator.prepare`, on both sides of the assignment."""
    for call in form.calls("prepare"):
        statement = form.parent(call)
        if "accelerator" not in receiver(call) or not isinstance(statement, ast.Assign) or call.keywords:
            continue
        (target,) = statement.targets[:1]
        if isinstance(target, ast.Tuple) and len(target.elts) == len(call.args) > 2:
            for index, argument in enumerate(call.args):
                name = ast.unparse(argument)
                if ast.unparse(target.elts[index]) == name and ("optim" in name or "train" in name):
                    left = ", ".join(form.code(each) for i, each in enumerate(target.elts) if i != index)
                    right = ", ".join(form.code(each) for i, each in enumerate(call.args) if i != index)
                    yield [form.replace(statement, HERE + f"{left} = {form.code(call.func)}({right})")]
                    break


@plants("missing-set-epoch")
def set_epoch_removed(form: Form) -> Iterator[list[Edit]]:
    """`sampler.set_epoch(epoch)` of a distributed sampler is removed."""
    calls = list(form.calls("set_epoch"))
    samplers = list(form.calls("DistributedSampler"))
    if len(calls) == 1 and samplers and form.is_statement(calls[0]):
        loop = form.loop(calls[0])
        if loop is not None:
            yield [form.delete(form.statement(calls[0])), form.here(loop), form.here(form.statement(samplers[0]))]


@plants("mixed-devices")
def labels_left_on_cpu(form: Form) -> Iterator[list[Edit]]:
    """`labels = labels.to(device)` of a training loop is removed; inputs and model are still moved."""
    for statement in form.nodes(ast.Assign):
        value, loop = statement.value, form.loop(statement)
        if loop is None or not isinstance(value, ast.Call) or last_name(value.func) not in {"to", "cuda"}:
            continue
        name = ast.unparse(statement.targets[0])
        if (
            receiver(value) == name
            and name in {"labels", "target", "targets", "y", "label"}
            and form.is_alone(statement)
        ):
            moved = [each for each in form.calls_in(loop, "to", "cuda") if each is not value]
            losses = [call for call in form.nodes(ast.Call) if form.is_in(call, loop) and len(call.args) == 2]
            uses = [call for call in losses if ast.unparse(call.args[1]) == name]
            if moved and uses and form.calls_in(loop, "backward"):
                yield [form.delete(statement), form.here(form.statement(uses[0]))]


@plants("mixed-devices")
def model_left_on_cpu(form: Form) -> Iterator[list[Edit]]:
    """`.to(device)` of the model is removed; the batches are still moved."""
    for call in form.calls("to", "cuda"):
        parent = form.parent(call)
        moved = [each for each in form.calls("to", "cuda") if each is not call and form.loop(each) is not None]
        if not moved or not isinstance(call.func, ast.Attribute) or form.loop(call) is not None:
            continue
        if not form.calls_in(form.tree, "backward"):
            continue
        made = form.code(call.func.value)
        if isinstance(parent, ast.Assign) and ast.unparse(parent.targets[0]).rsplit(".")[-1] in {"model", "net"}:
            if sum(receiver(each) == made for each in form.calls("to", "cuda")) == 1 and _is_made_here(form, call):
                if made != ast.unparse(parent.targets[0]):
                    yield [form.replace(call, HERE + made)]
                elif form.is_alone(parent) and len(form.block(parent)) > 1:
                    yield [form.delete(parent), *map(form.here, _givers(form, call, made)[:1])]


def _is_made_here(form: Form, move: ast.Call) -> bool:
    """Whether a network is made where it is moved, or by the only assignment of its name: nothing moved it before."""
    made = move.func.value if isinstance(move.func, ast.Attribute) else move
    if isinstance(made, ast.Call):
        return True
    values = [each.value for each in _givers(form, move, ast.unparse(made))[:1]]
    return [isinstance(each, ast.Call) and last_name(each.func) not in {"to", "cuda"} for each in values] == [True]


def _givers(form: Form, move: ast.Call, name: str) -> list[ast.Assign]:
    """The assignments that give something to a name, in the function of a move."""
    given = [each for each in form.nodes(ast.Assign) if form.function(each) is form.function(move)]
    return [each for each in given if any(ast.unparse(target) == name for target in each.targets)]


@plants("stale-parameters", also="mixed-devices missing-parameters")
def head_after_optimizer(form: Form) -> Iterator[list[Edit]]:
    """`model.fc = nn.Linear(…)` is moved below the optimizer that gets the model's parameters."""
    for made in form.assigned("Linear", "Sequential"):
        target = ast.unparse(made.targets[0])
        model = target.split(".")[0]
        if target.count(".") != 1 or model == "self" or not form.is_alone(made):
            continue
        for other in form.assigned("Adam", "AdamW", "SGD"):
            parameters = _parameters(other)
            if parameters is not None and ast.unparse(parameters) == model and form.are_neighbours(made, other):
                if other.lineno > made.lineno:
                    yield [form.delete(made), form.after(other, form.lines_of(made)), form.here(other)]
