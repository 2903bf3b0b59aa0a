"""Layers and networks of Keras: Sequential, functional, and the script's own subclasses."""

from __future__ import annotations

from dataclasses import replace

from lintrain.interpreter.core.call import Call
from lintrain.interpreter.core.reader import Reader
from lintrain.interpreter.core.registry import (
    Transfer,
    attribute_of,
    called,
    family,
    function,
    method,
    method_of,
    stored_attribute_of,
)
from lintrain.knowledge.keras_successors import argument_rename
from lintrain.model.location import Location
from lintrain.pipeline.record import LibraryName, Misuse
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Layer, Network
from lintrain.pipeline.values.python import (
    UNKNOWN,
    Bound,
    Constant,
    Sequence,
    Unknown,
    Value,
    literal,
)
from lintrain.startup.lazy_pattern import lazy_pattern

POSITIONAL = {
    "keras.layers.Activation": ("activation",),
    "keras.layers.BatchNormalization": ("axis",),
    "keras.layers.Conv1D": ("filters", "kernel_size", "strides", "padding"),
    "keras.layers.Conv2D": ("filters", "kernel_size", "strides", "padding"),
    "keras.layers.Dense": ("units", "activation"),
    "keras.layers.Dropout": ("rate",),
    "keras.layers.Embedding": ("input_dim", "output_dim"),
    "keras.layers.GRU": ("units", "activation"),
    "keras.layers.LSTM": ("units", "activation"),
    "keras.layers.MaxPooling2D": ("pool_size", "strides", "padding"),
    "keras.layers.Reshape": ("target_shape",),
    "keras.layers.SimpleRNN": ("units", "activation"),
}
"""The parameters that layers take by position."""

ACTIVATION = lazy_pattern(r"(?:^|=\s*)[A-Za-z_]\w*\.(relu|sigmoid|softmax|softplus|tanh)$")

SAME_LAYERS = {
    "Convolution1D": "Conv1D",
    "Convolution2D": "Conv2D",
    "Convolution3D": "Conv3D",
    "MaxPool1D": "MaxPooling1D",
    "MaxPool2D": "MaxPooling2D",
    "AvgPool2D": "AveragePooling2D",
    "GlobalMaxPool1D": "GlobalMaxPooling1D",
    "GlobalMaxPool2D": "GlobalMaxPooling2D",
    "GlobalAvgPool2D": "GlobalAveragePooling2D",
}
"""Other names of the same layers."""


@family("keras")
def _layer(path: str) -> Transfer | None:
    """`keras.layers.Dense` and its like; layers written as functions (`keras.layers.add`) are not understood."""
    package, _, name = path.rpartition(".")
    if package == "keras.layers" and name[:1].isupper():
        return _input if name in {"Input", "InputLayer"} else _make_layer
    return None


def _make_layer(call: Call) -> Value:
    package, _, name = call.path.rpartition(".")
    path = f"{package}.{SAME_LAYERS.get(name, name)}"
    values = _of_today(path, _in_order(call, call.values(*POSITIONAL.get(path, ()))))
    if (side := _old_kernel(call, path)) is not None and call.reader.source.contains(OF_KERAS_1):
        values = {each: value for each, value in values.items() if each != "strides"} | {"kernel_size": UNKNOWN}
    elif side is not None:
        text = f"{name} {literal(side.value)!r}"
        call.reader.record.misuses.append(Misuse(side.location, UNKNOWN, "kernel as strides", text))
    return Layer(path, values, made=call.location, origin=call.location)


SQUARE = frozenset(f"keras.layers.{name}" for name in ("Conv2D", "Conv2DTranspose", "SeparableConv2D"))

USUAL_SIDES = frozenset({3, 5, 7, 9, 11})
"""Sides of a kernel; as strides of the same size they would skip no pixel, but odd ones are not used for patches."""


OF_KERAS_1 = r"\b(?:border_mode|dim_ordering|nb_epoch|nb_val_samples|samples_per_epoch|subsample|[Wb]_regularizer)\s*="
"""Arguments that only Keras 1 has: code with one of them means its layers."""


def _old_kernel(call: Call, path: str) -> Argument | None:
    """The second side in `Conv2D(64, 3, 3)`: Keras 1 has both sides of the kernel there, later versions the strides."""
    if path not in SQUARE or len(call.positional) < 3 or "strides" in call.keywords or "kernel_size" in call.keywords:
        return None
    rows, columns = call.positional[1:3]
    side = literal(rows.value)
    return columns if type(side) is int and side in USUAL_SIDES and literal(columns.value) == side else None


def _in_order(call: Call, values: dict[str, Value]) -> dict[str, Value]:
    """The arguments by their place: `Dense(512, 10)` of the first Keras has the inputs in front.

    An activation of a module that the script does not import is known by its name: `tfnn.softmax`.
    """
    given = values.get("activation")
    second = call.positional[1].value if len(call.positional) > 1 else None
    if "units" in values and second is not None and isinstance(literal(second), int):
        named = {name: value for name, value in values.items() if name != "activation" or value is not second}
        values = named | {"units": second}
    elif isinstance(given, Unknown | Bound) and (
        asked := call.argument("activation", 0 if call.path.endswith("Activation") else 1)
    ):
        found = ACTIVATION.search(call.reader.source.code(asked.location))
        values = values | ({"activation": Constant(found[1])} if found else {})
    return values


