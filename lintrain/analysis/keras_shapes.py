"""How many axes the tensors between the layers of a Keras network have, as far as the script says so."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.pipeline.modules import MOST_PARTS
from lintrain.pipeline.values.model import Layer, Network, Tensor
from lintrain.pipeline.values.python import Bound, Constant, Sequence, Value, is_missing, literal
from lintrain.pipeline.values.tensors import AxisSize
from lintrain.pipeline.values.training import KerasRun, Pixels
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU"})
KEEPING = frozenset(
    {
        *("Dense", "Dropout", "BatchNormalization", "LayerNormalization", "Activation", "LeakyReLU", "PReLU", "ELU"),
        *("ReLU", "Softmax", "GaussianNoise", "GaussianDropout", "ActivityRegularization", "Rescaling"),
    }
)
FEWEST_ROWS = 5000
"""A first number in `input_shape` from here on counts the rows of the data; images and sequences are smaller."""

_SPATIAL = lazy_pattern(
    r"(?:Separable|Depthwise)?Conv([123])D(?:Transpose)?|(?:Max|Average)Pooling([123])D|UpSampling([123])D"
    r"|ZeroPadding([123])D|Cropping([123])D|SpatialDropout([123])D"
)
_GLOBAL = lazy_pattern(r"Global(?:Max|Average)Pooling([123])D")


@dataclass(frozen=True, slots=True)
class Step:
    """A layer with the number of axes that it gets and gives, the batch included; None if unknown."""

    layer: Layer
    given: int | None
    result: int | None

    @property
    def expected(self) -> int | None:
        """The number of axes that the layer accepts; None if it accepts several, or is not known."""
        name = self.layer.name
        if name in RECURRENT:
            return 3
        found = _SPATIAL.fullmatch(name) or _GLOBAL.fullmatch(name)
        return _dimensions(found) + 2 if found is not None else None

    @property
    def is_refused(self) -> bool:
        """Whether the layer, or the first batch, certainly raises an error."""
        if self.given is None or self.expected is None or self.given == self.expected:
            return False
        # With TensorFlow a convolution takes every further axis at the front for one of the batch.
        is_open = "Conv" in self.layer.name and self.given > self.expected
        return not is_open or _begins_with_batch(self.layer)


def steps_of(run: KerasRun) -> list[Step]:
    """The layers of a network, the first one first; empty if they are not known or form no chain."""
    steps: list[Step] = []
    axes: int | None = None
    for position, layer in enumerate(_layers_of(run)):
        given = axes if position else _axes_of_input(layer)
        axes = given if layer.path == "keras.Input" else _result(layer, given)
        steps.append(Step(layer, given, axes))
    return steps


def _layers_of(run: KerasRun) -> list[Layer]:
    network = run.model
    if not isinstance(network, Network) or not network.is_complete:
        return []
    if network.path == "keras.Sequential":
        layers = [each for each in network.layers if isinstance(each, Layer)]
        return layers if len(layers) == len(network.layers) else []
    chain = list(_back_from(network.last))
    return chain[::-1] if chain and chain[-1].path == "keras.Input" else []


def _back_from(part: Value | None) -> Iterator[Layer]:
    for _ in range(MOST_PARTS):
        if not isinstance(part, Layer):
            return
        yield part
        if len(part.inputs) != 1:
            return
        part = part.inputs[0]


def _axes_of_input(layer: Layer) -> int | None:
    """The axes of what the first layer gets, by the shape that it is made with."""
    given = layer.arguments
    if "**" in given:
        return None
    for name, batch in (("input_shape", 1), ("shape", 1), ("batch_shape", 0), ("batch_input_shape", 0)):
        if name in given:
            return _length(given[name], batch)
    if layer.path == "keras.Input" and "0" in given:
        return _length(given["0"], 1)
    return 2 if "input_dim" in given and layer.name == "Dense" else None


def whole_shape_given(run: KerasRun) -> Layer | None:
    """The first layer, if its `input_shape` is `x.shape` of the array that every `fit` gets, whose rows are counted."""
    first = next(iter(_layers_of(run)), None)
    shape = first.arguments.get("input_shape", first.arguments.get("shape")) if first is not None else None
    fitted = [arguments["x"].value for _, arguments in run.fits if "x" in arguments]
    is_known = shape is not None and fitted and len(fitted) == len(run.fits)
    return first if is_known and all(_is_shape_of(shape, each) for each in fitted) else None


def _is_shape_of(shape: Value | None, array: Value) -> bool:
    """Whether a value is `array.shape`, or that of one with as many axes."""
    if isinstance(shape, Bound):
        return shape.name == "shape" and shape.receiver is array
    if not isinstance(shape, Sequence) or not isinstance(array, Tensor) or array.shape.is_open:
        return False
    sizes = array.shape.sizes
    return (
        bool(sizes)
        and shape.is_complete
        and len(shape.items) == len(sizes)
        and all(
            item.axis == axis if isinstance(item, AxisSize) else literal(item) == size is not None
            for axis, (item, size) in enumerate(zip(shape.items, sizes, strict=True))
        )
    )


def other_size(run: KerasRun) -> tuple[Layer, Value, str] | None:
    """The first layer, the images of every `fit` and their size, if the layer is made for images of another size."""
    layers = _layers_of(run)
    given = layers[0].arguments if layers else {}
    shape = given.get(
        "input_shape", given.get("shape", given.get("0") if layers and layers[0].path == "keras.Input" else None)
    )
    sizes = [literal(each) for each in shape.items] if isinstance(shape, Sequence) and shape.is_complete else []
    fitted = [arguments["x"].value if "x" in arguments else None for _, arguments in run.fits]
    sides = {each.side if isinstance(each, Pixels) else None for each in fitted}
    side = sides.pop() if len(sides) == 1 else None
    if side is None or not sizes or not all(isinstance(size, int) for size in sizes):
        return None
    is_same = sizes[:2] == [side, side] or sizes[1:] == [side, side]
    return None if is_same or fitted[0] is None else (layers[0], fitted[0], f"{side} by {side}")


def _begins_with_batch(layer: Layer) -> bool:
    """Whether `input_shape` begins with the number of all rows, or with None for the batch."""
    shape = layer.arguments.get("input_shape")
    first = shape.items[0] if isinstance(shape, Sequence) and shape.items else None
    if not isinstance(first, Constant):
        return False
    return first.value is None or (isinstance(first.value, int) and first.value >= FEWEST_ROWS)


def _length(shape: Value, batch: int) -> int | None:
    return len(shape.items) + batch if isinstance(shape, Sequence) and shape.is_complete else None


def shortens(run: KerasRun) -> bool:
    """Whether pooling leaves fewer positions than a convolution got, and no layer makes more of them."""
    names = [each.name for each in _layers_of(run)]
    grows = any(name.startswith("UpSampling") or "Transpose" in name for name in names)
    is_pooled = any(re.fullmatch(r"(?:Max|Average)Pooling[123]D", name) for name in names)
    return not grows and is_pooled and any(name.startswith("Conv") for name in names)


def _result(layer: Layer, given: int | None) -> int | None:
    name, arguments = layer.name, layer.arguments
    if "**" in arguments:
        return None
    if name in KEEPING or _SPATIAL.fullmatch(name):
        return given
    if name == "Flatten":
        return 2
    if name in RECURRENT:
        return _after_recurrent(arguments)
    if _GLOBAL.fullmatch(name):
        return 2 if is_missing(arguments.get("keepdims", Constant(None))) else None
    return _length(arguments["target_shape"], 1) if name == "Reshape" and "target_shape" in arguments else None


def _after_recurrent(arguments: dict[str, Value]) -> int | None:
    if "return_state" in arguments:
        return None
    every = literal(arguments.get("return_sequences", Constant(False)))
    return {True: 3, False: 2}.get(every) if isinstance(every, bool) else None


def _dimensions(found: re.Match[str]) -> int:
    return int(next(each for each in found.groups() if each))


def outgrown(run: KerasRun) -> tuple[Layer, int, int] | None:
    """The first window that is larger than what is left of a row: the layer, its width, and the positions left.

    Only where the script writes the sizes down, with the channels behind.
    """
    layers = _layers_of(run)
    shape = layers[0].arguments.get("input_shape", layers[0].arguments.get("shape")) if layers else None
    given = [literal(each) for each in shape.items] if isinstance(shape, Sequence) else []
    left = [size for size in given[:-1] if isinstance(size, int)]
    if not left or len(left) != len(given) - 1:
        return None
    for layer in layers:
        window = _WINDOWS.fullmatch(layer.name)
        if window is not None and int(window[2]) == len(left):
            widths, steps = _windows_of(layer, len(left), is_pool=window[1] != "Conv")
            if widths is None or steps is None or "data_format" in layer.arguments:
                return None
            is_padded = literal(layer.arguments.get("padding", Constant("valid"))) != "valid"
            for width, size in zip(widths, left, strict=True):
                if width > size and not is_padded:
                    return layer, width, size
            pairs = zip(widths, left, steps, strict=True)
            left = [-(-size // step) if is_padded else (size - width) // step + 1 for width, size, step in pairs]
        elif layer.path != "keras.Input" and layer.name not in KEEPING:
            return None
    return None


_WINDOWS = lazy_pattern(r"(Conv|MaxPooling|AveragePooling)([123])D")


def _windows_of(layer: Layer, axes: int, *, is_pool: bool) -> tuple[list[int] | None, list[int] | None]:
    """The widths and steps of a layer along each axis; None where they are not known."""
    widths = _along(
        layer.arguments.get("pool_size" if is_pool else "kernel_size", Constant(2 if is_pool else None)), axes
    )
    steps = layer.arguments.get("strides", Constant(None))
    return widths, (widths if is_pool else [1] * axes) if is_missing(steps) else _along(steps, axes)


def _along(value: Value, axes: int) -> list[int] | None:
    items = [literal(each) for each in value.items] if isinstance(value, Sequence) else [literal(value)] * axes
    sizes = [each for each in items if isinstance(each, int) and not isinstance(each, bool)]
    return sizes if len(sizes) == axes else None
