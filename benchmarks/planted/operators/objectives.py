"""Mistakes about losses of segmentation, contrast, distillation, language models and variational encoders."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, number
from benchmarks.planted.operators.targets import calls_of_loss
from benchmarks.planted.planting import plants


def names_in(node: ast.AST) -> set[str]:
    """The plain names inside a node."""
    return {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def is_slice(node: ast.AST | None, *, last: bool) -> bool:
    """Whether a subscript takes all but the last token, `[:, :-1]`, or all but the first, `[..., 1:]`."""
    if not isinstance(node, ast.Subscript):
        return False
    written = ast.unparse(node.slice).strip("()").replace(" ", "")
    return bool(re.fullmatch(r"(\.\.\.|:),:-1(,:)?" if last else r"(\.\.\.|:),1:(,:)?", written))


# Language models.


@plants("missing-shift", also="shape-mismatch class-axis-layout")
def shift_removed(form: Form) -> Iterator[list[Edit]]:
    """The shift of the labels by one token is removed: both `logits[:, :-1]` and `labels[:, 1:]` lose their slices."""
    subscripts = list(form.nodes(ast.Subscript))
    for logits in subscripts:
        if not is_slice(logits, last=True) or "logits" not in ast.unparse(logits.value).lower():
            continue
        function = form.function(logits)
        beside = [each for each in subscripts if form.function(each) is function and is_slice(each, last=False)]
        other = [each for each in subscripts if form.function(each) is function and is_slice(each, last=True)]
        names = re.compile(r"labels?$|input_ids?$|targets?$|\.labels|input_ids")
        if len(beside) == 1 and other == [logits] and names.search(ast.unparse(beside[0].value).lower()):
            yield [
                form.replace(logits, HERE + form.code(logits.value)),
                form.replace(beside[0], HERE + form.code(beside[0].value)),
            ]


@plants("double-shift")
def shifted_twice(form: Form) -> Iterator[list[Edit]]:
    """A causal language model, which shifts its labels itself, gets labels that are shifted by one token."""
    if not form.says("AutoModelForCausalLM", "GPT2LMHeadModel", "LlamaForCausalLM") or form.says(
        "Seq2Seq", "T5", "[:, 1:]"
    ):
        return
    for call in form.nodes(ast.Call):
        given = {keyword.arg: keyword.value for keyword in call.keywords}
        if len(call.args) > 1 or set(given) - {"input_ids", "attention_mask", "labels"} or "labels" not in given:
            continue
        inputs = call.args[0] if call.args else given.get("input_ids")
        cut = [each for each in (inputs, given.get("attention_mask")) if each is not None]
        labels = given["labels"]
        if all(isinstance(each, ast.Name) for each in (*cut, labels)) and form.loop(call):
            if inputs is not None and "model" in ast.unparse(call.func):
                yield [
                    *(form.replace(each, form.code(each) + "[:, :-1]") for each in cut),
                    form.replace(labels, HERE + form.code(labels) + "[:, 1:]"),
                ]


@plants("pad-in-loss", also="masked-mean-over-batch")
def masked_mean_by_all(form: Form) -> Iterator[list[Edit]]:
    """`(loss * mask).sum() / mask.sum()` becomes `(loss * mask).mean()`, which counts the padding, too."""
    for division in form.nodes(ast.BinOp):
        if not isinstance(division.op, ast.Div):
            continue
        above, below = division.left, division.right
        while isinstance(below, ast.BinOp) and isinstance(below.op, ast.Add):
            below = below.left
        if (
            isinstance(below, ast.Call)
            and last_name(below.func) in {"clamp", "clamp_min"}
            and isinstance(below.func, ast.Attribute)
        ):
            below = below.func.value
        product = _summed(above)
        mask = _summed(below)
        if (
            product is None
            or mask is None
            or not isinstance(product, ast.BinOp)
            or not isinstance(product.op, ast.Mult)
        ):
            continue
        written = {ast.unparse(product.left), ast.unparse(product.right)}
        if ast.unparse(mask) in written and "mask" in ast.unparse(mask).lower() and "loss" in " ".join(written).lower():
            yield [form.replace(division, HERE + f"({form.code(product)}).mean()")]


def _summed(node: ast.AST) -> ast.expr | None:
    """`x` of `x.sum()` and `torch.sum(x)`."""
    if isinstance(node, ast.Call) and last_name(node.func) == "sum":
        if ast.unparse(node.func) == "torch.sum" and len(node.args) == 1 and not node.keywords:
            return node.args[0]
        if isinstance(node.func, ast.Attribute) and not node.args and not node.keywords:
            return node.func.value
    return None


# Segmentation.


@plants("view-for-permute", also="class-axis-layout shape-mismatch")
def permute_dropped(form: Form) -> Iterator[list[Edit]]:
    """`logits.permute(0, 2, 3, 1)` before `.view(-1, classes)` is removed, so rows mix values of several pixels."""
    for call in form.calls("view", "reshape"):
        if len(call.args) != 2 or ast.unparse(call.args[0]) != "-1" or not isinstance(call.func, ast.Attribute):
            continue
        inner: ast.expr = call.func.value
        contiguous = inner
        if (
            isinstance(inner, ast.Call)
            and last_name(inner.func) == "contiguous"
            and isinstance(inner.func, ast.Attribute)
        ):
            inner = inner.func.value
        if (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and last_name(inner.func) in {"permute", "transpose"}
        ):
            axes = [number(each) for each in inner.args]
            scores = any(
                word in ast.unparse(inner.func.value).lower() for word in ("logit", "pred", "output", "input", "score")
            )
            if scores and axes in ([0, 2, 3, 1], [0, 2, 3, 4, 1], [0, 2, 1], [1, 2]):
                end = ".contiguous()" if contiguous is not inner else ""
                yield [form.replace(call.func.value, HERE + form.code(inner.func.value) + end)]


@plants("detached-loss")
def dice_of_thresholds(form: Form) -> Iterator[list[Edit]]:
    """The probabilities of a Dice loss are compared with 0.5 first, so it has no gradient."""
    for call in form.calls("sigmoid"):
        if _is_dice(form, call) and not form.says("no_grad") and len(call.args) <= 1:
            yield [form.replace(call, HERE + f"({form.code(call)} > 0.5).float()")]


@plants("logits-as-probabilities")
def dice_of_logits(form: Form) -> Iterator[list[Edit]]:
    """A Dice loss is computed of logits: the only `sigmoid` in it is removed."""
    for call in form.calls("sigmoid"):
        function = form.function(call)
        if (
            _is_dice(form, call)
            and len(form.calls_in(function, "sigmoid", "softmax", "logsigmoid", "where", "clamp")) == 1
        ):
            inner = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
            if isinstance(inner, ast.Name):
                yield [form.replace(call, HERE + form.code(inner))]


def _is_dice(form: Form, call: ast.Call) -> bool:
    """Whether a call is in the function of a Dice loss: one that returns `1 - dice`."""
    function = form.function(call)
    if isinstance(function, ast.Module):
        return False
    owner = form.class_of(call)
    name = f"{owner.name if owner else ''}.{getattr(function, 'name', '')}".lower()
    written = ast.unparse(function)
    return (
        "dice" in name and "loss" in name and bool(re.search(r"\b1(\.0?)? - ", written)) and "intersection" in written
    )


# Weights and reductions.


@plants("averaged-focal-loss", also="indexed-scalar")
def reduction_none_removed(form: Form) -> Iterator[list[Edit]]:
    """`reduction="none"` of a loss that is multiplied by weights or a focal factor of each row is removed."""
    for call in form.calls(
        "cross_entropy",
        "binary_cross_entropy_with_logits",
        "binary_cross_entropy",
        "mse_loss",
        "nll_loss",
        "smooth_l1_loss",
    ):
        keyword = form.argument(call, "reduction")
        statement = form.statement(call)
        if keyword is None or ast.unparse(keyword.value) != "'none'" or not isinstance(statement, ast.Assign):
            continue
        name = ast.unparse(statement.targets[0])
        function = form.function(call)
        # The loss of each row is multiplied by something of each row, and only then averaged.
        factor = re.search(
            rf"exp\(-{re.escape(name)}\)|{re.escape(name)} \* \w*(weight|mask)|(weight|mask)\w* \* {re.escape(name)}\b",
            ast.unparse(function),
        )
        if statement.value is call and factor and isinstance(statement.targets[0], ast.Name):
            yield [form.drop_argument(call, "reduction"), form.here(statement)]


@plants("overwritten-loss")
def second_loss_instead_of_sum(form: Form) -> Iterator[list[Edit]]:
    """`loss += …` right after `loss = …` of a training loop becomes `loss = …`, so the first term is dropped."""
    for added in form.nodes(ast.AugAssign):
        if not isinstance(added.op, ast.Add) or not isinstance(added.target, ast.Name) or "loss" not in added.target.id:
            continue
        block = form.block(added)
        before = block[: block.index(added)]
        name = added.target.id
        made = [each for each in before if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == name]
        used = [each for each in before if name in names_in(each) and each not in made]
        after = block[block.index(added) + 1 :]
        ends = any(ast.unparse(each).startswith((f"{name}.backward(", f"return {name}")) for each in after)
        if len(made) == 1 and not used and ends and name not in names_in(added.value) and form.is_alone(added):
            if isinstance(made[0].value, ast.Call) and not ast.unparse(made[0].value).startswith("torch.tensor"):
                yield [form.replace(added, HERE + f"{name} = {form.code(added.value)}")]


# Distillation.


def _divergences(form: Form) -> Iterator[tuple[ast.Call, ast.Call, ast.Call]]:
    """Calls of a KL divergence of a log-softmax and a softmax, written in the call itself."""
    made = {ast.unparse(each.targets[0]) for each in form.assigned("KLDivLoss")}
    for call in form.nodes(ast.Call):
        if last_name(call.func) == "kl_div" or ast.unparse(call.func) in made or _is_made(call.func):
            if len(call.args) >= 2 and form.argument(call, "log_target") is None:
                first, second = call.args[:2]
                if isinstance(first, ast.Call) and isinstance(second, ast.Call):
                    if last_name(first.func) == "log_softmax" and last_name(second.func) == "softmax":
                        yield call, first, second


def _is_made(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "KLDivLoss"


@plants("probabilities-in-kl-div")
def kl_target_in_logs(form: Form) -> Iterator[list[Edit]]:
    """The target of a KL divergence is a log-softmax, without `log_target=True`."""
    for _, _, target in _divergences(form):
        if not form.says("log_target"):
            yield [form.replace(target.func, HERE + form.code(target.func).replace("softmax", "log_softmax"))]


@plants("probabilities-in-kl-div", also="swapped-loss-arguments undetached-target")
def kl_arguments_swapped(form: Form) -> Iterator[list[Edit]]:
    """The teacher's probabilities are given to a KL divergence first, the student's logarithms second."""
    for _, first, second in _divergences(form):
        yield [form.replace(first, HERE + form.code(second)), form.replace(second, form.code(first))]


# Contrast.


@plants("wrong-contrast")
def temperature_multiplied(form: Form) -> Iterator[list[Edit]]:
    """The similarities of a contrastive loss are multiplied by the temperature, not divided."""
    for division in form.nodes(ast.BinOp):
        if not isinstance(division.op, ast.Div) or ast.unparse(division.right) not in _TEMPERATURES:
            continue
        left = ast.unparse(division.left)
        written = ast.unparse(form.function(division))
        if re.search(r"matmul|mm\(|@|similarity|\bsim|einsum", left) and re.search(
            r"cross_entropy|log_softmax|logsumexp|CrossEntropy|criterion", written
        ):
            yield [form.replace(division, HERE + f"{form.code(division.left)} * {form.code(division.right)}")]


_TEMPERATURES = {
    "temperature",
    "self.temperature",
    "tau",
    "self.tau",
    "temp",
    "self.temp",
    "args.temperature",
    "0.07",
    "0.1",
    "0.5",
}


@plants("wrong-contrast")
def normalized_over_batch(form: Form) -> Iterator[list[Edit]]:
    """`F.normalize(z, dim=1)` of embeddings normalizes over the rows, by `dim=0`."""
    for call in form.calls("normalize"):
        axis = form.argument(call, "dim")
        if ast.unparse(call.func) in {"F.normalize", "nn.functional.normalize"} and axis and call.args:
            name = ast.unparse(call.args[0]).lower()
            if number(axis.value) == 1 or ast.unparse(axis.value) == "-1":
                if re.search(r"emb|feat|\bz\w?$|\bz_|\bh_|proj|anchor|hidden|\bx$", name) and "weight" not in name:
                    yield [form.replace(axis.value, HERE + "0")]


@plants("wrong-contrast", also="swapped-loss-arguments")
def triplet_swapped(form: Form) -> Iterator[list[Edit]]:
    """A triplet loss gets the negative before the positive."""
    made = {
        ast.unparse(each.targets[0]) for each in form.assigned("TripletMarginLoss", "TripletMarginWithDistanceLoss")
    }
    for call in form.nodes(ast.Call):
        if ast.unparse(call.func) in made or last_name(call.func) == "triplet_margin_loss":
            if len(call.args) == 3:
                _, positive, negative = call.args
                if "pos" in ast.unparse(positive).lower() and "neg" in ast.unparse(negative).lower():
                    yield [
                        form.replace(positive, HERE + form.code(negative)),
                        form.replace(negative, form.code(positive)),
                    ]


# Two classes, variational encoders.


@plants("single-class-cross-entropy", also="class-axis-layout float-class-labels")
def cross_entropy_of_one_output(form: Form) -> Iterator[list[Edit]]:
    """`BCEWithLogitsLoss()` over the single output of a network becomes `CrossEntropyLoss()`, which is always zero."""
    if form.says("softmax", "argmax") or len(list(form.calls("BCEWithLogitsLoss"))) != 1:
        return
    heads = [each for each in form.calls("Linear") if len(each.args) == 2]
    single = [each for each in heads if number(each.args[1]) == 1]
    for made in form.assigned("BCEWithLogitsLoss"):
        value = made.value
        name = ast.unparse(made.targets[0])
        calls = [each for each in form.nodes(ast.Call) if ast.unparse(each.func) == name and len(each.args) == 2]
        if isinstance(value, ast.Call) and not value.args and not value.keywords and len(single) == 1 and calls:
            edit = form.replace(value.func, form.code(value.func).replace("BCEWithLogitsLoss", "CrossEntropyLoss"))
            yield [edit, form.here(made), form.here(calls[0]), form.here(single[0])]


@plants("wrong-noise")
def variance_as_deviation(form: Form) -> Iterator[list[Edit]]:
    """The deviation of a variational encoder is `exp(logvar)`, the variance, in place of `exp(0.5 * logvar)`."""
    if not form.says("randn_like") or not re.search(r"1 \+ \w*(logvar|log_var|logv)\w* - ", form.text):
        return
    for call in form.calls("exp"):
        inner = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.Mult | ast.Div):
            half, rest = (inner.left, inner.right) if number(inner.left) is not None else (inner.right, inner.left)
            if (isinstance(inner.op, ast.Mult) and number(half) == 0.5) or (
                isinstance(inner.op, ast.Div) and number(half) == 2
            ):
                if re.search(r"log_?v", ast.unparse(rest)):
                    yield [form.replace(call, HERE + f"torch.exp({form.code(rest)})")]


@plants("wrong-loss-sign")
def divergence_sign_lost(form: Form) -> Iterator[list[Edit]]:
    """The divergence of a variational encoder, `-0.5 * sum(1 + logvar - …)`, loses its minus."""
    for product in form.nodes(ast.BinOp):
        left = product.left
        if not isinstance(product.op, ast.Mult) or not isinstance(left, ast.UnaryOp) or number(left.operand) != 0.5:
            continue
        if isinstance(left.op, ast.USub) and re.search(r"1 \+ \w*log_?v\w* - ", ast.unparse(product.right)):
            yield [form.replace(left, HERE + form.code(left.operand))]


# Losses without a gradient.


@plants("detached-loss")
def loss_made_again(form: Form) -> Iterator[list[Edit]]:
    """The loss of a training loop becomes `torch.tensor(loss.item(), requires_grad=True)`, which has no graph."""
    if not form.says("import torch\n"):
        return
    for call in calls_of_loss(form, "CrossEntropyLoss", "MSELoss", "BCEWithLogitsLoss", "L1Loss", "BCELoss"):
        statement = form.statement(call)
        if isinstance(statement, ast.Assign) and statement.value is call and form.loop(call):
            name = ast.unparse(statement.targets[0])
            if any(ast.unparse(each) == f"{name}.backward()" for each in form.block(statement)):
                yield [form.replace(call, HERE + f"torch.tensor({form.code(call)}.item(), requires_grad=True)")]


@plants("detached-loss")
def rounded_before_loss(form: Form) -> Iterator[list[Edit]]:
    """A binary or squared loss gets rounded predictions, whose gradient is zero everywhere."""
    if not form.says("import torch\n"):
        return
    for call in calls_of_loss(form, "MSELoss", "L1Loss", "BCELoss"):
        statement = form.statement(call)
        first = call.args[0]
        if (
            isinstance(statement, ast.Assign)
            and statement.value is call
            and form.loop(call)
            and isinstance(first, ast.Name)
        ):
            name = ast.unparse(statement.targets[0])
            if any(ast.unparse(each) == f"{name}.backward()" for each in form.block(statement)):
                yield [form.replace(first, HERE + f"torch.round({first.id})")]
