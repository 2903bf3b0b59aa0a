"""What layers of torch do to the shape of a tensor, and the sizes that they were built for.

Formulas of the output sizes: documentation of `torch.nn`, version 2.13.
"""

from __future__ import annotations

from collections.abc import Callable

from lintrain.interpreter.shapes import ANY, flattened, integer, resized_last, unsqueezed
from lintrain.pipeline.values.model import Module
from lintrain.pipeline.values.python import UNKNOWN, Absent, Constant, Sequence, Value, literal, text_of
from lintrain.pipeline.values.tensors import Shape
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

SHAPELESS = lazy_pattern(
    r"(Batch|Group|Layer|RMS|Instance)Norm\w*|\w*Dropout\w*|Identity|[CS]?ELU|PReLU|(Leaky)?ReLU6?|GELU|SiLU|Mish|"
    r"(Log)?Softmax|(Log|Hard)?[Ss]igmoid|(Hard)?[Tt]anh|Hardswish|Softplus|Softsign|TransformerEncoder(Layer)?"
)
"""Layers whose output has the shape of their input."""

WINDOW = lazy_pattern(r"(Lazy)?(ConvTranspose|Conv|MaxPool|AvgPool)([123])d")
ADAPTIVE = lazy_pattern(r"Adaptive(Max|Avg)Pool([123])d")
OPEN = "**"
"""The name of arguments that a layer may have been given besides those that are known."""

SEQUENTIAL = "torch.nn.Sequential"
"""Its parts are called in order, unless `OPEN` is among its arguments: then its parts or their order are not known."""

