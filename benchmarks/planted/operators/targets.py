"""Mistakes about losses and their targets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name
from benchmarks.planted.planting import plants


def calls_of_loss(form: Form, *names: str) -> Iterator[ast.Call]:
    """Calls of two arguments of a loss of this class: by the name that it is assigned to, which is assigned once."""
    for made in form.assigned(*names):
        name = ast.unparse(made.targets[0])
        again = [each for each in form.nodes(ast.Assign) if ast.unparse(each.targets[0]) == name]
        if len(again) == 1 and isinstance(made.value, ast.Call) and not made.value.args:
            for call in form.nodes(ast.Call):
                if ast.unparse(call.func) == name and len(call.args) == 2 and not call.keywords:
                    yield call
    functions = {"CrossEntropyLoss": "cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits"}
    functions |= {"MSELoss": "mse_loss", "L1Loss": "l1_loss", "BCELoss": "binary_cross_entropy", "NLLLoss": "nll_loss"}
    for call in form.calls(*(functions[name] for name in names if name in functions)):
        if len(call.args) == 2 and not call.keywords:
            yield call


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and node.attr == "logits")


@plants("softmax-before-cross-entropy", also="activation-before-cross-entropy")
def softmax_at_cross_entropy(form: Form) -> Iterator[list[Edit]]:
    """The logits get a softmax where `CrossEntropyLoss` is called."""
    if form.says("import torch\n"):
        for call in calls_of_loss(form, "CrossEntropyLoss"):
            if _is_plain(call.args[0]) and not form.says("softmax"):
                code = form.code(call.args[0])
                yield [form.replace(call.args[0], HERE + f"torch.softmax({code}, dim=1)")]


@plants("softmax-before-cross-entropy", also="activation-before-cross-entropy")
def softmax_in_network(form: Form) -> Iterator[list[Edit]]:
    """The network returns a softmax of its last linear layer, and `CrossEntropyLoss` is the only loss of the file."""
    if form.says("softmax", "Softmax", "NLLLoss", "nll_loss") or not form.says("import torch\n"):
        return
    losses = list(calls_of_loss(form, "CrossEntropyLoss"))
    for returned, code in _last_linear(form):
        if losses:
            yield [form.replace(returned, f"torch.softmax({code}, dim=1)"), form.here(returned), form.here(losses[0])]


@plants("sigmoid-before-bce-with-logits")
def sigmoid_in_network(form: Form) -> Iterator[list[Edit]]:
    """The network returns a sigmoid of its last linear layer before `BCEWithLogitsLoss`."""
    losses = list(calls_of_loss(form, "BCEWithLogitsLoss"))
    if form.says("import torch\n") and losses:
        for returned, code in _last_linear(form):
            yield [form.replace(returned, f"torch.sigmoid({code})"), form.here(returned), form.here(losses[0])]


def _last_linear(form: Form) -> Iterator[tuple[ast.expr, str]]:
    """What a `forward` returns if it is a linear layer of the class: its only return."""
    modules = list(form.classes("Module"))
    for each in modules:
        made = list(form.calls(each.name))
        # A block of another network does not give what the loss gets, and a network that is not made gives nothing.
        if not made or any(form.class_of(call) in modules for call in made):
            continue
        linear = {ast.unparse(one.targets[0]) for one in form.assigned("Linear") if form.is_in(one, each)}
        for function in each.body:
            if isinstance(function, ast.FunctionDef) and function.name == "forward":
                returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
                if len(returns) != 1 or returns[0].value is None:
                    continue
                value = returns[0].value
                if isinstance(value, ast.Call) and ast.unparse(value.func) in linear:
                    yield value, form.code(value)
                elif isinstance(value, ast.Name) and len(function.body) > 1:
                    before = function.body[-2]
                    if isinstance(before, ast.Assign) and ast.unparse(before.targets[0]) == value.id:
                        if isinstance(before.value, ast.Call) and ast.unparse(before.value.func) in linear:
                            yield value, value.id


@plants("sigmoid-before-bce-with-logits")
def sigmoid_at_bce(form: Form) -> Iterator[list[Edit]]:
    """The logits get a sigmoid where `BCEWithLogitsLoss` is called."""
    for call in calls_of_loss(form, "BCEWithLogitsLoss"):
        if _is_plain(call.args[0]):
            yield [form.replace(call.args[0], HERE + f"{form.code(call.args[0])}.sigmoid()")]


@plants("swapped-loss-arguments", also="float-class-labels detached-loss class-axis-layout label-out-of-range")
def loss_arguments_swapped(form: Form) -> Iterator[list[Edit]]:
    """The two arguments of a cross-entropy are swapped."""
    for call in calls_of_loss(form, "CrossEntropyLoss", "BCEWithLogitsLoss", "NLLLoss"):
        first, second = call.args
        if _is_plain(first) and isinstance(second, ast.Name) and form.loop(call):
            yield [form.replace(first, HERE + form.code(second)), form.replace(second, form.code(first))]


@plants("float-class-labels", also="class-axis-layout")
def labels_as_floats(form: Form) -> Iterator[list[Edit]]:
    """`.long()` on the target of `CrossEntropyLoss` becomes `.float()`."""
    for call in calls_of_loss(form, "CrossEntropyLoss", "NLLLoss"):
        target = call.args[1]
        if isinstance(target, ast.Call) and last_name(target.func) == "long" and isinstance(target.func, ast.Attribute):
            yield [form.replace(target, HERE + f"{form.code(target.func.value)}.float()")]


@plants("integer-bce-targets", also="broadcast-loss")
def bce_target_not_float(form: Form) -> Iterator[list[Edit]]:
    """`.float()` on the target of a binary cross-entropy is removed."""
    for call in calls_of_loss(form, "BCEWithLogitsLoss", "BCELoss"):
        target = call.args[1]
        if (
            isinstance(target, ast.Call)
            and last_name(target.func) == "float"
            and isinstance(target.func, ast.Attribute)
        ):
            yield [form.replace(target, HERE + form.code(target.func.value))]


@plants("broadcast-loss")
def target_axis_kept(form: Form) -> Iterator[list[Edit]]:
    """`squeeze`, `unsqueeze(1)` or `view(-1, 1)` on one side of a regression or binary loss is removed."""
    for call in calls_of_loss(form, "MSELoss", "BCEWithLogitsLoss", "L1Loss", "BCELoss"):
        changed = [each for each in call.args if _axis_changed(each) is not None]
        if len(changed) == 1:
            inner = _axis_changed(changed[0])
            assert inner is not None
            yield [form.replace(changed[0], HERE + form.code(inner))]


def _axis_changed(node: ast.expr) -> ast.expr | None:
    """What is squeezed or unsqueezed."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        written = ast.unparse(ast.Tuple(node.args, ast.Load()))
        if node.func.attr == "squeeze" and written in {"()", "(1,)", "(-1,)"}:
            return node.func.value
        if node.func.attr in {"unsqueeze", "view", "reshape"} and written in {"(1,)", "(-1,)", "(-1, 1)"}:
            return node.func.value if written != "(-1,)" or node.func.attr == "unsqueeze" else None
    return None


