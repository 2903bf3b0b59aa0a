"""How a script calls Keras, and which pretrained models a network contains."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from lintrain.model.location import Location
from lintrain.pipeline.modules import MOST_PARTS
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.columns import Series
from lintrain.pipeline.values.data import ColumnValues, Slices
from lintrain.pipeline.values.model import Layer, Model, ModelOutput, ModelPart, Network, Tensor
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Constant,
    Either,
    Function,
    Instance,
    Library,
    LibraryObject,
    Mapping,
    Sequence,
    Unknown,
    Value,
    is_missing,
    literal,
    text_of,
)
from lintrain.pipeline.values.tensors import Derived, Shape
from lintrain.pipeline.values.training import KerasLabels, KerasRun, LabelledBatches, Pixels
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern


def keras_name(pipeline: Pipeline) -> str | None:
    """The code that names Keras in a script (`keras`, `tf.keras`); None if nothing imports it."""
    names = [name for source in pipeline.sources.values() for name in source.cached(_names)]
    return min(names, key=len) if names else None


def _names(source: Source) -> list[str]:
    return [name for node in source.nodes_of(ast.Import, ast.ImportFrom) for name in _names_in(node)]


def _names_in(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            if alias.name in {"keras", "tf_keras"}:
                yield alias.asname or alias.name
            elif alias.name == "tensorflow":
                yield f"{alias.asname or alias.name}.keras"
            elif alias.name == "tensorflow.keras" and alias.asname:
                yield alias.asname
    elif isinstance(node, ast.ImportFrom) and node.module == "tensorflow":
        yield from (alias.asname or alias.name for alias in node.names if alias.name == "keras")


@dataclass(frozen=True, slots=True)
class KerasLoss:
    """The loss that a model is compiled with: its name (`categorical_crossentropy`), and the call that creates it.

    `from_logits` is None if it is unknown.
    """

    name: str
    from_logits: bool | None = False
    made: Location | None = None


def only_built_from(pipeline: Pipeline, run: KerasRun) -> bool:
    """Whether a model is only a part of others: nothing trains or evaluates it, and the script trains another one."""
    others = [each for each in pipeline.keras_runs if each is not run and (each.fits or each.takes_single_steps)]
    return bool(others) and not (run.fits or run.takes_single_steps or run.evaluations)


def loss_of(run: KerasRun) -> KerasLoss | None:
    """The loss of a run; None if it is not a known loss of Keras, or if the model only predicts.

    The generator of a GAN is trained inside of another network, and the loss that it was compiled with is never used.
    """
    if run.predictions and not run.fits and not run.takes_single_steps:
        return None
    loss = run.value("loss")
    if isinstance(loss, Constant) and not loss.may_differ:
        name = (text_of(loss) or "").lower()
        return KerasLoss(ABBREVIATIONS.get(name, name)) if name else None
    if isinstance(loss, Library) and loss.path.startswith("keras.losses."):
        return KerasLoss(_snake(loss.name))
    if isinstance(loss, Library) and loss.path in OF_LOGITS:
        return KerasLoss(OF_LOGITS[loss.path], True)
    if not isinstance(loss, LibraryObject) or not loss.path.startswith("keras.losses."):
        return None
    flag = loss.arguments.get("from_logits", loss.arguments.get("0", Constant(False)))
    given = literal(flag) if "**" not in loss.arguments else None
    return KerasLoss(_snake(loss.path.rpartition(".")[2]), given if isinstance(given, bool) else None, loss.origin)


ABBREVIATIONS = {"bce": "binary_crossentropy", "mse": "mean_squared_error", "mae": "mean_absolute_error"}


OF_LOGITS = {
    "tensorflow.nn.sigmoid_cross_entropy_with_logits": "binary_crossentropy",
    "tensorflow.nn.softmax_cross_entropy_with_logits": "categorical_crossentropy",
    "tensorflow.nn.sparse_softmax_cross_entropy_with_logits": "sparse_categorical_crossentropy",
}
"""Functions of TensorFlow that are given as losses, with the loss of Keras that computes the same of logits."""


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


WITH_UNITS = {
    "keras.layers.Dense": "units",
    **{f"keras.layers.Conv{n}D{kind}": "filters" for n in (1, 2, 3) for kind in ("", "Transpose")},
}
"""The layers that may be the last one, with the name of the argument for the size of their output."""

KEEPS_VALUES = frozenset(f"keras.layers.{name}" for name in ("BatchNormalization", "Dropout", "LayerNormalization"))
"""Layers that only scale what they get, or leave some of it out."""

KEEPS_SIZE = frozenset({"keras.layers.Activation", "keras.layers.Softmax", "keras.layers.ReLU"}) | KEEPS_VALUES
"""Layers whose output has the size of their input."""


def activation_of(output: Value) -> str | None:
    """The activation of a layer (`softmax`; `linear` if it has none); None if it is unknown."""
    if not isinstance(output, Layer) or "**" in output.arguments:
        return None
    if output.path in {"keras.layers.Softmax", "keras.layers.ReLU"}:
        return output.name.lower()
    if output.path != "keras.layers.Activation" and output.path not in WITH_UNITS:
        return None
    given = output.arguments.get("activation", Constant(None))
    if is_missing(given):
        return "linear"
    if isinstance(given, Library):
        return given.name
    name = literal(given)
    return name if isinstance(name, str) else None


def units_of(output: Value) -> int | None:
    """The number of outputs of a dense or convolutional layer; None if it is unknown or another layer."""
    if not isinstance(output, Layer) or output.path not in WITH_UNITS or "**" in output.arguments:
        return None
    units = literal(output.arguments.get(WITH_UNITS[output.path], Constant(None)))
    return units if isinstance(units, int) and not isinstance(units, bool) else None


def output_units(run: KerasRun) -> int | None:
    """The number of outputs that the loss gets, also where the activation is a layer of its own."""
    for layer in _from_the_end(run):
        if layer.path not in KEEPS_SIZE:
            return units_of(layer)
    return None


def activation_at_end(run: KerasRun) -> str | None:
    """The activation whose result the loss gets; None if it is unknown or only one of several."""
    last, before = _last_two(run)
    if last is None:
        return None
    # `Activation("relu")` after `Dense(3, activation="softmax")` is both.
    is_plain = last.path not in KEEPS_SIZE or before is None or activation_of(before) == "linear"
    return activation_of(last) if is_plain else None


def activation_before_end(run: KerasRun) -> str | None:
    """The activation of the layer with units in front of one that only applies another; None without such a pair."""
    last, before = _last_two(run)
    is_pair = last is not None and last.path in KEEPS_SIZE and before is not None and units_of(before) is not None
    return activation_of(before) if is_pair and before is not None else None


def _last_two(run: KerasRun) -> tuple[Layer | None, Layer | None]:
    """The last layer, and the one before it that is no mere scaling."""
    last, *others = [*_from_the_end(run), None]
    return last, next((each for each in others if each is None or each.path not in KEEPS_VALUES), None)


def _from_the_end(run: KerasRun) -> Iterator[Layer]:
    """The layers that lead to the loss, the last one first, as far as they form a chain."""
    if not isinstance(run.output, Layer):
        return
    if isinstance(run.model, Network) and run.model.path == "keras.Sequential":
        yield from _layers_until_unknown(reversed(run.model.layers[run.model.settled :]))
        return
    part: Value = run.output
    for _ in range(MOST_PARTS):
        if not isinstance(part, Layer):
            return
        yield part
        if len(part.inputs) != 1:
            return
        part = part.inputs[0]


def _layers_until_unknown(parts: Iterable[Value]) -> Iterator[Layer]:
    for part in parts:
        if not isinstance(part, Layer):
            return
        yield part


def labels_of(run: KerasRun) -> KerasLabels | LabelledBatches | None:
    """The labels of every `fit` call of a run; None if their format is unknown or differs."""
    found: list[KerasLabels | LabelledBatches] = []
    for _, arguments in run.fits:
        given = arguments.get("y") or arguments.get("x")
        labels = _labels_in(given.value) if given is not None else None
        if labels is None:
            return None
        found.append(labels)
    return found[0] if found and len({(labels.is_one_hot, labels.classes) for labels in found}) == 1 else None


def labels_for_evaluation(run: KerasRun) -> Iterator[tuple[Location, KerasLabels | LabelledBatches]]:
    """The labels that `validation_data` and `evaluate` bring, as far as their format is known, and where they do."""
    for _, arguments in run.fits:
        given = arguments.get("validation_data")
        value = given.value if given is not None else UNKNOWN
        labels = _labels_in(value.items[1] if isinstance(value, Sequence) and len(value.items) > 1 else value)
        if given is not None and labels is not None:
            yield given.location, labels
    for each in run.evaluation_labels:
        if (labels := _labels_in(each.value)) is not None:
            yield each.location, labels


def columns_of(run: KerasRun) -> KerasLabels | None:
    """The targets of every `fit` call of a run, if they are a single row of numbers or one column of a frame."""
    given = [arguments.get("y") for _, arguments in run.fits]
    values = [each.value for each in given if each is not None]
    are_columns = bool(values) and len(values) == len(given) and all(_is_column(each) for each in values)
    return KerasLabels(False, origin=values[0].origin) if are_columns else None


def _is_column(value: Value) -> bool:
    match value:
        case Series(is_row=False) | ColumnValues(dataset=Unknown(), axes=1):
            return True
        case Tensor(shape=Shape(sizes=(_,), is_open=False)) | Derived(shape=Shape(sizes=(_,), is_open=False)):
            return True
        case _:
            return False


def _labels_in(value: Value) -> KerasLabels | LabelledBatches | None:
    """Labels as such, the second part of each row of a data set, and whole numbers of which each row has one."""
    match value:
        case KerasLabels() | LabelledBatches():
            return value
        case Slices(structure=Sequence(items=[_, labels])):
            return _labels_in(labels)
        case Tensor(kind="int", shape=Shape(sizes=(_,), is_open=False)):
            return KerasLabels(False, origin=value.origin)
        case _:
            return None


def are_scaled(value: Value) -> bool | None:
    """Whether images were scaled; None if that is not known, or if they are no images."""
    match value:
        case Pixels(is_scaled=is_scaled) | LabelledBatches(pixels=Pixels(is_scaled=is_scaled)):
            return is_scaled
        case Slices(structure=Sequence(items=[images, _])):
            return are_scaled(images)
        case _:
            return None


TAKES_NUMBERS = lazy_pattern(
    r"Input(?:Layer)?|Flatten|Reshape|Dense|Conv\dD|SeparableConv2D|MaxPool(?:ing)?2D|AveragePooling2D|Dropout"
    r"|Activation|ReLU|LeakyReLU|Softmax|GlobalAveragePooling2D|GlobalMaxPooling2D|LSTM|GRU|Random\w+"
)
"""Layers that keep the range of their inputs, or multiply it by their weights."""


def takes_inputs_as_they_are(run: KerasRun) -> bool:
    """Whether no layer of a network, all of them known, normalizes its inputs."""
    network = run.model
    if not isinstance(network, Network) or not network.is_complete or network.path != "keras.Sequential":
        return False
    layers = [each for each in network.layers if isinstance(each, Layer)]
    is_known = bool(layers) and len(layers) == len(network.layers)
    return is_known and all(TAKES_NUMBERS.fullmatch(layer.name) for layer in layers)


def backbones(model: Value) -> list[Model]:
    """The pretrained transformers models that a Keras model is or contains."""
    return [part for part in _parts_of(model) if isinstance(part, Model) and part.is_pretrained]


def _parts_of(model: Value) -> Iterator[Value]:
    pending, seen = [model], set[int]()
    while pending and len(seen) < MOST_PARTS:
        part = pending.pop()
        if id(part) not in seen:
            seen.add(id(part))
            yield part
            pending.extend(_inside(part))


def _inside(part: Value) -> list[Value]:
    match part:
        case Layer():
            return [*part.inputs, *part.arguments.values()]
        case Network():
            return part.layers
        case ModelOutput() | Tensor() | ModelPart():
            return [part.model]
        case Instance():
            return list(part.attributes.values())
        case Sequence():
            return part.items
        case Mapping():
            return list(part.entries.values())
        case Either():
            return list(part.options)
        case _:
            return []


@dataclass(frozen=True, slots=True)
class UndoneReduction:
    """A reduction of the learning rate that a schedule undoes: the callbacks of a `fit`, and where both are made."""

    location: Location
    reduction: Location
    schedule: Location


def undone_reductions(run: KerasRun) -> Iterator[UndoneReduction]:
    """The fits with a `ReduceLROnPlateau` beside a schedule that sets the rate of each epoch from its number alone."""
    for given in (arguments["callbacks"] for _, arguments in run.fits if "callbacks" in arguments):
        items = given.value.items if isinstance(given.value, Sequence) else []
        made = {each.path.rpartition(".")[2]: each for each in items if isinstance(each, LibraryObject)}
        reduction, schedule = made.get("ReduceLROnPlateau"), made.get("LearningRateScheduler")
        if reduction is None or schedule is None or reduction.origin is None or schedule.origin is None:
            continue
        function = schedule.arguments.get("schedule", schedule.arguments.get("0"))
        if isinstance(function, Function) and len(function.node.args.args) == 1:
            yield UndoneReduction(given.location, reduction.origin, schedule.origin)
