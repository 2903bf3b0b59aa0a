"""Mistakes in networks of Keras and in how they are fitted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from benchmarks.accuracy.code import HERE, Edit
from benchmarks.planted.form import Form, last_name, receiver
from benchmarks.planted.operators.arguments import argument, text_of, without
from benchmarks.planted.planting import plants

CLASSES = ("categorical_crossentropy", "sparse_categorical_crossentropy")
ONE_HOT = ("to_categorical", "get_dummies", "OneHotEncoder", "LabelBinarizer", "one_hot", "class_mode", "label_mode")
GENERATORS = ("ImageDataGenerator", "flow_from", "image_dataset_from_directory")


def is_keras(form: Form) -> bool:
    """Whether a file names Keras."""
    return form.says("keras")


def compiled(form: Form) -> ast.Call | None:
    """The only call of `compile` of a file with a loss."""
    found = [call for call in form.calls("compile") if argument(call, "loss") is not None]
    return found[0] if len(found) == 1 and is_keras(form) and len(list(form.calls("compile"))) == 1 else None


def loss_of(form: Form) -> str:
    """The loss of the only `compile`, by its name in small letters."""
    call = compiled(form)
    loss = argument(call, "loss") if call else None
    if loss is None:
        return ""
    return text_of(loss) or last_name(loss)


def last_layer(form: Form) -> ast.Call | None:
    """The last dense layer of a file with one stack of layers, if it is written after all others."""
    layers = [call for call in form.calls("Dense") if call.args or call.keywords]
    is_one = len(list(form.calls("Sequential"))) == 1 and form.text.count("Model(") <= 1
    return layers[-1] if layers and is_one and is_keras(form) else None


def _activated(form: Form, *names: str) -> ast.Call | None:
    """The last layer, if it has one of these activations and no further layer follows."""
    layer = last_layer(form)
    return layer if layer is not None and text_of(argument(layer, "activation")) in names else None


def _marks(form: Form, *nodes: ast.expr | ast.stmt | None) -> list[Edit]:
    return [form.here(node) for node in nodes if node is not None]


@plants("keras-logits-loss", also="keras-activation-mismatch")
def softmax_removed(form: Form) -> Iterator[list[Edit]]:
    """The last layer loses its softmax, and the loss takes probabilities."""
    layer = _activated(form, "softmax")
    if layer is not None and loss_of(form) in CLASSES:
        yield [*_marks(form, compiled(form), layer), without(form, layer, "activation")]


@plants("keras-logits-loss", also="keras-activation-mismatch")
def sigmoid_removed(form: Form) -> Iterator[list[Edit]]:
    """The last layer loses its sigmoid, and the loss takes probabilities."""
    layer = _activated(form, "sigmoid")
    if layer is not None and loss_of(form) == "binary_crossentropy":
        yield [*_marks(form, compiled(form), layer), without(form, layer, "activation")]


@plants("keras-logits-loss", also="keras-activation-mismatch")
def softmax_replaced_by_relu(form: Form) -> Iterator[list[Edit]]:
    """The last layer of a classifier ends with ReLU."""
    layer = _activated(form, "softmax")
    if layer is not None and loss_of(form) in CLASSES:
        given = argument(layer, "activation")
        assert given is not None
        yield [*_marks(form, compiled(form), layer), form.replace(given, '"relu"')]


@plants("keras-softmax-logits-loss")
def logits_expected_of_softmax(form: Form) -> Iterator[list[Edit]]:
    """The loss takes logits, and the network ends with a softmax."""
    layer, call = _activated(form, "softmax"), compiled(form)
    names = {"categorical_crossentropy": "CategoricalCrossentropy", CLASSES[1]: "SparseCategoricalCrossentropy"}
    loss = argument(call, "loss") if call is not None else None
    if layer is not None and loss is not None and text_of(loss) in names and form.says("import tensorflow as tf"):
        text = f"{HERE}tf.keras.losses.{names[text_of(loss)]}(from_logits=True)"
        yield [*_marks(form, call, layer), form.replace(loss, text)]


@plants("keras-sparse-mismatch", also="keras-class-count keras-input-rank shape-mismatch")
def sparse_loss_for_one_hot(form: Form) -> Iterator[list[Edit]]:
    """Labels that the script makes one-hot reach a loss for class numbers."""
    call = compiled(form)
    loss = argument(call, "loss") if call is not None else None
    if call is not None and text_of(loss) == CLASSES[0] and form.says("to_categorical(", "get_dummies("):
        assert loss is not None
        yield [*_marks(form, call, *form.calls("fit")), form.replace(loss, f'{HERE}"{CLASSES[1]}"')]


@plants("keras-sparse-mismatch", also="keras-class-count keras-input-rank shape-mismatch")
def dense_loss_for_class_numbers(form: Form) -> Iterator[list[Edit]]:
    """Class numbers reach a loss for one-hot labels."""
    call = compiled(form)
    loss = argument(call, "loss") if call is not None else None
    if call is not None and text_of(loss) == CLASSES[1] and not form.says(*ONE_HOT, *GENERATORS):
        assert loss is not None
        yield [*_marks(form, call, *form.calls("fit")), form.replace(loss, f'{HERE}"{CLASSES[0]}"')]


@plants("keras-sparse-mismatch", also="keras-class-count keras-input-rank shape-mismatch")
def one_hot_removed(form: Form) -> Iterator[list[Edit]]:
    """The training labels are no longer made one-hot, as the loss expects them."""
    call = compiled(form)
    if call is None or loss_of(form) != CLASSES[0]:
        return
    for statement in form.assigned("to_categorical"):
        made = statement.value
        target = ast.unparse(statement.targets[0])
        if isinstance(made, ast.Call) and made.args and form.code(made.args[0]) == target and "train" in target:
            if form.is_alone(statement):
                yield [form.delete(statement), *_marks(form, call, *form.calls("fit"))]


@plants("keras-class-count", also="label-out-of-range shape-mismatch keras-input-rank")
def one_output_less(form: Form) -> Iterator[list[Edit]]:
    """The last layer has one output less than the labels have classes."""
    layer = _activated(form, "softmax")
    units = (argument(layer, "units") or next(iter(layer.args), None)) if layer is not None else None
    if layer is None or not isinstance(units, ast.Constant) or not isinstance(units.value, int) or units.value < 3:
        return
    counted = re.search(rf"(to_categorical\([^()]*,\s*(num_classes\s*=\s*)?{units.value}\))", form.text)
    known = re.search(r"\b(mnist|cifar10|fashion_mnist|reuters)\.load_data\(", form.text)
    if counted or known:
        marks = _marks(form, compiled(form), *form.calls("fit"))
        yield [*marks, form.replace(units, f"{HERE}{units.value - 1}")]


@plants("keras-single-unit-softmax", also="keras-activation-mismatch")
def softmax_over_one_output(form: Form) -> Iterator[list[Edit]]:
    """A network with one output ends with a softmax."""
    layer = _activated(form, "sigmoid")
    units = (argument(layer, "units") or next(iter(layer.args), None)) if layer is not None else None
    if layer is not None and isinstance(units, ast.Constant) and units.value == 1:
        given = argument(layer, "activation")
        assert given is not None
        yield [*_marks(form, layer, compiled(form)), form.replace(given, '"softmax"')]


@plants("keras-activation-mismatch", also="keras-logits-loss keras-class-count")
def binary_loss_for_classes(form: Form) -> Iterator[list[Edit]]:
    """A softmax over several classes is trained by binary cross-entropy."""
    layer, call = _activated(form, "softmax"), compiled(form)
    units = (argument(layer, "units") or next(iter(layer.args), None)) if layer is not None else None
    loss = argument(call, "loss") if call is not None else None
    is_many = isinstance(units, ast.Constant) and isinstance(units.value, int) and units.value > 2
    if is_many and loss is not None and text_of(loss) in CLASSES:
        yield [*_marks(form, layer, call), form.replace(loss, f'{HERE}"binary_crossentropy"')]


@plants("keras-accuracy-for-regression")
def accuracy_of_a_regression(form: Form) -> Iterator[list[Edit]]:
    """A regression is measured by accuracy."""
    call = compiled(form)
    if call is not None and loss_of(form).lower() in ("mse", "mean_squared_error", "mae", "mean_absolute_error"):
        text = 'metrics=["accuracy"]'
        if last_layer(form) is not None and "acc" not in form.code(call):
            yield [form.here(call), without(form, call, "metrics", add=text)]


def _fits(form: Form) -> Iterator[tuple[ast.Call, ast.expr, ast.expr]]:
    """The calls of `fit` of a network, with their inputs and labels as plain names."""
    for call in form.calls("fit") if is_keras(form) else ():
        given = [*call.args[:2], *(each for name in ("x", "y") if (each := argument(call, name)) is not None)]
        if (
            len(given) == 2
            and all(isinstance(each, ast.Name) for each in given)
            and argument(call, "epochs") is not None
        ):
            yield call, given[0], given[1]


@plants("train-data-in-eval", also="overwritten-eval-data")
def training_rows_validate(form: Form) -> Iterator[list[Edit]]:
    """`fit` validates on its training rows."""
    for call, inputs, labels in _fits(form):
        held_out = argument(call, "validation_data")
        if isinstance(held_out, ast.Tuple) and len(held_out.elts) == 2:
            text = f"{HERE}({form.code(inputs)}, {form.code(labels)})"
            if form.code(held_out.elts[0]) != form.code(inputs):
                yield [form.here(call), form.replace(held_out, text)]


@plants("mispaired-labels", also="shuffled-labels train-data-in-eval keras-class-count shape-mismatch keras-input-rank")
def labels_of_the_other_rows(form: Form) -> Iterator[list[Edit]]:
    """`fit` gets the training inputs with the test labels."""
    for call, inputs, labels in _fits(form):
        other = form.code(labels).replace("train", "test")
        bound = [each.lineno for each in form.nodes(ast.Name) if each.id == other and isinstance(each.ctx, ast.Store)]
        if "train" in form.code(inputs) and other != form.code(labels) and bound and min(bound) < call.lineno:
            yield [form.here(call), form.replace(labels, HERE + other)]


@plants("shuffled-labels")
def inputs_shuffled_alone(form: Form) -> Iterator[list[Edit]]:
    """The training inputs are shuffled, and their labels are not."""
    for call, inputs, _ in _fits(form):
        if form.says("import numpy as np"):
            statement = form.statement(call)
            yield [form.before(statement, f"{HERE}np.random.shuffle({form.code(inputs)})"), form.here(call)]


@plants("uncompiled-model")
def compile_removed(form: Form) -> Iterator[list[Edit]]:
    """A network is fitted and not compiled."""
    call = compiled(form)
    if call is None or form.says("load_model", "KerasClassifier", "KerasRegressor") or not form.is_statement(call):
        return
    for fit in form.calls("fit"):
        if receiver(fit) == receiver(call) and form.function(fit) is form.function(call):
            yield [form.delete(form.statement(call)), form.here(fit)]
            return


@plants("unmatched-normalization", also="shifted-eval-data unscaled-pixels pixel-range-mismatch")
def scaling_of_one_split_removed(form: Form) -> Iterator[list[Edit]]:
    """The pixels of the test images are no longer divided by 255."""
    for statement in (*form.nodes(ast.Assign), *form.nodes(ast.AugAssign)):
        text = ast.unparse(statement)
        target = text.split("=")[0].strip(" /")
        other = re.sub("test|val", "train", target)
        if "255" in text and re.fullmatch(r"\w+", target) and other != target and form.is_alone(statement):
            is_plain = re.fullmatch(
                rf"{target} (/= 255(\.0)?|= {target}( / 255(\.0)?|\.astype\(.\w+.\) / 255(\.0)?))", text
            )
            if is_plain and re.search(rf"\b{other}\b[^\n]*255", form.text) and is_keras(form):
                uses = [each for each in form.calls("fit", "evaluate", "predict") if target in form.code(each)]
                if uses:
                    yield [form.delete(statement), *map(form.here, uses)]


@plants("unscaled-pixels", also="pixel-range-mismatch unmatched-normalization")
def scaling_removed(form: Form) -> Iterator[list[Edit]]:
    """Images from a generator or a loader of Keras are no longer divided by 255."""
    for call in form.calls("ImageDataGenerator"):
        given = argument(call, "rescale")
        if given is not None and "255" in form.code(given) and not form.says("preprocess_input", "Rescaling("):
            everywhere = [without(form, each, "rescale") for each in form.calls("ImageDataGenerator")]
            yield [*everywhere, *map(form.here, form.calls("fit", "fit_generator")), form.here(call)]
            return


@plants("keras-input-rank", also="shape-mismatch")
def sequences_not_returned(form: Form) -> Iterator[list[Edit]]:
    """A recurrent layer gets the last step of the one before it in place of all steps."""
    adds = [call for call in form.calls("add") if call.args and isinstance(call.args[0], ast.Call) and is_keras(form)]
    for first, second in pairwise(adds):
        one, other = first.args[0], second.args[0]
        if isinstance(one, ast.Call) and isinstance(other, ast.Call) and receiver(first) == receiver(second):
            if (
                last_name(one.func) in RECURRENT
                and last_name(other.func) in RECURRENT
                and form.are_neighbours(first, second)
            ):
                if argument(one, "return_sequences") is not None:
                    yield [*_marks(form, one, other), without(form, one, "return_sequences")]


RECURRENT = ("LSTM", "GRU", "SimpleRNN")


@plants("shape-mismatch", also="keras-input-rank")
def input_size_one_more(form: Form) -> Iterator[list[Edit]]:
    """The network expects one feature more than the inputs were reshaped to."""
    for call in form.nodes(ast.Call) if is_keras(form) else ():
        given = argument(call, "input_dim") or argument(call, "input_shape") or argument(call, "shape")
        size = given.elts[0] if isinstance(given, ast.Tuple) and len(given.elts) == 1 else given
        if isinstance(size, ast.Constant) and isinstance(size.value, int) and size.value > 9 and list(_fits(form)):
            if last_name(call.func) in ("Dense", "Input", "InputLayer") and re.search(
                rf"reshape\([^()]*,\s*{size.value}\)", form.text
            ):
                marks = [*map(form.here, form.calls("fit")), form.here(call)]
                yield [*marks, form.replace(size, str(size.value + 1))]


@plants("unavailable-monitor")
def monitor_of_keras_misspelt(form: Form) -> Iterator[list[Edit]]:
    """A callback of Keras monitors a name that `fit` does not report."""
    if not any(argument(each, "callbacks") is not None for each in form.calls("fit")):
        return
    for call in form.calls("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau"):
        given = argument(call, "monitor")
        if text_of(given) in ("val_loss", "val_accuracy") and is_keras(form):
            assert given is not None
            yield [*_marks(form, call, *form.calls("fit")), form.replace(given, f'{HERE}"{text_of(given)[4:]}_val"')]


@plants("unavailable-monitor")
def validation_removed(form: Form) -> Iterator[list[Edit]]:
    """Callbacks monitor a validation that is not made."""
    watched = [
        argument(each, "monitor") for each in form.calls("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau")
    ]
    named = [each for each in watched if each is not None and text_of(each).startswith("val_")]
    fits = [each for each in form.calls("fit") if argument(each, "callbacks") is not None]
    if len(fits) == 1 and named and is_keras(form):
        given = [name for name in ("validation_data", "validation_split") if argument(fits[0], name) is not None]
        if given:
            marks = _marks(form, *named, fits[0])
            yield [*marks, without(form, fits[0], "validation_data", "validation_split", "validation_steps")]


@plants("keras-input-rank", also="shape-mismatch keras-class-count")
def flatten_removed(form: Form) -> Iterator[list[Edit]]:
    """Feature maps reach the dense layers of a classifier without being flattened."""
    adds = [call for call in form.calls("add") if call.args and isinstance(call.args[0], ast.Call)]
    flats = [call for call in adds if form.code(call.args[0]).endswith("Flatten()")]
    if len(flats) == 1 and is_keras(form) and form.is_statement(flats[0]):
        later = [call for call in adds if call.lineno > flats[0].lineno]
        maps = [each for each in form.calls("Conv2D", "Conv1D") if each.lineno < flats[0].lineno]
        if later and maps and loss_of(form) in CLASSES:
            marks = _marks(form, *later, compiled(form), *form.calls("fit"))
            yield [form.delete(form.statement(flats[0])), *marks]
