"""Mistakes about splits, folds, scores and sums of an evaluation, and about the best model."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, number, receiver
from benchmarks.planted.operators.modes import EVALUATES
from benchmarks.planted.operators.rows import TRAIN_LOADER
from benchmarks.planted.planting import plants

INFINITE = re.compile(r"float\('(inf|Inf|infinity)'\)|(np|numpy|math|torch)\.(inf|Inf)")


@plants("train-data-in-eval")
def training_loader_evaluated(form: Form) -> Iterator[list[Edit]]:
    """The loop of the validation goes through the loader of the training rows."""
    for loop in form.nodes(ast.For):
        held = _loader(loop)
        if held is None or not _evaluates(held) or form.calls_in(loop, "backward", "step"):
            continue
        function = form.function(loop)
        for other in form.nodes(ast.For):
            train = _loader(other)
            if train is not None and TRAIN_LOADER.search(ast.unparse(train)) and form.function(other) is function:
                if form.calls_in(other, "backward") and other.lineno < loop.lineno:
                    yield [form.replace(held, HERE + form.code(train))]
                    break


def _loader(loop: ast.For) -> ast.Name | ast.Attribute | None:
    """The name of what a loop goes through, inside `enumerate` and `tqdm`."""
    found = loop.iter
    while isinstance(found, ast.Call) and last_name(found.func) in {"enumerate", "tqdm"} and found.args:
        found = found.args[0]
    return found if isinstance(found, ast.Name | ast.Attribute) else None


def _evaluates(node: ast.expr) -> bool:
    name = re.sub(r"_?(data)?_?(loader|dl|iter)$", "", last_name(node).lower())
    return bool(EVALUATES.search(name))


def _averages(form: Form, node: ast.AST, name: str) -> Iterator[ast.BinOp]:
    """The divisions of a sum inside a node."""
    for each in form.nodes(ast.BinOp):
        if isinstance(each.op, ast.Div) and form.is_in(each, node):
            if any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(each.left)):
                yield each


def _adds(form: Form, node: ast.AST, name: str) -> list[ast.AugAssign]:
    adds = [one for one in form.nodes(ast.AugAssign) if form.is_in(one, node) and isinstance(one.op, ast.Add)]
    return [one for one in adds if ast.unparse(one.target) == name]


@plants("hits-over-batches")
def correct_over_batches(form: Form) -> Iterator[list[Edit]]:
    """The number of correct rows is divided by the number of batches: `len(loader)`."""
    for name in ("correct", "num_correct", "total_correct", "running_corrects", "corrects", "n_correct"):
        for each in _averages(form, form.tree, name):
            counts = [one for one in _adds(form, form.function(each), name) if "sum()" in ast.unparse(one.value)]
            if counts and (found := re.fullmatch(r"len\(([\w.]*loader)\.dataset\)", ast.unparse(each.right))):
                yield [form.replace(each.right, HERE + f"len({found[1]})")]


@plants("hits-over-batches")
def rows_counted_as_batches(form: Form) -> Iterator[list[Edit]]:
    """The number of rows by which the correct ones are divided counts each batch as one: `total += 1`."""
    for each in form.nodes(ast.AugAssign):
        if ast.unparse(each.target) in {"total", "num_samples", "total_samples"} and isinstance(each.op, ast.Add):
            function = form.function(each)
            divides = _averages(form, function, "correct")
            of_correct = [one for one in divides if re.fullmatch(r"(100\.?0? \* )?correct", ast.unparse(one.left))]
            same = [one for one in of_correct if ast.unparse(one.right) == ast.unparse(each.target)]
            sums = [one for one in _adds(form, function, "correct") if "sum()" in ast.unparse(one.value)]
            if same and sums and re.fullmatch(r"\w+\.(size\(0\)|shape\[0\])", ast.unparse(each.value)):
                yield [form.replace(each.value, HERE + "1")]


@plants("swapped-metric-arguments")
def metric_arguments_swapped(form: Form) -> Iterator[list[Edit]]:
    """Predictions and labels of a score that is not symmetric are swapped."""
    for call in form.calls("precision_score", "recall_score", "classification_report", "roc_auc_score", "r2_score"):
        if len(call.args) == 2:
            label, predicted = call.args
            is_label = re.search(r"true|test|label|target|gt\b|val", ast.unparse(label), re.I)
            is_predicted = re.search(r"pred|prob|score", ast.unparse(predicted), re.I)
            if is_label and is_predicted and "pred" not in ast.unparse(label):
                yield [form.replace(label, HERE + form.code(predicted)), form.replace(predicted, form.code(label))]


@plants("classes-in-ranking-metric")
def auc_of_decisions(form: Form) -> Iterator[list[Edit]]:
    """The area under a curve gets decisions, `predict(X)`, in place of `predict_proba(X)[:, 1]`."""
    for call in form.calls("roc_auc_score", "average_precision_score"):
        given = call.args[1] if len(call.args) > 1 else None
        if isinstance(given, ast.Name):
            function = form.function(call)
            made = [one for one in form.nodes(ast.Assign) if ast.unparse(one.targets[0]) == given.id]
            made = [one for one in made if form.function(one) is function]
            given = made[0].value if len(made) == 1 else None
        if isinstance(given, ast.Subscript) and re.fullmatch(r"\(?:, 1\)?", ast.unparse(given.slice)):
            proba = given.value
            if isinstance(proba, ast.Call) and isinstance(proba.func, ast.Attribute):
                if proba.func.attr == "predict_proba" and len(proba.args) == 1:
                    text = f"{form.code(proba.func.value)}.predict({form.code(proba.args[0])})"
                    yield [form.replace(given, text), Edit(form.span(call)[0], form.span(call)[0], HERE)]


@plants("stale-best-score")
def best_loss_from_zero(form: Form) -> Iterator[list[Edit]]:
    """The lowest loss so far starts at 0 in place of infinity, so that no epoch is the best."""
    for made in form.nodes(ast.Assign):
        name = ast.unparse(made.targets[0])
        if "best" in name.lower() and INFINITE.fullmatch(ast.unparse(made.value)) and "loss" in name.lower():
            tests = [one for one in form.nodes(ast.Compare) if name in {ast.unparse(each) for each in ast.walk(one)}]
            lower = [one for one in tests if ast.unparse(one).endswith(f" < {name}")]
            if len(tests) == 1 and lower and isinstance(form.parent(lower[0]), ast.If):
                yield [form.replace(made.value, "0.0"), form.here(made)]


@plants("weights-only-resume")
def optimizer_not_restored(form: Form) -> Iterator[list[Edit]]:
    """A run goes on from a checkpoint with the weights and the epoch, and without the state of Adam."""
    for call in form.calls("load_state_dict"):
        name = receiver(call)
        if "opt" in name.lower() and form.is_statement(call) and form.says("Adam"):
            block = form.block(form.statement(call))
            text = "\n".join(ast.unparse(each) for each in block)
            goes_on = re.search(r"epoch\w* = [^\n]*\[['\"]epoch", text)
            loads = [each for each in form.calls("load_state_dict") if form.statement(each) in block]
            others = [each for each in loads if re.search(r"(model|net)\w*$", receiver(each))]
            only = sum("opt" in receiver(each).lower() for each in form.calls("load_state_dict")) == 1
            if goes_on and others and only and any(form.calls("backward")):
                yield [form.delete(form.statement(call)), form.here(form.statement(others[0]))]


@plants("train-data-in-eval")
def split_twice(form: Form) -> Iterator[list[Edit]]:
    """The rows are split at random once for the training part and once more for the validation part."""
    for made in form.assigned("random_split"):
        target, call = made.targets[0], made.value
        if isinstance(target, ast.Tuple) and len(target.elts) == 2 and isinstance(call, ast.Call):
            one, other = (ast.unparse(each) for each in target.elts)
            is_plain = form.argument(call, "generator") is None and len(call.args) == 2 and "_" not in {one, other}
            if is_plain and form.code(call.args[0]) not in {one, other}:
                text = form.lines_of(made).split("=", 1)[1].strip()
                edits = form.after(made, f"_, {other} = {text}")
                yield [form.replace(target, HERE + f"{one}, _"), edits]


@plants("swapped-names")
def split_unpacked_in_wrong_order(form: Form) -> Iterator[list[Edit]]:
    """`X_train, X_test, y_train, y_test = train_test_split(…)` is unpacked as `X_train, y_train, X_test, y_test`."""
    for made in form.assigned("train_test_split"):
        target, call = made.targets[0], made.value
        if isinstance(target, ast.Tuple) and isinstance(call, ast.Call) and len(call.args) == 2:
            if len(target.elts) == 4 and all(isinstance(each, ast.Name) for each in target.elts):
                names = [ast.unparse(each) for each in target.elts]
                if "train" in names[0] and "train" in names[2] and "train" not in names[1] + names[3]:
                    code = f"{names[0]}, {names[2]}, {names[1]}, {names[3]}"
                    yield [form.replace(target, HERE + (f"({code})" if form.code(target).startswith("(") else code))]


@plants("lasting-sum")
def sum_not_reset(form: Form) -> Iterator[list[Edit]]:
    """`running_loss = 0.0` is moved above the loop of the epochs, and its average is computed in each epoch."""
    for made in form.nodes(ast.Assign):
        loop, name = form.parent(made), ast.unparse(made.targets[0])
        if not isinstance(loop, ast.For) or "epoch" not in ast.unparse(loop.target) or number(made.value) != 0:
            continue
        writes = [one for one in form.nodes(ast.Assign) if ast.unparse(one.targets[0]) == name]
        inner = [one for one in loop.body if isinstance(one, ast.For) and _adds(form, one, name)]
        adds = _adds(form, form.function(made), name)
        if len(made.targets) == 1 and len(writes) == 1 and inner and len(adds) == 1 and form.is_alone(made):
            outside = [one for one in _averages(form, loop, name) if not form.is_in(one, inner[0])]
            if outside and form.loop(loop) is None:
                yield [form.delete(made), form.before(loop, form.lines_of(made)), form.here(adds[0])]


@plants("wrong-attention-mask")
def padding_mask_inverted(form: Form) -> Iterator[list[Edit]]:
    """The padding mask of torch's attention is True at the words and False at the padding."""
    names = ("key_padding_mask", "src_key_padding_mask", "tgt_key_padding_mask", "memory_key_padding_mask")
    given: set[str] = set()
    for call in form.nodes(ast.Call):
        for keyword in call.keywords:
            if keyword.arg in names:
                given.add(ast.unparse(keyword.value))
                if _is_of_padding(keyword.value):
                    yield _inverted(form, keyword.value)
    for made in form.nodes(ast.Assign):
        if ast.unparse(made.targets[0]) in given and _is_of_padding(made.value) and form.says("nn.Transformer"):
            yield _inverted(form, made.value)


