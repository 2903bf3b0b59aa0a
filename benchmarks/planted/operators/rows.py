"""Mistakes about loaders, evaluation data, metrics, masks and checkpoints."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.modes import EVALUATES
from benchmarks.planted.planting import plants

SHUFFLES = ("shuffle(", "random_split", "train_test_split", "permutation", "randperm", ".sample(", "choice(")
"""What puts rows into a random order before a loader gets them: the same one in each epoch is then no plain mistake."""

TRAIN_LOADER = re.compile(r"train\w*_?(loader|dataloader|dl)|train_?iter", re.I)


@plants("unshuffled-training-data")
def training_not_shuffled(form: Form) -> Iterator[list[Edit]]:
    """`shuffle=True` of a training loader becomes `shuffle=False`."""
    if form.says(*SHUFFLES):
        return
    for made in form.assigned("DataLoader"):
        if TRAIN_LOADER.search(ast.unparse(made.targets[0])) and isinstance(made.value, ast.Call):
            keyword = form.argument(made.value, "shuffle")
            if keyword is not None and ast.unparse(keyword.value) == "True":
                yield [form.replace(keyword.value, HERE + "False")]


@plants("train-data-in-eval", also="overwritten-eval-data")
def training_rows_evaluated(form: Form) -> Iterator[list[Edit]]:
    """The loader of the evaluation gets the training data set."""
    made = {ast.unparse(each.targets[0]): each for each in form.assigned("DataLoader")}
    train = [each for name, each in made.items() if TRAIN_LOADER.search(name)]
    for name, each in made.items():
        if (
            EVALUATES.search(name.replace("loader", "").strip("_"))
            and len(train) == 1
            and isinstance(each.value, ast.Call)
        ):
            value = train[0].value
            assert isinstance(value, ast.Call)
            if value.args and each.value.args and form.code(value.args[0]) != form.code(each.value.args[0]):
                yield [form.replace(each.value.args[0], HERE + form.code(value.args[0]))]


@plants("augmented-eval-data")
def evaluation_augmented(form: Form) -> Iterator[list[Edit]]:
    """The evaluation data set gets the transform of the training data set, which is random."""
    transforms = {ast.unparse(each.targets[0]): each for each in form.assigned("Compose")}
    random = {name for name, each in transforms.items() if "Random" in ast.unparse(each.value)}
    plain = set(transforms) - random
    if len(random) == 1:
        for call in form.nodes(ast.Call):
            keyword = form.argument(call, "transform")
            if keyword is not None and ast.unparse(keyword.value) in plain:
                statement = form.statement(call)
                target = ast.unparse(statement.targets[0]) if isinstance(statement, ast.Assign) else ""
                if EVALUATES.search(re.sub(r"(set|data|dataset)$", "", target)):
                    yield [form.replace(keyword.value, HERE + next(iter(random)))]


@plants("transform-order")
def normalized_before_tensor(form: Form) -> Iterator[list[Edit]]:
    """`Normalize` is put before `ToTensor`."""
    for call in form.calls("Compose"):
        if len(call.args) == 1 and isinstance(call.args[0], ast.List):
            layers = call.args[0].elts
            names = [last_name(each.func) if isinstance(each, ast.Call) else "" for each in layers]
            for index in range(len(names) - 1):
                if names[index] == "ToTensor" and names[index + 1] == "Normalize":
                    one, other = layers[index], layers[index + 1]
                    yield [form.replace(one, HERE + form.code(other)), form.replace(other, form.code(one))]
                    break


@plants("argmax-without-axis")
def argmax_over_rows(form: Form) -> Iterator[list[Edit]]:
    """The `argmax` of the classes is taken over the rows, by `dim=0`."""
    for call in form.calls("argmax"):
        value = _axis(form, call)
        if value is not None and ast.unparse(value) == "1" and _is_of_outputs(form, call):
            yield [form.replace(value, HERE + "0")]


@plants("argmax-without-axis")
def argmax_of_all(form: Form) -> Iterator[list[Edit]]:
    """The `argmax` of the classes loses its axis."""
    for call in form.calls("argmax"):
        value = _axis(form, call)
        if value is not None and ast.unparse(value) in {"1", "-1"} and _is_of_outputs(form, call):
            first = [form.code(call.args[0])] if receiver(call) in {"torch", "np"} else []
            yield [form.replace(call, HERE + f"{form.code(call.func)}({', '.join(first)})")]


def _axis(form: Form, call: ast.Call) -> ast.expr | None:
    keyword = form.argument(call, "dim") or form.argument(call, "axis")
    if keyword is not None:
        return keyword.value
    position = 1 if receiver(call) in {"torch", "np"} else 0
    return call.args[position] if len(call.args) == position + 1 else None


def _is_of_outputs(form: Form, call: ast.Call) -> bool:
    of = ast.unparse(call.args[0]) if receiver(call) in {"torch", "np"} and call.args else receiver(call)
    words = ("output", "logit", "out", "pred")
    labeled = any(word in ast.unparse(form.function(call)) for word in ("label", "target"))
    return labeled and any(word in of.lower() for word in words) and "==" not in of


@plants("mean-loss-over-rows", also="wrong-average")
def divided_by_rows(form: Form) -> Iterator[list[Edit]]:
    """The sum of the mean losses of batches is divided by `len(loader.dataset)`."""
    for each in form.nodes(ast.BinOp):
        right = each.right
        if isinstance(each.op, ast.Div) and isinstance(right, ast.Call) and ast.unparse(right.func) == "len":
            name = ast.unparse(right.args[0]) if right.args else ""
            total = ast.unparse(each.left)
            function = form.function(each)
            adds = [one for one in form.nodes(ast.AugAssign) if ast.unparse(one.target) == total]
            adds = [one for one in adds if form.function(one) is function and one.lineno < each.lineno]
            of_loss = len(adds) == 1 and re.fullmatch(r"\w*loss\w*\.item\(\)", ast.unparse(adds[0].value))
            if "loader" in name.lower() and of_loss:
                yield [form.replace(right, HERE + f"len({name}.dataset)")]


@plants("last-batch-metric")
def sum_overwritten(form: Form) -> Iterator[list[Edit]]:
    """`correct += …` of an evaluation becomes `correct = …`."""
    for each in form.nodes(ast.AugAssign):
        loop = form.loop(each)
        if (
            isinstance(each.op, ast.Add)
            and loop is not None
            and ast.unparse(each.target) in {"correct", "val_loss", "test_loss"}
        ):
            if not form.calls_in(loop, "backward") and isinstance(form.parent(each), ast.For):
                name = ast.unparse(each.target)
                yield [form.replace(each, HERE + f"{name} = {form.code(each.value)}")]


@plants("aliased-weights", also="unsaved-model")
def best_weights_not_copied(form: Form) -> Iterator[list[Edit]]:
    """`copy.deepcopy(model.state_dict())` of the best model loses its copy."""
    for call in form.calls("deepcopy"):
        parent = form.parent(call)
        if len(call.args) == 1 and ".state_dict()" in ast.unparse(call.args[0]) and isinstance(parent, ast.Assign):
            name = ast.unparse(parent.targets[0])
            if "best" in name.lower() and _is_loaded_after(form, parent, name):
                yield [form.replace(call, HERE + form.code(call.args[0]))]


def _is_loaded_after(form: Form, kept: ast.Assign, name: str) -> bool:
    """Whether what a loop keeps is loaded after it: what is saved at once, or kept before any step, is no mistake."""
    loop = form.loop(kept)
    loads = [call for call in form.calls("load_state_dict") if call.args and ast.unparse(call.args[0]) == name]
    return loop is not None and any(call.lineno > (loop.end_lineno or 0) for call in loads)


@plants("stale-best-score")
def best_score_not_kept(form: Form) -> Iterator[list[Edit]]:
    """`best = score` after a comparison with `best` is removed."""
    for each in form.nodes(ast.If):
        test = each.test
        if not isinstance(test, ast.Compare) or len(test.comparators) != 1:
            continue
        sides = {ast.unparse(test.left): test.comparators[0], ast.unparse(test.comparators[0]): test.left}
        best = next((name for name in sides if "best" in name.lower()), "")
        for statement in each.body:
            if isinstance(statement, ast.Assign) and best and ast.unparse(statement.targets[0]) == best:
                if ast.unparse(statement.value) == ast.unparse(sides[best]) and len(each.body) > 1 and not each.orelse:
                    writes = [one for one in form.nodes(ast.Assign) if ast.unparse(one.targets[0]) == best]
                    if len(writes) == 2 and any("save" in ast.unparse(one) for one in each.body):
                        yield [form.delete(statement), form.here(each)]


@plants("assigned-load-result")
def load_result_assigned(form: Form) -> Iterator[list[Edit]]:
    """`model.load_state_dict(…)` becomes `model = model.load_state_dict(…)`."""
    for call in form.calls("load_state_dict"):
        name = receiver(call)
        if form.is_statement(call) and name in {"model", "net", "self.model"}:
            function = form.function(call)
            later = [each for each in form.nodes(ast.Call) if each.lineno > call.lineno and form.is_in(each, function)]
            if any(receiver(each) == name or ast.unparse(each.func) == name for each in later):
                yield [form.replace(call, HERE + f"{name} = {form.code(call)}")]


@plants("wrong-state", also="optimizer-state-before-device")
def state_of_another_object(form: Form) -> Iterator[list[Edit]]:
    """A checkpoint keeps the model's state under the optimizer's name."""
    for each in form.nodes(ast.Dict):
        keys = {
            key.value: value for key, value in zip(each.keys, each.values, strict=True) if isinstance(key, ast.Constant)
        }
        model = next((value for key, value in keys.items() if "model" in str(key) and _is_state(value)), None)
        for key, value in keys.items():
            if "optim" in str(key) and model is not None and _is_state(value) and form.code(value) != form.code(model):
                yield [form.replace(value, HERE + form.code(model))]
                break


def _is_state(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "state_dict"


@plants(
    "attended-padding", also="missing-attention-mask wrong-attention-mask ignored-attention-mask unread-attention-mask"
)
def mask_dropped(form: Form) -> Iterator[list[Edit]]:
    """`attention_mask=` or `src_key_padding_mask=` of a call of the model is removed."""
    for name in ("attention_mask", "src_key_padding_mask", "key_padding_mask"):
        for call in form.nodes(ast.Call):
            keyword = form.argument(call, name)
            called = ast.unparse(call.func).rsplit(".", 1)[-1].lower()
            if keyword is not None and called in {"model", "encoder", "bert", "transformer", "net", "roberta"}:
                if ast.unparse(keyword.value) != "None" and len(call.args) + len(call.keywords) > 1:
                    yield [form.drop_argument(call, name), Edit(form.span(call)[0], form.span(call)[0], HERE)]


@plants("future-leak", also="wrong-attention-mask unread-attention-mask")
def causal_mask_dropped(form: Form) -> Iterator[list[Edit]]:
    """`tgt_mask=` of a decoder, or `masked_fill` with the causal mask, is removed."""
    for call in form.nodes(ast.Call):
        keyword = form.argument(call, "tgt_mask")
        if keyword is not None and ast.unparse(keyword.value) != "None" and form.class_of(call):
            yield [form.drop_argument(call, "tgt_mask"), Edit(form.span(call)[0], form.span(call)[0], HERE)]


@plants("late-seed", also="missing-seed repeated-seed")
def seed_after_model(form: Form) -> Iterator[list[Edit]]:
    """`torch.manual_seed(…)` is moved below the line that creates the model."""
    for call in form.calls("manual_seed"):
        if receiver(call) != "torch" or not form.is_statement(call):
            continue
        seed = form.statement(call)
        for made in form.nodes(ast.Assign):
            if (
                ast.unparse(made.targets[0]) in {"model", "net"}
                and made.lineno > seed.lineno
                and form.are_neighbours(seed, made)
            ):
                is_only = len(list(form.calls("manual_seed"))) == 1 and isinstance(made.value, ast.Call)
                if is_only and not _has_other_weights(form, made):
                    yield [form.delete(seed), form.after(made, HERE + form.lines_of(seed))]
                    break


def _has_other_weights(form: Form, made: ast.Assign) -> bool:
    """Whether a network is pretrained, or gets its weights after it was made: `model.apply(init_weights)`."""
    name = ast.unparse(made.targets[0])
    is_pretrained = re.search(r"pretrained|peft|prepare_model|load", ast.unparse(made.value)) is not None
    return is_pretrained or re.search(rf"\b{name}\.(apply|load)", form.text) is not None


@plants("refitted-preprocessor", also="fit-before-split")
def refitted_on_test(form: Form) -> Iterator[list[Edit]]:
    """`scaler.transform(X_test)` becomes `scaler.fit_transform(X_test)`."""
    for call in form.calls("transform"):
        fits = [each for each in form.calls("fit_transform", "fit") if receiver(each) == receiver(call)]
        tested = len(call.args) == 1 and re.search(r"test|val", ast.unparse(call.args[0]), re.I)
        if tested and len(fits) == 1 and isinstance(call.func, ast.Attribute) and form.are_neighbours(call, fits[0]):
            yield [form.replace(call, HERE + f"{form.code(call.func.value)}.fit_transform({form.code(call.args[0])})")]


@plants("undetached-target", also="freed-graph")
def target_with_gradients(form: Form) -> Iterator[list[Edit]]:
    """`with torch.no_grad():` around the target of a temporal difference is removed."""
    for each in form.nodes(ast.With):
        if len(each.items) == 1 and "no_grad" in ast.unparse(each.items[0]):
            names = [ast.unparse(one.targets[0]) for one in each.body if isinstance(one, ast.Assign)]
            function = form.function(each)
            after = [one for one in form.calls_in(function, "backward") if one.lineno > each.lineno]
            if any("target" in name for name in names) and after and "next" in form.code(each):
                yield [form.replace(each.items[0].context_expr, "torch.enable_grad()"), form.here(each)]