MOST_PIXELS = 1 << 20
"""The largest size of an axis that is computed."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """An axis of an input, counted from the end, that has another size than the layer was built for."""

    axis: int
    expected: int
    size: int


def output_of(module: Module, shape: Shape) -> Shape:
    """The shape of what a layer gives for an input of this shape."""
    name = module.name
    if SHAPELESS.fullmatch(name):
        return shape
    rule = OUTPUTS.get(name)
    if rule is not None:
        return rule(module, shape)
    if WINDOW.fullmatch(name):
        return _windowed(module, shape)
    if ADAPTIVE.fullmatch(name):
        return _adapted(module, shape)
    keeps_axes = name.endswith(tuple("123")) or "Pool" in name
    return Shape((None,) * len(shape.sizes), shape.is_open, shape.rows_first) if keeps_axes else ANY


def argument_of(module: Module, name: str, position: int) -> Value:
    """An argument of a layer: Absent if its call does not give it, Unknown if it may."""
    given = module.arguments.get(name, module.arguments.get(str(position)))
    return given if given is not None else UNKNOWN if OPEN in module.arguments else Absent()


def size_of(module: Module) -> int | None:
    """The number of outputs of a linear layer, if the script gives it."""
    return integer(argument_of(module, "out_features", 0 if module.name == "LazyLinear" else 1))


def misfit_of(module: Module, shape: Shape) -> Misfit | None:
    """The axis of an input that does not fit a layer; None if all do, as far as is known."""
    known = EXPECTED.get(module.name)
    window = WINDOW.fullmatch(module.name)
    if window and not module.name.startswith("Lazy") and "Conv" in module.name:
        axes = int(window[3])
        if not shape.is_open and len(shape.sizes) not in {axes + 1, axes + 2}:
            return None  # which axis has the channels depends on the release that accepts so many
        return _compared(shape, -axes - 1, integer(argument_of(module, "in_channels", 0)))
    if known is None:
        return None
    name, axis_of = known
    axis = axis_of(shape)
    return None if axis is None else _compared(shape, axis, integer(argument_of(module, name, 0)))


def _compared(shape: Shape, axis: int, expected: int | None) -> Misfit | None:
    size = shape.sizes[axis] if len(shape.sizes) >= -axis else None
    if expected is None or size is None or size < 0 or expected < 1 or size == expected:
        return None
    return Misfit(axis, expected, size)


def _last(shape: Shape) -> int:
    return -1


def _channels(spatial: int) -> Callable[[Shape], int | None]:
    def axis_of(shape: Shape) -> int | None:
        return -spatial - 1

    return axis_of


def _channels_of_rows(shape: Shape) -> int | None:
    return 1 - shape.rank if shape.rank in {2, 3} else None


EXPECTED: dict[str, tuple[str, Callable[[Shape], int | None]]] = {
    "Linear": ("in_features", _last),
    "LSTM": ("input_size", _last),
    "GRU": ("input_size", _last),
    "RNN": ("input_size", _last),
    "LayerNorm": ("normalized_shape", _last),
    "MultiheadAttention": ("embed_dim", _last),
    "TransformerEncoderLayer": ("d_model", _last),
    "BatchNorm1d": ("num_features", _channels_of_rows),
    "BatchNorm2d": ("num_features", _channels(2)),
    "BatchNorm3d": ("num_features", _channels(3)),
}
"""The argument of a layer that says how large an axis of its input is, and which axis that is."""


def _linear(module: Module, shape: Shape) -> Shape:
    return resized_last(shape, size_of(module))


def _embedded(module: Module, shape: Shape) -> Shape:
    return resized_last(unsqueezed(shape, [Constant(-1)]), integer(argument_of(module, "embedding_dim", 1)))


def _flat(module: Module, shape: Shape) -> Shape:
    start, end = argument_of(module, "start_dim", 0), argument_of(module, "end_dim", 1)
    return flattened(shape, [Constant(1) if isinstance(start, Absent) else start, *_given(end)])


def _given(value: Value) -> list[Value]:
    return [] if isinstance(value, Absent) else [value]


def _like_query(module: Module, shape: Shape) -> Shape:
    return shape


STAGE = "torchvision.stage"
"""A part of a ready-made ResNet, as one of its `children()`; `maps` is what it gives for each image."""


def _staged(stage: Module, shape: Shape) -> Shape:
    """Maps whose height and width depend on the image."""
    return Shape((None, integer(stage.arguments["maps"]), None, None), False, shape.rows_first)


OUTPUTS: dict[str, Callable[[Module, Shape], Shape]] = {
    "Linear": _linear,
    "LazyLinear": _linear,
    "Embedding": _embedded,
    "Flatten": _flat,
    "MultiheadAttention": _like_query,
    "stage": _staged,
}


def _windowed(module: Module, shape: Shape) -> Shape:
    """Convolutions and pools: the same axes, the spatial ones smaller or larger, with new channels of a convolution."""
    window = WINDOW.fullmatch(module.name)
    axes = int(window[3]) if window else 0
    is_convolution = "Conv" in module.name
    if not shape.is_open and len(shape.sizes) not in {axes + 1, axes + 2}:
        return ANY
    before = shape.sizes[-axes - 1 :] if len(shape.sizes) > axes else (None,) * (axes + 1)
    channels = integer(argument_of(module, "out_channels", 0 if window and window[1] else 1))
    sizes = _window_sizes(module, before[1:])
    front = shape.sizes[: -axes - 1]
    channels = channels if is_convolution else before[0]
    return Shape((*front, channels, *sizes), shape.is_open, shape.rows_first and bool(front))


def _window_sizes(module: Module, sizes: tuple[int | None, ...]) -> tuple[int | None, ...]:
    """The spatial sizes after a window has moved over them."""
    options = _window_options(module)
    count = len(sizes)
    if options is None:
        return (None,) * count
    found: list[int | None] = []
    for index, size in enumerate(sizes):
        steps = [_at(option, index) for option in options]
        found.append(None if size is None or None in steps else _moved(module, size, *(step or 0 for step in steps)))
    return tuple(found)


def _moved(module: Module, size: int, kernel: int, stride: int, padding: int, dilation: int, more: int) -> int | None:
    if padding < 0:  # "same"
        return size
    if "Transpose" in module.name:
        after = (size - 1) * stride - 2 * padding + dilation * (kernel - 1) + more + 1
    else:
        after = (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1 if stride > 0 else 0
    return after if 0 < after <= MOST_PIXELS else None


Option = Value | int
"""One option of a window: a value that may have a number for each axis, or the default."""


def _window_options(module: Module) -> tuple[Option, ...] | None:
    """Kernel, stride, padding, dilation and output padding; None if they are not known."""
    is_convolution, is_transposed = "Conv" in module.name, "Transpose" in module.name
    first = 2 if is_convolution else 0
    first -= module.name.startswith("Lazy")
    kernel = argument_of(module, "kernel_size", first)
    stride = argument_of(module, "stride", first + 1)
    padding = argument_of(module, "padding", first + 2)
    if text_of(padding) == "same":
        padding = Constant(-1)
    elif text_of(padding) == "valid":
        padding = Constant(0)
    dilation: Value = Absent()
    if is_convolution:
        dilation = argument_of(module, "dilation", first + (6 if is_transposed else 3))
    elif module.name.startswith("Max"):
        dilation = argument_of(module, "dilation", 3)
    more = argument_of(module, "output_padding", first + 3) if is_transposed else Absent()
    if not is_convolution and not _rounds_down(module):
        return None
    own: Option = 1 if is_convolution else kernel
    return (kernel, _or(stride, own), _or(padding, 0), _or(dilation, 1), _or(more, 0))


def _rounds_down(module: Module) -> bool:
    mode = argument_of(module, "ceil_mode", 5 if module.name.startswith("Max") else 3)
    return isinstance(mode, Absent) or literal(mode) is False


def _or(value: Value, default: Option) -> Option:
    is_missing = isinstance(value, Absent) or (isinstance(value, Constant) and value.value is None)
    return default if is_missing else value


def _at(option: Option, index: int) -> int | None:
    """An option's number for one axis."""
    if isinstance(option, int):
        return option
    if isinstance(option, Sequence):
        return integer(option.items[index]) if option.is_complete and index < len(option.items) else None
    return integer(option)


def _adapted(module: Module, shape: Shape) -> Shape:
    """Adaptive pools: the spatial sizes are those that they were built for."""
    pool = ADAPTIVE.fullmatch(module.name)
    axes = int(pool[2]) if pool else 0
    if not shape.is_open and len(shape.sizes) not in {axes + 1, axes + 2}:
        return ANY
    size = argument_of(module, "output_size", 0)
    front = shape.sizes[:-axes] if len(shape.sizes) >= axes else ()
    sizes = (_at(size, index) for index in range(axes))
    return Shape((*front, *sizes), shape.is_open, shape.rows_first and len(front) > 1)
