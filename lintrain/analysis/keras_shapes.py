"""The shapes of the tensors between the layers of a Keras network, as far as the script says so.

They are those of one batch: the first axis is not known, unless the script asks for a size.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.interpreter.shapes import ANY, resized_last, row_size
from lintrain.pipeline.modules import MOST_PARTS
from lintrain.pipeline.values.columns import DataFrame, Series
from lintrain.pipeline.values.data import ColumnValues
from lintrain.pipeline.values.model import Layer, Network, Tensor
from lintrain.pipeline.values.python import Constant, Sequence, Unknown, Value, is_missing, literal
from lintrain.pipeline.values.tensors import Derived, Shape
from lintrain.pipeline.values.training import KerasLabels, KerasRun, Pixels
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

RECURRENT = frozenset({"LSTM", "GRU", "SimpleRNN", "CuDNNLSTM", "CuDNNGRU"})
KEEPING = frozenset(
    {
        *("Dense", "Dropout", "BatchNormalization", "LayerNormalization", "Activation", "LeakyReLU", "PReLU", "ELU"),
        *("ReLU", "Softmax", "GaussianNoise", "GaussianDropout", "ActivityRegularization", "Rescaling"),
    }
)
IMAGES = {28: (None, 28, 28), 32: (None, 32, 32, 3)}
"""The shapes of the images of `keras.datasets`, by their height."""

COLORS = {1, 3}
"""Numbers of channels that images have: one of these in front and none at the end may be the other order."""

FEWEST_ROWS = 5000
"""A first number in `input_shape` from here on counts the rows of the data; images and sequences are smaller."""

_SPATIAL = lazy_pattern(
    r"(?:Separable|Depthwise)?Conv([123])D(?:Transpose)?|(?:Max|Average)Pooling([123])D|UpSampling([123])D"
    r"|ZeroPadding([123])D|Cropping([123])D|SpatialDropout([123])D"
)
_GLOBAL = lazy_pattern(r"Global(?:Max|Average)Pooling([123])D")


@dataclass(frozen=True, slots=True)
class Step:
    """A layer with the shapes of what it gets and gives."""

    layer: Layer
    before: Shape
    after: Shape

    @property
    def given(self) -> int | None:
        """The number of axes that the layer gets, the batch included; None if unknown."""
        return self.before.rank

    @property
    def result(self) -> int | None:
        """The number of axes that the layer gives, the batch included; None if unknown."""
        return self.after.rank

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
    """The layers of a network, the first one first; empty if they are not known or form no chain.

    A network without an input shape takes the shape of the data that it is fitted on.
    """
    steps: list[Step] = []
    shape = ANY
    for position, layer in enumerate(layers_of(run)):
        before = shape if position else declared(layer)
        before = _rows_fitted(run) if not position and before.is_open and _is_undeclared(layer) else before
        shape = before if layer.path == "keras.Input" else _result(layer, before)
        steps.append(Step(layer, before, shape))
    return steps


def layers_of(run: KerasRun) -> list[Layer]:
    """The layers of a network, the first one first; empty if they are not known or form no chain."""
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


def declared(layer: Layer) -> Shape:
    """The shape of a batch that a first layer is made for."""
    given = layer.arguments
    if "**" in given:
        return ANY
    for name, is_whole in SHAPES.items():
        if name in given:
            return _shape_in(given[name], is_whole=is_whole)
    if layer.path == "keras.Input" and "0" in given:
        return _shape_in(given["0"], is_whole=False)
    size = literal(given["input_dim"]) if "input_dim" in given and layer.name == "Dense" else None
    return Shape((None, size), False) if isinstance(size, int) else ANY


SHAPES = {"input_shape": False, "shape": False, "batch_shape": True, "batch_input_shape": True}
"""The arguments that declare a shape, and whether the batch is a part of it."""


def _is_undeclared(layer: Layer) -> bool:
    return layer.path != "keras.Input" and not {*SHAPES, "input_dim", "**"} & layer.arguments.keys()


def _shape_in(value: Value, *, is_whole: bool) -> Shape:
    if not isinstance(value, Sequence) or not value.is_complete:
        return ANY
    sizes = [size if isinstance(size := literal(each), int) and size >= 0 else None for each in value.items]
    return Shape((*(() if is_whole else (None,)), *sizes), False)


def shape_of_data(value: Value) -> Shape:
    """The shape of an array that a network is given, as far as it is known."""
    match value:
        case Tensor(shape=shape) | Derived(shape=shape) | KerasLabels(shape=shape):
            return shape
        case DataFrame(count=count):
            return Shape((None, count), False)
        case Series(is_row=False) | ColumnValues(dataset=Unknown(), axes=1):
            return Shape((None,), False)
        case Pixels(side=int() as side) if side in IMAGES:
            return Shape(IMAGES[side], False)
        case _:
            return ANY


def _rows_fitted(run: KerasRun) -> Shape:
    """The shape of a batch of what every `fit` gets; of nothing, if it differs."""
    shapes = {
        Shape((None, *shape.sizes[1:]), False)
        for _, arguments in run.fits
        for shape in (shape_of_data(arguments["x"].value) if "x" in arguments else ANY,)
        if not shape.is_open and shape.sizes
    }
    return shapes.pop() if len(shapes) == 1 and len(run.fits) == 1 else ANY


def _begins_with_batch(layer: Layer) -> bool:
    """Whether `input_shape` begins with the number of all rows, or with None for the batch."""
    shape = layer.arguments.get("input_shape")
    first = shape.items[0] if isinstance(shape, Sequence) and shape.items else None
    if not isinstance(first, Constant):
        return False
    return first.value is None or (isinstance(first.value, int) and first.value >= FEWEST_ROWS)


def shortens(run: KerasRun) -> bool:
    """Whether pooling leaves fewer positions than a convolution got, and no layer makes more of them."""
    names = [each.name for each in layers_of(run)]
    grows = any(name.startswith("UpSampling") or "Transpose" in name for name in names)
    is_pooled = any(re.fullmatch(r"(?:Max|Average)Pooling[123]D", name) for name in names)
    return not grows and is_pooled and any(name.startswith("Conv") for name in names)


def _result(layer: Layer, given: Shape) -> Shape:
    name, arguments = layer.name, layer.arguments
    if "**" in arguments:
        return ANY
    if name in {"Dense", "Embedding"}:
        size = literal(arguments.get("units" if name == "Dense" else "output_dim", Constant(None)))
        last = size if isinstance(size, int) else None
        return resized_last(given, last) if name == "Dense" else _with_axis(given, last)
    if name in KEEPING:
        return given
    if _SPATIAL.fullmatch(name):
        return _after_window(layer, given)
    if name == "Flatten":
        return Shape((None, row_size(given)), False)
    if name in RECURRENT:
        return _after_recurrent(layer, given)
    if _GLOBAL.fullmatch(name):
        return Shape((None, given.last), False) if is_missing(arguments.get("keepdims", Constant(None))) else ANY
    if name == "TimeDistributed" and isinstance(inner := arguments.get("0", arguments.get("layer")), Layer):
        return _result(inner, given) if inner.name in KEEPING else ANY
    return (
        _shape_in(arguments["target_shape"], is_whole=False)
        if name == "Reshape" and "target_shape" in arguments
        else ANY
    )


def _with_axis(given: Shape, size: int | None) -> Shape:
    return ANY if given.is_open else Shape((*given.sizes, size), False)


def _after_recurrent(layer: Layer, given: Shape) -> Shape:
    arguments = layer.arguments
    every = literal(arguments.get("return_sequences", Constant(False)))
    if "return_state" in arguments or not isinstance(every, bool):
        return ANY
    size = literal(arguments.get("units", Constant(None)))
    steps = given.sizes[1] if len(given.sizes) == 3 and not given.is_open else None
    last = size if isinstance(size, int) else None
    return Shape((None, steps, last) if every else (None, last), False)


def _after_window(layer: Layer, given: Shape) -> Shape:
    """The shape after a convolution or a pool, with the channels at the end."""
    window = _WINDOWS.fullmatch(layer.name)
    if window is None or given.is_open or len(given.sizes) != int(window[2]) + 2:
        return Shape((None,) * len(given.sizes), given.is_open)
    is_pool = window[1] != "Conv"
    filters = literal(layer.arguments.get("filters", Constant(None)))
    last = given.last if is_pool else filters if isinstance(filters, int) else None
    if given.sizes[1] in COLORS and given.last not in COLORS:
        return Shape((None,) * len(given.sizes), False)
    left = [size for size in given.sizes[1:-1] if size is not None]
    passed = _passed(layer, left, is_pool=is_pool) if len(left) == int(window[2]) else None
    return Shape((None, *(passed if passed is not None else [None] * int(window[2])), last), False)


def _passed(layer: Layer, left: list[int], *, is_pool: bool) -> list[int] | None:
    """The positions that a window leaves along each axis; None if its sizes are not known."""
    widths, steps = _windows_of(layer, len(left), is_pool=is_pool)
    if widths is None or steps is None or {"data_format", "dilation_rate"} & layer.arguments.keys():
        return None
    is_padded = literal(layer.arguments.get("padding", Constant("valid"))) != "valid"
    pairs = zip(widths, left, steps, strict=True)
    return [-(-size // step) if is_padded else max(size - width, -1) // step + 1 for width, size, step in pairs]


def _dimensions(found: re.Match[str]) -> int:
    return int(next(each for each in found.groups() if each))


def outgrown(run: KerasRun) -> tuple[Layer, int, int] | None:
    """The first window that is larger than what is left of a row: the layer, its width, and the positions left.

    Only where the script writes the sizes down, with the channels behind.
    """
    layers = layers_of(run)
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
            passed = _passed(layer, left, is_pool=window[1] != "Conv")
            if passed is None:
                return None
            left = passed
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