def _is_of_padding(node: ast.expr) -> bool:
    is_equal = isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.ops[0], ast.Eq)
    return is_equal and bool(re.search(r"pad", ast.unparse(node), re.I))


def _inverted(form: Form, node: ast.expr) -> list[Edit]:
    assert isinstance(node, ast.Compare)
    return [form.replace(node, HERE + f"{form.code(node.left)} != {form.code(node.comparators[0])}")]


@plants("wrong-attention-mask", also="future-leak")
def own_word_masked(form: Form) -> Iterator[list[Edit]]:
    """The causal mask hides each word from itself, and the first one from everything: `triu(…, diagonal=0)`."""
    for call in form.calls("triu"):
        diagonal = form.argument(call, "diagonal")
        value = diagonal.value if diagonal is not None else call.args[1] if len(call.args) == 2 else None
        full = call.args and re.search(r"\b(ones|full)\(", ast.unparse(call.args[0]))
        if value is not None and number(value) == 1 and full and "mask" in ast.unparse(form.statement(call)):
            yield [form.replace(value, HERE + "0")]


@plants("repeated-seed")
def seed_set_each_epoch(form: Form) -> Iterator[list[Edit]]:
    """`torch.manual_seed(…)` is moved into the loop of the epochs, so that each repeats the same random numbers."""
    for call in form.calls("manual_seed"):
        if receiver(call) != "torch" or not form.is_statement(call) or len(list(form.calls("manual_seed"))) != 1:
            continue
        seed = form.statement(call)
        for loop in form.nodes(ast.For):
            if "epoch" in ast.unparse(loop.target) and loop.lineno > seed.lineno and form.are_neighbours(seed, loop):
                inner = any(isinstance(each, ast.For) for each in loop.body)
                if inner and form.calls_in(loop, "backward") and form.loop(loop) is None and form.says("shuffle=True"):
                    yield [form.delete(seed), form.before(loop.body[0], HERE + form.lines_of(seed))]
                    break


