"""Mistakes around the fit of a Keras network: generators, data sets, callbacks, metrics, histories and predictions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, number, receiver
from benchmarks.planted.operators.arguments import argument, text_of, without
from benchmarks.planted.operators.keras import CLASSES, RECURRENT, compiled, is_keras, loss_of
from benchmarks.planted.planting import plants

FITS = ("fit", "fit_generator")


def _fits_in(form: Form) -> list[ast.Call]:
    """The calls that fit a network: those that give the number of epochs."""
    return [call for call in form.calls(*FITS) if argument(call, "epochs") is not None] if is_keras(form) else []


def _made(form: Form, *names: str) -> Iterator[tuple[str, ast.Call]]:
    """Plain names that are assigned once, by a call of one of these last names."""
    for statement in form.assigned(*names):
        target, made = statement.targets[0], statement.value
        if isinstance(target, ast.Name) and isinstance(made, ast.Call) and _is_bound_once(form, target.id):
            yield target.id, made


def _is_bound_once(form: Form, name: str) -> bool:
    return sum(isinstance(each.ctx, ast.Store) and each.id == name for each in form.nodes(ast.Name)) == 1


@plants("wrong-metric-direction", also="unavailable-monitor")
def monitor_mode_reversed(form: Form) -> Iterator[list[Edit]]:
    """A callback keeps the weights of the highest loss, or of the lowest accuracy."""
    for call in form.calls("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau") if is_keras(form) else ():
        monitor, given = text_of(argument(call, "monitor")), argument(call, "mode")
        reversed_mode = {"loss": "max", "accuracy": "min", "acc": "min"}.get(monitor.removeprefix("val_"))
        if reversed_mode and text_of(given) in ("auto", "min", "max"):
            assert given is not None
            yield [form.here(call), form.replace(given, f'{HERE}"{reversed_mode}"')]


@plants("shuffled-batches")
def batched_before_shuffled(form: Form) -> Iterator[list[Edit]]:
    """`ds.shuffle(n).batch(b)` becomes `ds.batch(b).shuffle(n)`, which shuffles whole batches."""
    for call in form.calls("batch") if form.says("tensorflow", "keras") else ():
        inner = call.func.value if isinstance(call.func, ast.Attribute) else None
        if isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr == "shuffle":
            shuffled, batched = form.code(inner)[len(form.code(inner.func.value)) :], form.span(inner)[1]
            text = form.text[batched : form.span(call)[1]] + HERE + shuffled
            yield [Edit(form.span(inner.func.value)[1], form.span(call)[1], text)]


@plants("lasting-sum")
def metric_not_reset(form: Form) -> Iterator[list[Edit]]:
    """A metric of Keras is no longer reset in the loop over the epochs."""
    for call in form.calls("reset_states", "reset_state") if form.says("tensorflow", "keras") else ():
        name, loop = receiver(call), form.loop(call)
        is_metric = re.search(rf"\b{re.escape(name)} *= *(tf\.|keras\.|tf\.keras\.)*metrics\.", form.text)
        is_only = len([each for each in form.calls("reset_states", "reset_state") if receiver(each) == name]) == 1
        if loop is not None and is_metric and is_only and form.is_statement(call):
            yield [form.delete(form.statement(call)), form.here(loop)]


@plants("unavailable-monitor", also="missing-best-metric")
def history_without_validation(form: Form) -> Iterator[list[Edit]]:
    """`fit` no longer validates, and the script reads `val_loss` from its history afterwards."""
    fits = [call for call in _fits_in(form) if isinstance(form.parent(call), ast.Assign)]
    if len(_fits_in(form)) != 1 or len(fits) != 1:
        return
    statement = form.statement(fits[0])
    name = re.escape(ast.unparse(statement.targets[0])) if isinstance(statement, ast.Assign) else ""
    reads = [
        each for each in form.nodes(ast.Subscript) if re.fullmatch(rf"{name}\.history\['val_\w+'\]", ast.unparse(each))
    ]
    names = ("validation_data", "validation_split", "validation_steps")
    if reads and any(argument(fits[0], each) is not None for each in names[:2]):
        yield [form.here(fits[0]), *map(form.here, reads), without(form, fits[0], *names)]


@plants("unavailable-monitor", also="missing-best-metric")
def history_of_another_metric(form: Form) -> Iterator[list[Edit]]:
    """The accuracy is read from the history by its name in old versions, after the whole training."""
    call = compiled(form)
    metrics = form.code(given) if call is not None and (given := argument(call, "metrics")) is not None else ""
    if call is None or not re.fullmatch(r"\[\s*['\"]accuracy['\"]\s*,?\s*\]", metrics):
        return
    for node in form.nodes(ast.Subscript):
        if re.fullmatch(r"\w+\.history\['(val_)?accuracy'\]", ast.unparse(node)):
            assert isinstance(node.slice, ast.Constant)
            text = str(node.slice.value).replace("accuracy", "acc")
            yield [form.here(call), *map(form.here, _fits_in(form)), form.replace(node.slice, f'{HERE}"{text}"')]


@plants("discarded-map")
def dataset_step_dropped(form: Form) -> Iterator[list[Edit]]:
    """`ds = ds.batch(b)` of a data set of TensorFlow loses its `ds =`."""
    for statement in form.assigned("batch", "map", "shuffle", "prefetch") if form.says("tensorflow") else ():
        target, made = statement.targets[0], statement.value
        chain = ast.unparse(made)
        is_own = isinstance(target, ast.Name) and re.match(rf"{target.id}(\.\w+\(.*)", chain, re.DOTALL) is not None
        if is_own and form.says("tf.data", "image_dataset_from_directory") and form.is_alone(statement):
            yield [form.replace(statement, HERE + form.code(made))]


@plants("indexed-scalar", also="unavailable-monitor missing-best-metric")
def unpacked_without_metrics(form: Form) -> Iterator[list[Edit]]:
    """`compile` loses its metrics, and the script unpacks loss and accuracy of `evaluate`."""
    call = compiled(form)
    if call is None or argument(call, "metrics") is None:
        return
    for statement in form.assigned("evaluate"):
        made = statement.value
        if isinstance(statement.targets[0], ast.Tuple) and len(statement.targets[0].elts) == 2:
            assert isinstance(made, ast.Call)
            if receiver(made) == receiver(call):
                yield [form.here(statement), form.here(call), without(form, call, "metrics")]
                return


@plants("discarded-tensor", also="discarded-module")
def layer_left_unconnected(form: Form) -> Iterator[list[Edit]]:
    """`x = Dropout(0.5)(x)` of a functional network loses its `x =`."""
    for statement in form.nodes(ast.Assign) if is_keras(form) else ():
        target, made = statement.targets[0], statement.value
        if not isinstance(target, ast.Name) or not isinstance(made, ast.Call) or not isinstance(made.func, ast.Call):
            continue
        is_same = len(made.args) == 1 and form.code(made.args[0]) == target.id and len(statement.targets) == 1
        if is_same and last_name(made.func.func) in (
            "Dropout",
            "BatchNormalization",
            "Activation",
            "ReLU",
            "LeakyReLU",
        ):
            if form.is_alone(statement):
                yield [form.replace(statement, HERE + form.code(made))]


@plants("keras-input-rank", also="shape-mismatch")
def classifier_of_base_kept(form: Form) -> Iterator[list[Edit]]:
    """A pretrained network below a new classifier keeps its own, since `include_top=False` is removed."""
    for call in form.calls(*BASES) if is_keras(form) else ():
        given = argument(call, "include_top")
        heads = [each for each in form.calls("Flatten", "GlobalAveragePooling2D") if each.lineno > call.lineno]
        if isinstance(given, ast.Constant) and given.value is False and heads:
            yield [form.here(call), form.here(heads[0]), without(form, call, "include_top")]
            return


BASES = (
    "VGG16",
    "VGG19",
    "ResNet50",
    "ResNet50V2",
    "MobileNet",
    "MobileNetV2",
    "InceptionV3",
    "Xception",
    "DenseNet121",
    "EfficientNetB0",
)


@plants("unused-callback")
def callbacks_not_passed(form: Form) -> Iterator[list[Edit]]:
    """Early stopping or a checkpoint is made, and `fit` no longer gets it."""
    fits = _fits_in(form)
    given = argument(fits[0], "callbacks") if len(fits) == 1 else None
    for name, made in _made(form, "EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau") if given else ():
        assert given is not None
        is_only = len(re.findall(rf"\b{name}\b", form.text)) == 2
        if is_only and isinstance(given, ast.List) and name in map(form.code, given.elts):
            yield [form.here(fits[0]), form.here(made), without(form, fits[0], "callbacks")]
            return


@plants("shape-mismatch", also="keras-input-rank keras-class-count broadcast-loss")
def steps_of_last_recurrent_returned(form: Form) -> Iterator[list[Edit]]:
    """The last recurrent layer returns all its steps to the dense layers, and the labels are one for each row."""
    adds = [call for call in form.calls("add") if call.args and isinstance(call.args[0], ast.Call) and is_keras(form)]
    for first, second in pairwise(adds):
        one, other = first.args[0], second.args[0]
        is_pair = isinstance(one, ast.Call) and isinstance(other, ast.Call) and last_name(one.func) in RECURRENT
        if is_pair and isinstance(one, ast.Call) and isinstance(other, ast.Call) and last_name(other.func) == "Dense":
            if argument(one, "return_sequences") is None and not form.says(
                "TimeDistributed", "Flatten", "RepeatVector"
            ):
                marks = [*map(form.here, _fits_in(form)), form.here(second)]
                yield [*marks, form.add_argument(one, f"return_sequences={HERE}True")]


@plants("endless-epoch")
def steps_counted_in_rows(form: Form) -> Iterator[list[Edit]]:
    """An epoch has as many batches as there are rows: `steps_per_epoch=len(x) // batch_size` loses its divisor."""
    for call in _fits_in(form):
        given = argument(call, "steps_per_epoch")
        is_floor = isinstance(given, ast.BinOp) and isinstance(given.op, ast.FloorDiv)
        if is_floor and isinstance(given, ast.BinOp) and "batch" in form.code(given.right).lower():
            yield [form.here(call), form.replace(given, HERE + form.code(given.left))]


@plants("tape-mismatch")
def forward_before_tape(form: Form) -> Iterator[list[Edit]]:
    """The forward pass is above the `with tf.GradientTape()`, so the gradients of the loss are None."""
    for block in form.nodes(ast.With) if form.says("GradientTape") else ():
        first = block.body[0]
        is_pass = isinstance(first, ast.Assign) and isinstance(first.value, ast.Call)
        is_tape = "GradientTape" in ast.unparse(block.items[0].context_expr) and len(block.items) == 1
        calls = [each for each in ast.walk(block) if isinstance(each, ast.Call)]
        networks = [each for each in calls if argument(each, "training") is not None or "model" in last_name(each.func)]
        if is_pass and is_tape and isinstance(first, ast.Assign) and networks == [first.value] and form.is_alone(first):
            if len(block.body) > 1 and first.lineno > block.lineno:
                yield [*form.move_before(first, block), form.here(block.body[1])]


@plants("tape-mismatch")
def gradients_not_applied(form: Form) -> Iterator[list[Edit]]:
    """The gradients of a tape are computed, and `apply_gradients` is removed."""
    found = list(form.calls("apply_gradients"))
    for call in found if len(found) == 1 and form.says("GradientTape") else ():
        taken = [each for each in form.calls("gradient") if form.function(each) is form.function(call)]
        if form.is_statement(call) and len(taken) == 1 and isinstance(form.parent(taken[0]), ast.Assign):
            yield [form.here(taken[0]), form.delete(form.statement(call))]


@plants("unknown-attribute", also="unsaved-model unknown-argument wrong-argument-kind")
def model_replaced_by_history(form: Form) -> Iterator[list[Edit]]:
    """`model = model.fit(…)`: the name of the network is that of its history when it is used after the training."""
    for call in _fits_in(form):
        statement, name = form.statement(call), receiver(call)
        is_history = isinstance(statement, ast.Assign) and statement.value is call
        later = [
            each for each in form.calls("evaluate", "predict", "save", "save_weights") if each.lineno > call.lineno
        ]
        uses = [each for each in later if receiver(each) == name and form.function(each) is form.function(call)]
        stores = [each.lineno for each in form.nodes(ast.Name) if each.id == name and isinstance(each.ctx, ast.Store)]
        is_kept = bool(uses) and not any(call.lineno < line <= max(each.lineno for each in uses) for line in stores)
        if is_history and is_kept and name.isidentifier() and form.loop(call) is None:
            assert isinstance(statement, ast.Assign)
            yield [form.replace(statement.targets[0], HERE + name), *map(form.here, uses)]


@plants("logits-in-metric")
def accuracy_of_equal_numbers(form: Form) -> Iterator[list[Edit]]:
    """`metrics=["accuracy"]` of a classifier becomes `Accuracy()`, which counts probabilities that equal the label."""
    call = compiled(form)
    given = argument(call, "metrics") if call is not None else None
    is_one = given is not None and re.fullmatch(r"\[?\s*['\"](accuracy|acc)['\"]\s*,?\s*\]?", form.code(given))
    if call is not None and is_one and given is not None and loss_of(form) in (*CLASSES, "binary_crossentropy"):
        prefix = "tf.keras." if form.says("import tensorflow as tf") else "keras."
        if prefix == "tf.keras." or re.search(
            r"^(import keras|from tensorflow import keras)$", form.text, re.MULTILINE
        ):
            yield [form.here(call), form.replace(given, f"[{HERE}{prefix}metrics.Accuracy()]")]


@plants("missing-activation")
def hidden_activation_removed(form: Form) -> Iterator[list[Edit]]:
    """A dense layer between two others loses its activation, so both are one linear map."""
    adds = [call for call in form.calls("add") if call.args and isinstance(call.args[0], ast.Call) and is_keras(form)]
    stacks = [(one.args[0], two.args[0]) for one, two in pairwise(adds) if receiver(one) == receiver(two)]
    for call in form.calls("Sequential") if is_keras(form) else ():
        items = call.args[0].elts if call.args and isinstance(call.args[0], ast.List) else []
        stacks += list(pairwise(items))
    for one, two in stacks:
        if isinstance(one, ast.Call) and isinstance(two, ast.Call):
            are_dense = last_name(one.func) == last_name(two.func) == "Dense"
            if are_dense and text_of(argument(one, "activation")) in ("relu", "tanh", "elu", "selu", "sigmoid"):
                yield [form.here(one), form.here(two), without(form, one, "activation")]


@plants("high-learning-rate")
def adam_rate_times_thousand(form: Form) -> Iterator[list[Edit]]:
    """The learning rate of Adam in Keras is a thousand times as high."""
    for call in form.calls("Adam", "RMSprop", "Nadam", "AdamW") if is_keras(form) and not form.says("torch") else ():
        given = argument(call, "learning_rate") or argument(call, "lr") or next(iter(call.args), None)
        rate = number(given)
        if given is not None and rate and 1e-4 <= rate <= 0.01 and list(form.calls("fit", "apply_gradients")):
            yield [form.here(call), form.replace(given, f"{HERE}{rate * 1000:g}")]


@plants("last-weights-tested", also="unrestored-best-weights")
def best_weights_not_loaded(form: Form) -> Iterator[list[Edit]]:
    """The weights that a checkpoint kept are no longer loaded before the network is tested."""
    fits = _fits_in(form)
    loads = [call for call in form.calls("load_weights") if form.is_statement(call)]
    checkpoints = [each for each in form.calls("ModelCheckpoint") if argument(each, "save_best_only") is not None]
    if len(fits) != 1 or len(loads) != 1 or len(checkpoints) != 1:
        return
    later = [each for each in form.calls("evaluate", "predict") if each.lineno > loads[0].lineno > fits[0].lineno]
    tests = [each for each in later if form.function(each) is form.function(fits[0])]
    if tests and form.function(loads[0]) is form.function(fits[0]) and receiver(loads[0]) == receiver(fits[0]):
        yield [form.delete(form.statement(loads[0])), form.here(fits[0]), *map(form.here, tests)]
