"""Mistakes about the mode of a model and about gradients in an evaluation."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.planting import plants

EVALUATES = re.compile(r"(^|_)(val|valid|validate|validation|eval|evaluate|evaluation|test|evaluator)(_|$)", re.I)
LOADER = re.compile(r"load|iter|batch|_dl\b|data", re.I)


def _evaluations(form: Form) -> Iterator[ast.FunctionDef]:
    """Functions named as an evaluation that go through batches and train nothing."""
    for function in form.functions():
        if EVALUATES.search(function.name) and not form.calls_in(function, "backward", "step"):
            loops = [each for each in ast.walk(function) if isinstance(each, ast.For)]
            if any(LOADER.search(ast.unparse(loop.iter)) for loop in loops):
                yield function


def _trains(form: Form) -> bool:
    return any(True for _ in form.calls("backward"))


@plants("train-mode-in-eval")
def eval_removed(form: Form) -> Iterator[list[Edit]]:
    """`model.eval()` is removed from a function that evaluates, in a file that trains."""
    for function in _evaluations(form):
        calls = [call for call in form.calls_in(function, "eval") if not call.args]
        if len(calls) == 1 and form.is_statement(calls[0]) and _trains(form):
            if len([call for call in form.calls("eval") if not call.args]) == 1:
                yield [form.delete(form.statement(calls[0])), form.here(function)]


@plants("train-mode-in-eval")
def eval_removed_in_loop(form: Form) -> Iterator[list[Edit]]:
    """`model.eval()` between the training and the validation of an epoch is removed."""
    for call in form.calls("eval"):
        loop = form.loop(call)
        if call.args or loop is None or not form.is_statement(call) or not form.calls_in(loop, "backward"):
            continue
        statement, block = form.statement(call), form.block(form.statement(call))
        trains = [each for each in form.calls_in(loop, "train") if receiver(each) == receiver(call)]
        later = [each for each in block if each.lineno > statement.lineno and isinstance(each, ast.For | ast.With)]
        alone = len([each for each in form.calls("eval") if not each.args]) == 1
        if alone and trains and later and all(each.lineno < call.lineno for each in trains):
            yield [form.delete(statement), form.here(later[0])]


@plants("eval-mode-in-training")
def train_removed(form: Form) -> Iterator[list[Edit]]:
    """`model.train()` at the start of each epoch is removed, though the evaluation calls `model.eval()`."""
    trains = [call for call in form.calls("train") if _sets_mode(form, call)]
    evals = [call for call in form.calls("eval") if not call.args]
    if len(trains) != 1 or not evals or not _trains(form):
        return
    (train,) = trains
    loop = form.loop(train)
    around = loop if loop is not None else form.function(train)
    if form.calls_in(around, "backward") and not isinstance(around, ast.Module) and _has_modes(form):
        same = [call for call in evals if receiver(call).split(".")[-1] == receiver(train).split(".")[-1]]
        if any(_is_evaluated_in(form, loop, same) for loop in _loops_that_train(form, around)):
            backward = form.calls_in(around, "backward")[0]
            yield [form.delete(form.statement(train)), form.here(form.statement(backward))]


def _sets_mode(form: Form, call: ast.Call) -> bool:
    return not call.args and not call.keywords and form.is_statement(call) and bool(receiver(call))


def _has_modes(form: Form) -> bool:
    """Whether the networks of a file may differ between the modes: it defines none, or names what does."""
    return form.says("Dropout", "dropout", "BatchNorm") or not form.says("Module)")


def _loops_that_train(form: Form, around: ast.AST) -> list[ast.AST]:
    """The loops over epochs: the one that trains, or those that call the function that does."""
    if not isinstance(around, ast.FunctionDef):
        return [around]
    return [loop for call in form.calls(around.name) if (loop := form.loop(call)) is not None]


def _is_evaluated_in(form: Form, loop: ast.AST, evals: list[ast.Call]) -> bool:
    """Whether a loop sets eval mode, itself or in a function of the file that it calls."""
    functions = [form.function(call) for call in evals]
    called = {last_name(call.func) for call in form.nodes(ast.Call) if form.is_in(call, loop)}
    return any(form.is_in(call, loop) for call in evals) or any(
        isinstance(each, ast.FunctionDef) and each.name in called for each in functions
    )


@plants("missing-no-grad", also="retained-graph")
def no_grad_unwrapped(form: Form) -> Iterator[list[Edit]]:
    """`with torch.no_grad():` around the loop of an evaluation becomes `if True:`."""
    for each in form.nodes(ast.With):
        if len(each.items) != 1 or not _is_no_grad(each.items[0].context_expr):
            continue
        loops = [loop for loop in ast.walk(each) if isinstance(loop, ast.For) and LOADER.search(ast.unparse(loop.iter))]
        outer = form.loop(each)
        goes_on = bool(loops) or (outer is not None and LOADER.search(ast.unparse(getattr(outer, "iter", outer))))
        function = form.function(each)
        decorated = isinstance(function, ast.FunctionDef) and function.decorator_list
        if goes_on and not decorated and _trains(form) and not form.calls_in(function, "detach", "set_grad_enabled"):
            evaluates = bool(form.calls_in(function, "eval"))
            if evaluates and not _is_inside_no_grad(form, each) and _forwards(each):
                yield [
                    form.replace(each.items[0].context_expr, "contextlib.nullcontext()"),
                    form.here(each),
                    *_import(form),
                ]


def _import(form: Form) -> list[Edit]:
    imports = [each for each in form.tree.body if isinstance(each, ast.Import | ast.ImportFrom)]
    late = [each for each in imports if not (isinstance(each, ast.ImportFrom) and each.module == "__future__")]
    return [form.before(late[0], "import contextlib")] if late else []


def _forwards(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call) and ast.unparse(each.func).split(".")[-1].lower() in {"model", "net", "network"}
        for each in ast.walk(node)
    )


def _is_no_grad(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and ast.unparse(node.func) in {"torch.no_grad", "torch.inference_mode", "no_grad"}


def _is_inside_no_grad(form: Form, node: ast.AST) -> bool:
    return any(
        isinstance(outer, ast.With) and any(_is_no_grad(item.context_expr) for item in outer.items)
        for outer in form.ancestors(node)
    )


@plants("missing-no-grad", also="retained-graph")
def no_grad_decorator_removed(form: Form) -> Iterator[list[Edit]]:
    """`@torch.no_grad()` is removed from a function that evaluates."""
    for function in _evaluations(form):
        for decorator in function.decorator_list:
            inner = [each for each in form.nodes(ast.With) if form.is_in(each, function)]
            if _is_no_grad(decorator) and not any(_is_no_grad(each.items[0].context_expr) for each in inner):
                if _forwards(function) and not form.calls_in(function, "detach"):
                    yield [form.replace(decorator, "(lambda function: function)"), form.here(function)]


@plants("dropout-in-evaluation")
def dropout_always_on(form: Form) -> Iterator[list[Edit]]:
    """`F.dropout(x, training=self.training)` loses its `training`."""
    for call in form.calls("dropout"):
        if receiver(call) in {"F", "functional", "nn.functional", "torch.nn.functional"}:
            if form.argument(call, "training") is not None:
                yield [form.drop_argument(call, "training"), Edit(form.span(call)[0], form.span(call)[0], HERE)]