@plants("model-across-folds")
def model_made_before_folds(form: Form) -> Iterator[list[Edit]]:
    """The network is created once, and each fold trains it further."""
    for loop in form.nodes(ast.For):
        if not re.search(r"fold\w*\.split\(|\.split\(", ast.unparse(loop.iter)):
            continue
        trains = form.calls_in(loop, "backward") or [
            call for call in form.calls_in(loop, "fit") if form.argument(call, "epochs")
        ]
        bound = {each.id for each in ast.walk(loop) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Store)}
        for made in loop.body:
            if isinstance(made, ast.Assign) and ast.unparse(made.targets[0]) in {"model", "net"} and trains:
                used = {each.id for each in ast.walk(made.value) if isinstance(each, ast.Name)}
                if isinstance(made.value, ast.Call) and not used & bound and "keras" not in ast.unparse(made.value):
                    if "Sequential" not in ast.unparse(made.value) and form.is_alone(made):
                        yield [form.delete(made), form.before(loop, form.lines_of(made)), form.here(loop)]
                        break


@plants("class-weights-in-sampler")
def sampler_gets_class_weights(form: Form) -> Iterator[list[Edit]]:
    """A `WeightedRandomSampler` gets one weight for each class in place of one for each row."""
    for call in form.calls("WeightedRandomSampler"):
        given = call.args[0] if call.args else getattr(form.argument(call, "weights"), "value", None)
        made = [one for one in form.nodes(ast.Assign) if given and ast.unparse(one.targets[0]) == ast.unparse(given)]
        if given is not None and len(made) == 1:
            table = _table(made[0].value)
            if table is not None and form.function(made[0]) is form.function(call):
                yield [form.replace(given, HERE + form.code(table))]