def _of_today(path: str, values: dict[str, Value]) -> dict[str, Value]:
    """The arguments of a layer under their names of Keras 2 and 3, also where a script uses those of Keras 1."""
    renamed = {name: argument_rename(path, name) for name in values}
    return {(each.new if each and each.new else name): values[name] for name, each in renamed.items()}


@function("keras.Input")
def _input(call: Call) -> Value:
    return Layer("keras.Input", call.values(), origin=call.location)


@called(Layer)
def _apply(call: Call) -> Value:
    """`layer(x)`: the same layer, with what it was called on."""
    layer = call.receiver
    if not isinstance(layer, Layer):
        return UNKNOWN
    # A new value for each call, so that one layer used twice has two places in the graph, with the same
    # `made`.
    return replace(layer, inputs=tuple(argument.value for argument in call.positional), origin=call.location)


@attribute_of(Layer)
def _layer_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    return Bound(value, name) if method_of(value, name) else UNKNOWN


@stored_attribute_of(Layer)
@stored_attribute_of(Network)
def _store(reader: Reader, owner: Value, name: str, value: Value, location: Location) -> None:
    if isinstance(owner, Layer | Network) and name == "trainable":
        owner.is_trainable = literal(value) is True
        if isinstance(owner, Network):
            owner.frozen = location if literal(value) is False and not reader.conditions else None


@function("keras.Sequential", "keras.models.Sequential")
def _sequential(call: Call) -> Value:
    layers = call.value("layers", 0)
    if isinstance(layers, Sequence):
        settled = 0 if layers.is_complete else len(layers.items)
        return Network("keras.Sequential", list(layers.items), layers.is_complete, settled, origin=call.location)
    is_empty = not call.positional and "layers" not in call.keywords and not call.is_open
    return Network("keras.Sequential", [], is_empty, origin=call.location)


SHARED = -1
"""The reading of a network that several readings add layers to."""


@method(Network, "add")
def _add(call: Call) -> Value:
    """A layer that is only added under a condition, or in a loop, may not be the last one."""
    network = call.receiver
    if isinstance(network, Network):
        network.layers.append(call.value("layer", 0))
        # The last layer decides about the loss. If another one may follow, no rule may judge this one. Functions
        # that nothing calls may each add layers to the same network, of which a run makes one.
        is_one_run = network.reading in {None, call.reader.reading}
        is_certain = is_one_run and not call.reader.conditions
        network.is_complete = network.is_complete and is_certain
        network.settled = network.settled if is_certain else len(network.layers)
        # A network that two readings add layers to has no certain end.
        network.reading = call.reader.reading if is_one_run else SHARED
    return Constant(None)


@method(Network, "pop")
def _pop(call: Call) -> Value:
    if isinstance(call.receiver, Network):
        call.receiver.is_complete = False
        call.receiver.settled = len(call.receiver.layers)
    return UNKNOWN


@function("keras.Model", "keras.models.Model", "keras.Functional")
def _functional(call: Call) -> Value:
    given = call.argument("outputs", 1) or call.argument("output")
    outputs = given.value if given else UNKNOWN
    items = outputs.items if isinstance(outputs, Sequence) else [outputs]
    # A network with several outputs has a loss for each, and which is which depends on names.
    is_single = len(items) == 1
    return Network("keras.Model", list(items), is_single, 0 if is_single else len(items), origin=call.location)


@function("keras.models.load_model", "keras.saving.load_model", "keras.models.model_from_json")
def _loaded(call: Call) -> Value:
    """A network whose layers are in a file."""
    return Network("keras.Model", [], False, origin=call.location)


@called(Network)
def _run(call: Call) -> Value:
    """A network inside another one: its layers go on from what it was called on."""
    network = call.receiver
    if not isinstance(network, Network):
        return UNKNOWN
    given = tuple(argument.value for argument in call.positional)
    if network.last is not None:
        # The output of the inner network, fed with what the call got and all layers between.
        return replace(network.last, inputs=(*given, *network.layers), origin=call.location)
    return Layer("", {}, (*given, *network.layers), origin=call.location)


@attribute_of(Network)
def _network_attribute(reader: Reader, value: Value, name: str, location: Location) -> Value | None:
    if isinstance(value, Network):
        # Rules ask the tables whether the class of the network still has the method.
        used = LibraryName(value.path, name, location, reader.guards > 0, False)
        reader.record.names.append(used)
    if not isinstance(value, Network) or method_of(value, name):
        return None
    if name in {"output", "layers"}:
        return value.layers[-1] if name == "output" and value.layers else UNKNOWN
    if name == "optimizer":
        touch_optimizer(reader, value)
    return Unknown(name=f"network.{name}")


def touch_optimizer(reader: Reader, model: Value) -> None:
    """Who reaches for a compiled model's optimizer may set its learning rate."""
    for run in reader.record.keras_runs:
        if run.model is model:
            run.is_optimizer_touched = True
