"""Mistakes in networks: layers that are not registered, not applied or do not fit."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, number, receiver
from benchmarks.planted.planting import plants


@plants("unregistered-modules", also="missing-parameters")
def list_for_module_list(form: Form) -> Iterator[list[Edit]]:
    """`nn.ModuleList([…])` becomes a plain list."""
    for call in form.calls("ModuleList"):
        parent = form.parent(call)
        owner = form.class_of(call)
        if len(call.args) != 1 or not isinstance(parent, ast.Assign) or owner is None:
            continue
        is_own = ast.unparse(parent.targets[0]).startswith("self.")
        if (
            is_own
            and isinstance(call.args[0], ast.List | ast.ListComp)
            and any("Module" in last_name(b) for b in owner.bases)
        ):
            if (not isinstance(call.args[0], ast.List) or call.args[0].elts) and has_weights(form.code(call.args[0])):
                yield [form.replace(call, HERE + form.code(call.args[0]))]


def has_weights(code: str) -> bool:
    """Whether layers may have weights: nothing is lost of a list of activations or poolings."""
    return not WITHOUT_WEIGHTS.search(code)


WITHOUT_WEIGHTS = re.compile(
    r"^\W*(?:nn\.|torch\.nn\.)?\w*(?:Pool|ReLU|ELU|Dropout|Identity|Flatten|Upsample|Softmax)\w*\("
)


@plants("late-super-init")
def super_init_removed(form: Form) -> Iterator[list[Edit]]:
    """`super().__init__()` of a network with layers is removed."""
    for statement, _ in _super_inits(form):
        function = form.function(statement)
        assert isinstance(function, ast.FunctionDef)
        yield [form.delete(statement), form.here(function)]


@plants("late-super-init")
def super_init_late(form: Form) -> Iterator[list[Edit]]:
    """`super().__init__()` is called after the first layer is set."""
    for statement, layer in _super_inits(form):
        yield [form.delete(statement), form.here(layer), form.after(layer, form.lines_of(statement))]


def _super_inits(form: Form) -> Iterator[tuple[ast.stmt, ast.stmt]]:
    for each in form.classes("Module"):
        for init in each.body:
            if isinstance(init, ast.FunctionDef) and init.name == "__init__":
                calls = [call for call in form.calls_in(init, "__init__") if form.is_statement(call)]
                layers = [
                    made for made in form.assigned("Linear", "Conv2d", "Embedding", "LSTM") if form.is_in(made, init)
                ]
                if len(calls) == 1 and layers and form.are_neighbours(calls[0], layers[0]) and form.is_alone(layers[0]):
                    yield form.statement(calls[0]), layers[0]


@plants("discarded-module")
def layer_made_in_forward(form: Form) -> Iterator[list[Edit]]:
    """`self.fc(x)` in `forward` becomes a new layer with the same numbers."""
    for each in form.classes("Module"):
        for made in form.assigned("Linear", "Conv2d"):
            name, value = ast.unparse(made.targets[0]), made.value
            if not form.is_in(made, each) or not name.startswith("self.") or not isinstance(value, ast.Call):
                continue
            if all(number(argument) is not None for argument in value.args):
                uses = [
                    call for call in form.nodes(ast.Call) if ast.unparse(call.func) == name and form.is_in(call, each)
                ]
                functions = [form.function(call) for call in uses]
                if len(uses) == 1 and getattr(functions[0], "name", "") == "forward":
                    yield [form.replace(uses[0].func, HERE + form.code(value))]


@plants("shape-mismatch", also="unapplied-layer")
def width_off_by_one(form: Form) -> Iterator[list[Edit]]:
    """A linear layer expects one more feature than the layer before it in a `Sequential` gives."""
    for call in form.calls("Sequential"):
        widths: float | None = None
        for layer in call.args:
            if isinstance(layer, ast.Call) and last_name(layer.func) == "Linear" and len(layer.args) >= 2:
                first = layer.args[0]
                if widths is not None and number(first) == widths:
                    yield [form.replace(first, HERE + str(int(widths) + 1))]
                    break
                widths = number(layer.args[1])
            elif isinstance(layer, ast.Call) and last_name(layer.func) not in {
                "ReLU",
                "Dropout",
                "Tanh",
                "Sigmoid",
                "GELU",
            }:
                widths = None


@plants("shape-mismatch")
def attribute_width_off_by_one(form: Form) -> Iterator[list[Edit]]:
    """`self.fc2` expects one more feature than `self.fc1`, the layer before it, gives."""
    for each in form.classes("Module"):
        made = [one for one in form.assigned("Linear") if form.is_in(one, each)]
        for one, other in pairwise(made):
            first, second = one.value, other.value
            if not isinstance(first, ast.Call) or not isinstance(second, ast.Call):
                continue
            if len(first.args) >= 2 and len(second.args) >= 2 and number(first.args[1]) is not None:
                if number(first.args[1]) == number(second.args[0]) and _follow(form, each, one, other):
                    yield [form.replace(second.args[0], HERE + str(int(number(second.args[0]) or 0) + 1))]


def _follow(form: Form, owner: ast.ClassDef, one: ast.Assign, other: ast.Assign) -> bool:
    """Whether two layers are used once each, in this order, in a chain of `x`."""
    names = [ast.unparse(each.targets[0]) for each in (one, other)]
    uses = [call for call in form.nodes(ast.Call) if ast.unparse(call.func) in names and form.is_in(call, owner)]
    statements = [form.statement(call) for call in uses]
    chain = all(isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "x" for each in statements[:1])
    return (
        sorted(ast.unparse(call.func) for call in uses) == sorted(names)
        and chain
        and abs(statements[1].lineno - statements[0].lineno) <= 3
    )


@plants("missing-activation")
def activation_removed(form: Form) -> Iterator[list[Edit]]:
    """The activation between two linear layers of a `Sequential` is removed."""
    for call in form.calls("Sequential"):
        names = [last_name(layer.func) if isinstance(layer, ast.Call) else "" for layer in call.args]
        for index in range(len(names) - 2):
            if names[index] == "Linear" and names[index + 1] in {"ReLU", "GELU", "Tanh", "LeakyReLU"}:
                if names[index + 2] == "Linear":
                    layer, after = call.args[index + 1], call.args[index + 2]
                    yield [Edit(form.span(layer)[0], form.span(after)[0], ""), form.here(call.args[index])]
                    break


@plants("unapplied-layer", also="discarded-module discarded-tensor")
def result_dropped(form: Form) -> Iterator[list[Edit]]:
    """`x = self.layer(x)` or `x = F.relu(x)` in `forward` loses its `x =`."""
    for statement in form.nodes(ast.Assign):
        value = statement.value
        if len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name) and isinstance(value, ast.Call):
            name = statement.targets[0].id
            function = form.function(statement)
            first = value.args[0] if len(value.args) == 1 else None
            same = isinstance(first, ast.Name) and first.id == name
            called = ast.unparse(value.func)
            if getattr(function, "name", "") == "forward" and same and form.class_of(statement):
                if called.startswith(("self.", "F.", "torch.")) and called.count(".") == 1:
                    if not _works_in_place(form, called):
                        yield [form.replace(statement, HERE + form.code(value))]


def _works_in_place(form: Form, called: str) -> bool:
    """Whether a layer may change its input itself: its result is then not needed."""
    made = (ast.unparse(each.value) for each in form.nodes(ast.Assign) if ast.unparse(each.targets[0]) == called)
    return any("inplace=True" in code or "ReLU(True)" in code for code in made)


@plants("discarded-tensor")
def method_result_dropped(form: Form) -> Iterator[list[Edit]]:
    """`x = x.to(device)`, `x = x.view(…)` and the like lose their `x =`."""
    methods = {
        "to",
        "cuda",
        "float",
        "long",
        "view",
        "reshape",
        "permute",
        "transpose",
        "unsqueeze",
        "squeeze",
        "contiguous",
    }
    for statement in form.nodes(ast.Assign):
        value = statement.value
        if len(statement.targets) == 1 and isinstance(statement.targets[0], ast.Name) and isinstance(value, ast.Call):
            name = statement.targets[0].id
            if last_name(value.func) in methods and receiver(value) == name and name not in {"model", "net"}:
                if form.loop(statement) and any(
                    word in name for word in ("data", "input", "image", "label", "target", "x")
                ):
                    yield [form.replace(statement, HERE + form.code(value))]


@plants("forward-without-return", also="unapplied-layer")
def return_removed(form: Form) -> Iterator[list[Edit]]:
    """The `return` of a `forward` that ends with it is removed."""
    for each in form.classes("Module"):
        for function in each.body:
            if isinstance(function, ast.FunctionDef) and function.name == "forward" and len(function.body) > 1:
                returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
                if len(returns) == 1 and function.body[-1] is returns[0] and form.is_alone(returns[0]):
                    yield [form.delete(returns[0]), form.here(function)]


@plants("view-for-permute", also="shape-mismatch")
def view_in_place_of_permute(form: Form) -> Iterator[list[Edit]]:
    """`x.transpose(1, 2)` becomes a `reshape` to the same shape."""
    for call in form.calls("transpose"):
        if ast.unparse(ast.Tuple(call.args, ast.Load())) == "(1, 2)" and isinstance(call.func, ast.Attribute):
            if isinstance(call.func.value, ast.Name) and form.class_of(call):
                name = call.func.value.id
                yield [form.replace(call, HERE + f"{name}.reshape({name}.shape[0], {name}.shape[2], {name}.shape[1])")]