def _table(value: ast.expr) -> ast.expr | None:
    """`weights` in `weights[labels]` or in `[weights[label] for label in labels]`."""
    if isinstance(value, ast.ListComp):
        value = value.elt
    if isinstance(value, ast.Subscript) and re.search(r"class|weight", ast.unparse(value.value)):
        return value.value
    return None


@plants("fit-before-split")
def scaler_fitted_before_split(form: Form) -> Iterator[list[Edit]]:
    """A scaler that is fitted on the training rows is fitted on all rows, before they are split."""
    for made in form.assigned("train_test_split"):
        target, call = made.targets[0], made.value
        if not isinstance(target, ast.Tuple) or not isinstance(call, ast.Call) or len(target.elts) != 4:
            continue
        train, rows = ast.unparse(target.elts[0]), ast.unparse(call.args[0]) if call.args else ""
        for fit in form.calls("fit_transform"):
            scaler = receiver(fit)
            created = [one for one in form.nodes(ast.Assign) if ast.unparse(one.targets[0]) == scaler]
            uses = [one for one in form.calls("transform") if receiver(one) == scaler]
            if [ast.unparse(each) for each in fit.args] == [train] and rows.isidentifier() and len(created) == 1:
                calls = [fit, *uses]
                plain = all(len(one.args) == 1 and not one.keywords for one in calls) and form.is_alone(created[0])
                statements = [created[0], *map(form.statement, calls)]
                together = all(form.are_neighbours(one, made) and one.lineno > made.lineno for one in statements)
                if len(uses) == 1 and plain and together:
                    lines = f"{form.lines_of(created[0])}\n{rows} = {scaler}.fit_transform({rows})"
                    unscaled = [form.replace(one, form.code(one.args[0])) for one in calls]
                    yield [form.before(made, HERE + lines), form.delete(created[0]), *unscaled]


@plants("dropped-eval-rows")
def evaluated_rows_dropped(form: Form) -> Iterator[list[Edit]]:
    """The loader of the test rows leaves out the last incomplete batch: `drop_last=True`."""
    for made in form.assigned("DataLoader"):
        call = made.value
        if isinstance(call, ast.Call) and _evaluates(made.targets[0]) and form.argument(call, "drop_last") is None:
            size = form.argument(call, "batch_size")
            if size is not None and ast.unparse(size.value) != "1" and any(form.calls("backward")):
                yield [form.add_argument(call, HERE + "drop_last=True")]
