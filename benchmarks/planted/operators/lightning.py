"""Mistakes in modules and trainers of Lightning."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, is_true, text_of
from benchmarks.planted.planting import plants


def _methods(form: Form, name: str) -> Iterator[ast.FunctionDef]:
    """The methods of this name in the modules of Lightning, without those of manual optimization."""
    for each in form.classes("LightningModule"):
        for method in each.body:
            if isinstance(method, ast.FunctionDef) and method.name == name:
                yield method


def _only_return(form: Form, method: ast.FunctionDef) -> ast.Return | None:
    """The return of a method that has one."""
    found = [each for each in form.nodes(ast.Return) if form.function(each) is method]
    return found[0] if len(found) == 1 and form.is_alone(found[0]) else None


def _automatic(form: Form) -> bool:
    return not form.says("automatic_optimization = False")


@plants("missing-optimizer", also="wrong-return forward-without-return")
def optimizer_not_returned(form: Form) -> Iterator[list[Edit]]:
    """`configure_optimizers` builds an optimizer and returns nothing."""
    for method in _methods(form, "configure_optimizers"):
        returned = _only_return(form, method)
        if returned is not None and len(method.body) > 1 and returned in method.body and _automatic(form):
            yield [form.here(method), form.delete(returned)]


@plants("detached-loss", also="forward-without-return wrong-return unused-batch missing-backward missing-step")
def training_step_returns_nothing(form: Form) -> Iterator[list[Edit]]:
    """`training_step` computes a loss and does not return it."""
    for method in _methods(form, "training_step"):
        returned = _only_return(form, method)
        if returned is not None and len(method.body) > 1 and returned in method.body and _automatic(form):
            yield [form.here(method), form.delete(returned)]


@plants("detached-loss")
def training_loss_detached(form: Form) -> Iterator[list[Edit]]:
    """`training_step` returns the loss without its graph."""
    for method in _methods(form, "training_step"):
        returned = _only_return(form, method)
        if (
            returned is not None
            and isinstance(returned.value, ast.Name)
            and "loss" in returned.value.id
            and _automatic(form)
        ):
            yield [form.here(returned), form.replace(returned.value, f"{returned.value.id}.detach()")]


@plants("detached-loss")
def training_loss_as_number(form: Form) -> Iterator[list[Edit]]:
    """`training_step` returns the loss as a number of Python."""
    for method in _methods(form, "training_step"):
        returned = _only_return(form, method)
        if (
            returned is not None
            and isinstance(returned.value, ast.Name)
            and "loss" in returned.value.id
            and _automatic(form)
        ):
            yield [form.here(returned), form.replace(returned.value, f"{returned.value.id}.item()")]


def _logged(form: Form) -> dict[str, ast.Call]:
    """The names that `self.log` writes out, each with its call."""
    found: dict[str, ast.Call] = {}
    for call in form.calls("log"):
        if receiver(call) in ("self", "model", "pl_module") and call.args and text_of(call.args[0]):
            found[text_of(call.args[0])] = call
    return found


@plants("unavailable-monitor")
def monitor_of_lightning_misspelt(form: Form) -> Iterator[list[Edit]]:
    """A callback of Lightning monitors a name that is not logged."""
    logged = _logged(form)
    for call in form.calls("ModelCheckpoint", "EarlyStopping"):
        given = argument(call, "monitor")
        if given is not None and text_of(given) in logged and form.says("lightning"):
            yield [form.here(call), form.replace(given, f'{HERE}"validation_{text_of(given)}"')]


@plants("unavailable-monitor")
def monitored_name_not_logged(form: Form) -> Iterator[list[Edit]]:
    """The value that a callback or a schedule monitors is logged by another name."""
    logged = _logged(form)
    watched = [argument(each, "monitor") for each in form.calls("ModelCheckpoint", "EarlyStopping")]
    watched += [each for made in form.nodes(ast.Dict) for each in _values(made, "monitor")]
    for name in sorted({text_of(each) for each in watched} & set(logged)):
        call = logged[name]
        if form.text.count(f'log("{name}"') + form.text.count(f"log('{name}'") == 1:
            places = [each for each in watched if each is not None and text_of(each) == name]
            yield [*map(form.here, places), form.here(call), form.replace(call.args[0], f'"{name}_of_epoch"')]


def _values(made: ast.Dict, name: str) -> list[ast.expr]:
    return [
        value for key, value in zip(made.keys, made.values, strict=True) if key is not None and text_of(key) == name
    ]


@plants("plateau-without-metric", also="missing-optimizer unavailable-monitor")
def plateau_without_monitor(form: Form) -> Iterator[list[Edit]]:
    """`configure_optimizers` returns a schedule that watches a metric, and not which."""
    if not form.says("ReduceLROnPlateau"):
        return
    for method in _methods(form, "configure_optimizers"):
        if "ReduceLROnPlateau" not in ast.unparse(method):
            continue
        for made in form.nodes(ast.Dict):
            if form.is_in(made, method) and _values(made, "monitor") and form.says("lightning"):
                kept = [(key, value) for key, value in zip(made.keys, made.values, strict=True)]
                pairs = [
                    f"{form.code(key)}: {form.code(value)}" for key, value in kept if key and text_of(key) != "monitor"
                ]
                yield [form.here(method), form.here(made), form.replace(made, "{" + ", ".join(pairs) + "}")]


@plants("unshuffled-training-data")
def training_loader_unshuffled(form: Form) -> Iterator[list[Edit]]:
    """The loader of the training rows does not shuffle them."""
    for method in form.functions():
        if method.name == "train_dataloader":
            for call in form.calls_in(method, "DataLoader"):
                given = argument(call, "shuffle")
                if given is not None and is_true(given):
                    yield [form.here(call), form.replace(given, f"{HERE}False")]


@plants("train-data-in-eval", also="overwritten-eval-data")
def training_rows_validated(form: Form) -> Iterator[list[Edit]]:
    """The loader of the validation reads the training rows."""
    for each in form.nodes(ast.ClassDef):
        methods = {method.name: method for method in each.body if isinstance(method, ast.FunctionDef)}
        if {"train_dataloader", "val_dataloader"} <= set(methods):
            given = [_rows(form, methods[name]) for name in ("train_dataloader", "val_dataloader")]
            train, held_out = given
            if train is not None and held_out is not None and form.code(train) != form.code(held_out):
                yield [form.here(methods["val_dataloader"]), form.replace(held_out, HERE + form.code(train))]


def _rows(form: Form, method: ast.FunctionDef) -> ast.expr | None:
    """The attribute of the only loader of a method."""
    calls = form.calls_in(method, "DataLoader")
    if len(calls) != 1:
        return None
    rows = argument(calls[0], "dataset") or next(iter(calls[0].args), None)
    return rows if isinstance(rows, ast.Attribute) else None


@plants("missing-backward", also="missing-step wrong-step-order")
def manual_backward_removed(form: Form) -> Iterator[list[Edit]]:
    """Manual optimization steps without a backward pass."""
    for method in _methods(form, "training_step"):
        backwards, steps = form.calls_in(method, "manual_backward"), form.calls_in(method, "step")
        if len(backwards) == 1 and steps and form.is_statement(backwards[0]):
            yield [form.delete(form.statement(backwards[0])), *map(form.here, steps), form.here(method)]


@plants("missing-step", also="unchanged-parameters missing-zero-grad")
def manual_step_removed(form: Form) -> Iterator[list[Edit]]:
    """Manual optimization computes gradients and does not step."""
    for method in _methods(form, "training_step"):
        steps = [each for each in form.calls_in(method, "step") if "sch" not in receiver(each).lower()]
        if len(steps) == 1 and form.calls_in(method, "manual_backward") and form.is_statement(steps[0]):
            yield [form.delete(form.statement(steps[0])), form.here(method)]


@plants("missing-zero-grad")
def manual_zero_grad_removed(form: Form) -> Iterator[list[Edit]]:
    """Manual optimization does not clear the gradients."""
    for method in _methods(form, "training_step"):
        clears = form.calls_in(method, "zero_grad")
        if len(clears) == 1 and form.calls_in(method, "manual_backward") and form.is_statement(clears[0]):
            yield [form.delete(form.statement(clears[0])), form.here(method)]


@plants("unknown-attribute")
def settings_not_saved(form: Form) -> Iterator[list[Edit]]:
    """A module reads `self.hparams`, and `save_hyperparameters()` is gone."""
    for each in form.classes("LightningModule"):
        saves = form.calls_in(each, "save_hyperparameters")
        reads = [
            one
            for one in form.nodes(ast.Attribute)
            if form.is_in(one, each) and ast.unparse(one.value) == "self.hparams"
        ]
        if len(saves) == 1 and form.is_statement(saves[0]) and reads:
            yield [form.delete(form.statement(saves[0])), form.here(form.statement(reads[0]))]


@plants("uncalled-method", also="missing-optimizer")
def optimizer_named_only(form: Form) -> Iterator[list[Edit]]:
    """`configure_optimizers` returns the class of the optimizer with no call."""
    for method in _methods(form, "configure_optimizers"):
        returned = _only_return(form, method)
        if (
            returned is not None
            and isinstance(returned.value, ast.Call)
            and last_name(returned.value.func) in ("Adam", "SGD", "AdamW")
        ):
            yield [form.here(method), form.replace(returned.value, form.code(returned.value.func))]
