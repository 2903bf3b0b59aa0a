"""Mistakes about modes that are set at the wrong time, or that a layer does not follow."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, receiver
from benchmarks.planted.planting import plants


def _calls_of_mode(form: Form, name: str) -> list[ast.Call]:
    """The calls of `model.train()` or `model.eval()` that are statements."""
    calls = [call for call in form.calls(name) if receiver(call) and form.is_statement(call)]
    return [call for call in calls if not call.args and not call.keywords]


@plants("eval-mode-in-training")
def train_before_epochs(form: Form) -> Iterator[list[Edit]]:
    """`model.train()` of each epoch is moved above the loop, which also evaluates with `model.eval()`."""
    trains = _calls_of_mode(form, "train")
    if len(trains) != 1:
        return
    (train,) = trains
    loop = form.loop(train)
    if loop is None or form.statement(train) not in loop.body or not form.calls_in(loop, "backward"):
        return
    evals = [each for each in _calls_of_mode(form, "eval") if receiver(each) == receiver(train)]
    if any(form.is_in(each, loop) and each.lineno > train.lineno for each in evals):
        statement = form.statement(train)
        backward = form.statement(form.calls_in(loop, "backward")[0])
        yield [form.before(loop, form.lines_of(statement)), form.delete(statement), form.here(backward)]


@plants("eval-mode-in-training")
def train_not_restored(form: Form) -> Iterator[list[Edit]]:
    """`model.train()` after an evaluation in the middle of a training loop is removed."""
    for train in _calls_of_mode(form, "train"):
        loop = form.loop(train)
        backwards = [call for call in form.calls("backward") if loop is not None and form.loop(call) is loop]
        if loop is None or not backwards:
            continue
        same = [each for each in _calls_of_mode(form, "train") if form.is_in(each, loop)]
        evals = [each for each in _calls_of_mode(form, "eval") if receiver(each) == receiver(train)]
        before = [each for each in evals if form.are_neighbours(train, each) and each.lineno < train.lineno]
        if len(same) == 1 and before:
            yield [form.delete(form.statement(train)), form.here(form.statement(before[0]))]


@plants("dropout-in-evaluation")
def dropout_as_function(form: Form) -> Iterator[list[Edit]]:
    """`self.dropout(x)` of a network becomes `F.dropout(x, 0.5)`, which the mode does not switch off."""
    if not form.says("import torch.nn.functional as F", "from torch.nn import functional as F"):
        return
    for made in form.assigned("Dropout"):
        name, owner = ast.unparse(made.targets[0]), form.class_of(made)
        if owner is not None and name.startswith("self."):
            uses = [call for call in form.nodes(ast.Call) if ast.unparse(call.func) == name and form.is_in(call, owner)]
            if len(uses) == 1 and len(uses[0].args) == 1 and getattr(form.function(uses[0]), "name", "") == "forward":
                yield [form.replace(uses[0], f"{HERE}F.dropout({form.code(uses[0].args[0])}, 0.5)")]
