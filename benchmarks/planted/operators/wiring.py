"""Mistakes in how a network is put together: weights that are shared, unregistered, unused or not frozen."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name
from benchmarks.planted.operators.networks import has_weights
from benchmarks.planted.planting import plants

LAYERS = ("Linear", "Conv2d", "Conv1d", "BatchNorm2d", "BatchNorm1d", "LayerNorm")


@plants("unregistered-tensor")
def tensor_for_parameter(form: Form) -> Iterator[list[Edit]]:
    """`nn.Parameter(torch.zeros(…))` of a network becomes `torch.zeros(…, requires_grad=True)`."""
    for each in form.classes("Module"):
        for made in form.assigned("Parameter"):
            value = made.value
            if not isinstance(value, ast.Call) or len(value.args) != 1 or value.keywords or not form.is_in(made, each):
                continue
            (tensor,) = value.args
            is_own = ast.unparse(made.targets[0]).startswith("self.")
            if is_own and isinstance(tensor, ast.Call) and getattr(form.function(made), "name", "") == "__init__":
                called = ast.unparse(tensor.func)
                if called in {f"torch.{name}" for name in ("zeros", "ones", "rand", "randn", "empty")}:
                    whole = form.code(tensor).rstrip()
                    if whole.endswith(")") and "requires_grad" not in whole and not whole[:-1].rstrip().endswith(","):
                        yield [form.replace(value, f"{HERE}{whole[:-1]}, requires_grad=True)")]


@plants("repeated-module")
def layers_repeated(form: Form) -> Iterator[list[Edit]]:
    """`[Block(…) for _ in range(n)]` in a `ModuleList` becomes `[Block(…)] * n`: one block, n times."""
    for call in form.calls("ModuleList"):
        if len(call.args) != 1 or not isinstance(call.args[0], ast.ListComp) or form.class_of(call) is None:
            continue
        made = call.args[0]
        (first, *further) = made.generators
        is_range = isinstance(first.iter, ast.Call) and ast.unparse(first.iter.func) == "range"
        if further or first.ifs or not is_range or not isinstance(made.elt, ast.Call):
            continue
        assert isinstance(first.iter, ast.Call)
        names = {each.id for each in ast.walk(made.elt) if isinstance(each, ast.Name)}
        counter = first.target.id if isinstance(first.target, ast.Name) else ""
        is_layer = last_name(made.elt.func)[:1].isupper() and has_weights(form.code(made.elt))
        if counter and counter not in names and len(first.iter.args) == 1 and is_layer:
            count = form.code(first.iter.args[0])
            yield [form.replace(made, f"{HERE}[{form.code(made.elt)}] * ({count})")]


@plants("twice-applied-layer")
def layer_applied_twice(form: Form) -> Iterator[list[Edit]]:
    """`self.conv2(…)` of `forward` becomes `self.conv1(…)`, a layer of the same size that was applied before."""
    for each in form.classes("Module"):
        made = [one for one in form.assigned(*LAYERS) if form.is_in(one, each)]
        for one in made:
            for other in made:
                name, wrong = ast.unparse(other.targets[0]), ast.unparse(one.targets[0])
                alike = ast.unparse(one.value) == ast.unparse(other.value) and name.startswith("self.")
                if one.lineno >= other.lineno or not alike or name[:-1] != wrong[:-1]:
                    continue
                before, after = _only_use(form, each, wrong), _only_use(form, each, name)
                if before is not None and after is not None and before.lineno < after.lineno:
                    yield [form.replace(after.func, HERE + wrong)]


def _only_use(form: Form, owner: ast.ClassDef, name: str) -> ast.Call | None:
    """The call of a layer, where `forward` applies it and nothing else of the class names it but its creation."""
    named = [each for each in form.nodes(ast.Attribute) if ast.unparse(each) == name and form.is_in(each, owner)]
    calls = [call for call in map(form.parent, named) if isinstance(call, ast.Call) and call.func in named]
    if len(named) == 2 and len(calls) == 1 and getattr(form.function(calls[0]), "name", "") == "forward":
        return calls[0]
    return None


@plants("batch-first-mismatch", also="shape-mismatch")
def batch_first_removed(form: Form) -> Iterator[list[Edit]]:
    """A recurrent layer loses its `batch_first=True`; `forward` still takes its last step as `out[:, -1]`."""
    for made in form.assigned("LSTM", "GRU", "RNN"):
        name, owner, value = ast.unparse(made.targets[0]), form.class_of(made), made.value
        assert isinstance(value, ast.Call)
        given = form.argument(value, "batch_first")
        if owner is None or given is None or ast.unparse(given.value) != "True":
            continue
        for use in form.assigned(name.removeprefix("self.")):
            target = use.targets[0]
            if form.is_in(use, owner) and isinstance(target, ast.Tuple) and _takes_last(form, use, target.elts[0]):
                yield [
                    form.drop_argument(value, "batch_first"),
                    Edit(form.span(value)[0], form.span(value)[0], HERE),
                    form.here(use),
                ]


def _takes_last(form: Form, use: ast.Assign, output: ast.expr) -> bool:
    """Whether the statements after a recurrent layer take its last step along the second axis."""
    function = form.function(use)
    wanted = {f"{ast.unparse(output)}[:, -1]", f"{ast.unparse(output)}[:, -1, :]"}
    return any(
        ast.unparse(each) in wanted and each.lineno > use.lineno and form.is_in(each, function)
        for each in form.nodes(ast.Subscript)
    )


@plants("ineffective-freeze", also="unknown-attribute")
def freezing_misspelled(form: Form) -> Iterator[list[Edit]]:
    """`parameter.requires_grad = False` is written as `parameter.require_grad = False`, which freezes nothing."""
    for statement in form.nodes(ast.Assign):
        target, loop = statement.targets[0], form.loop(statement)
        if isinstance(target, ast.Attribute) and target.attr == "requires_grad" and isinstance(loop, ast.For):
            over = ast.unparse(loop.iter)
            if ast.unparse(statement.value) == "False" and over.endswith(("parameters()", "named_parameters()")):
                yield [form.replace(target, f"{HERE}{form.code(target.value)}.require_grad")]