@plants("pad-in-loss", also="unmatched-ignore-index fully-masked-labels")
def ignore_index_removed(form: Form) -> Iterator[list[Edit]]:
    """`ignore_index=` of a cross-entropy, set to the number of the padding, is removed."""
    for call in form.calls("CrossEntropyLoss", "NLLLoss", "cross_entropy"):
        keyword = form.argument(call, "ignore_index")
        written = ast.unparse(form.function(call))
        # What is masked elsewhere, or left out of the targets before, is not in the loss anyway.
        is_masked = form.argument(call, "reduction") or form.argument(call, "reduce") or "mask]" in written
        if keyword is not None and "pad" in ast.unparse(keyword.value).lower() and not is_masked:
            yield [form.drop_argument(call, "ignore_index"), Edit(form.span(call)[0], form.span(call)[0], HERE)]


@plants("raw-logits-in-nll-loss")
def log_softmax_removed(form: Form) -> Iterator[list[Edit]]:
    """`log_softmax` of what a network returns is removed before a negative log-likelihood."""
    losses = list(calls_of_loss(form, "NLLLoss"))
    for call in form.calls("log_softmax"):
        if losses and isinstance(form.parent(call), ast.Return) and call.args:
            yield [form.replace(call, form.code(call.args[0])), form.here(losses[0]), form.here(call)]


@plants("kl-div-reduction")
def batchmean_removed(form: Form) -> Iterator[list[Edit]]:
    """`reduction="batchmean"` of a KL divergence is removed."""
    for call in form.calls("KLDivLoss", "kl_div"):
        keyword = form.argument(call, "reduction")
        if keyword is not None and "batchmean" in ast.unparse(keyword.value):
            parent = form.parent(call)
            name = ast.unparse(parent.targets[0]) if isinstance(parent, ast.Assign) else ""
            used = [form.here(each) for each in form.nodes(ast.Call) if name and ast.unparse(each.func) == name]
            yield [form.drop_argument(call, "reduction"), form.here(form.statement(call)), *used]


@plants("unstable-log", also="vanishing-epsilon")
def epsilon_removed(form: Form) -> Iterator[list[Edit]]:
    """`torch.log(x + eps)` loses its `eps`."""
    for call in form.calls("log"):
        if ast.unparse(call.func) == "torch.log" and len(call.args) == 1 and isinstance(call.args[0], ast.BinOp):
            total = call.args[0]
            small = ast.unparse(total.right)
            name = ast.unparse(total.left)
            # What is bounded already, a mean of probabilities, or a sum of exponentials, is not near zero.
            made = rf"\b{re.escape(name)} = [^\n]*(clamp|clip|exp\(|mean\(|rand)"
            is_bounded = re.search(made, form.text) or "sum" in name or "log(" in name or re.match(r"1 \+ |S$", name)
            if isinstance(total.op, ast.Add) and ("eps" in small.lower() or "e-" in small) and not is_bounded:
                yield [form.replace(total, HERE + form.code(total.left))]


@plants("probabilities-in-kl-div")
def kl_of_probabilities(form: Form) -> Iterator[list[Edit]]:
    """The first argument of a KL divergence is a softmax in place of a log-softmax."""
    for call in form.calls("log_softmax"):
        parent = form.parent(call)
        if (
            isinstance(parent, ast.Call)
            and parent.args
            and parent.args[0] is call
            and "kl" in ast.unparse(parent.func).lower()
        ):
            yield [form.replace(call.func, HERE + form.code(call.func).replace("log_softmax", "softmax"))]


@plants("softmax-over-batch")
def softmax_over_rows(form: Form) -> Iterator[list[Edit]]:
    """A softmax over the classes of a network's output is taken over the rows."""
    for call in form.calls("softmax"):
        function = form.function(call)
        axis = form.argument(call, "dim")
        value = axis.value if axis is not None else (call.args[1] if len(call.args) == 2 else None)
        if value is not None and ast.unparse(value) == "1" and call.args and isinstance(call.args[0], ast.Name):
            name = call.args[0].id.lower()
            if any(word in name for word in ("output", "logit", "pred")) and not isinstance(function, ast.Module):
                yield [form.replace(value, HERE + "0")]
