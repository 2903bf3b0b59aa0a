"""Mistakes in how Lightning runs a module: its hooks, callbacks, schedules, metrics, loaders and checkpoints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, text_of, without
from benchmarks.planted.planting import plants

HIGHER = re.compile(r"acc|f1|auc|auroc|iou|dice|precision|recall|psnr|ssim", re.IGNORECASE)
MONITORS = ("ModelCheckpoint", "EarlyStopping")


def _method(form: Form, name: str) -> Iterator[ast.FunctionDef]:
    """The methods of this name in the modules of Lightning, in files whose optimization is automatic."""
    if not form.says("automatic_optimization = False"):
        for each in form.classes("LightningModule"):
            found = [one for one in each.body if isinstance(one, ast.FunctionDef) and one.name == name]
            yield from found if len(found) == 1 else ()


def _renamed(form: Form, method: ast.FunctionDef, name: str) -> Edit:
    """The name of a method in its definition becomes another."""
    start = form.text.index(method.name, form.text.index("def ", form.span(method)[0]) + 4)
    return Edit(start, start + len(method.name), name)


@plants("misspelled-method", also="missing-optimizer")
def optimizers_hook_misspelt(form: Form) -> Iterator[list[Edit]]:
    """`configure_optimizers` is called `configure_optimizer`, so nothing is trained."""
    for method in _method(form, "configure_optimizers"):
        if form.text.count("configure_optimizers") == 1:
            yield [form.here(method), _renamed(form, method, "configure_optimizer")]


@plants("misspelled-method", also="unavailable-monitor")
def validation_hook_misspelt(form: Form) -> Iterator[list[Edit]]:
    """`validation_step` is called `val_step`, so no batch is ever validated."""
    for method in _method(form, "validation_step"):
        if form.text.count("validation_step") == 1 and not form.says("val_step"):
            yield [form.here(method), _renamed(form, method, "val_step")]


@plants("discarded-load")
def checkpoint_loaded_into_nothing(form: Form) -> Iterator[list[Edit]]:
    """The module of `load_from_checkpoint` is not kept, and the untrained one is used."""
    for statement in form.assigned("load_from_checkpoint"):
        name, call = ast.unparse(statement.targets[0]), statement.value
        earlier = [
            each
            for each in form.nodes(ast.Assign)
            if ast.unparse(each.targets[0]) == name and each.lineno < statement.lineno
        ]
        is_near = any(form.function(each) is form.function(statement) for each in earlier)
        if is_near and isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and form.is_alone(statement):
            text = HERE + form.code(call).replace(form.code(call.func.value), name, 1)
            yield [form.replace(statement, text)]


@plants("plain-backward", also="freed-graph")
def backward_in_automatic_step(form: Form) -> Iterator[list[Edit]]:
    """`training_step` calls `loss.backward()`, and Lightning does so again."""
    for method in _method(form, "training_step"):
        last = method.body[-1]
        if isinstance(last, ast.Return) and isinstance(last.value, ast.Name) and "loss" in last.value.id:
            if form.is_alone(last) and not form.calls_in(method, "backward", "manual_backward"):
                yield [form.here(last), form.before(last, f"{last.value.id}.backward()")]


@plants("schedule-unit-mismatch")
def schedule_of_steps_per_epoch(form: Form) -> Iterator[list[Edit]]:
    """A schedule whose length counts steps is advanced once in each epoch: its interval is left out."""
    steps = ("OneCycleLR", "get_linear_schedule_with_warmup", "get_cosine_schedule_with_warmup")
    for method in _method(form, "configure_optimizers"):
        for made in form.nodes(ast.Dict):
            held = {text_of(key): value for key, value in zip(made.keys, made.values, strict=True) if key is not None}
            if form.is_in(made, method) and text_of(held.get("interval")) == "step":
                if form.calls_in(method, *steps) and None not in made.keys:
                    pairs = [
                        f"{form.code(key)}: {form.code(value)}"
                        for key, value in zip(made.keys, made.values, strict=True)
                        if key is not None and text_of(key) != "interval"
                    ]
                    yield [form.here(method), form.here(made), form.replace(made, "{" + ", ".join(pairs) + "}")]


@plants("contradictory-settings", also="ineffective-setting")
def development_run_left_on(form: Form) -> Iterator[list[Edit]]:
    """The trainer of a long training runs one batch: `fast_dev_run=True` is left in."""
    for call in _trainers(form):
        epochs = argument(call, "max_epochs")
        if isinstance(epochs, ast.Constant) and isinstance(epochs.value, int) and epochs.value > 3:
            if argument(call, "fast_dev_run") is None and form.says("ModelCheckpoint"):
                yield [form.here(call), without(form, call, add="fast_dev_run=True")]


def _trainers(form: Form) -> Iterator[ast.Call]:
    """The calls that build a trainer of Lightning."""
    if form.says("lightning"):
        yield from (call for call in form.calls("Trainer") if not any(each.arg is None for each in call.keywords))


@plants("wrong-metric-direction")
def mode_of_monitor_left_out(form: Form) -> Iterator[list[Edit]]:
    """A callback keeps the checkpoint with the lowest accuracy: `mode="max"` is left out."""
    for call in form.calls(*MONITORS) if form.says("lightning") else ():
        watched, mode = text_of(argument(call, "monitor")), text_of(argument(call, "mode"))
        if mode == "max" and HIGHER.search(watched) and "loss" not in watched:
            yield [form.here(call), without(form, call, "mode")]


@plants("train-data-in-eval", also="swapped-names overwritten-eval-data")
def loaders_of_fit_swapped(form: Form) -> Iterator[list[Edit]]:
    """`trainer.fit` gets the loader of the validation first: the model is trained on the held-out rows."""
    for call in form.calls("fit"):
        if "trainer" in receiver(call) and form.says("lightning") and len(call.args) == 3:
            train, held_out = call.args[1:]
            if re.search("train", form.code(train)) and re.search("val|test|dev", form.code(held_out)):
                if last_name(train) and last_name(held_out):
                    first, second = form.code(held_out), form.code(train)
                    yield [form.here(call), form.replace(train, first), form.replace(held_out, second)]
