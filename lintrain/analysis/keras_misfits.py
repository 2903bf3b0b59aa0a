"""Data that a Keras network was not made for: their shape is not that of its first layer, or of its outputs."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis.keras_shapes import declared, layers_of, shape_of_data, steps_of
from lintrain.interpreter.shapes import ANY
from lintrain.pipeline.values.argument import Argument
from lintrain.pipeline.values.model import Layer, Tensor
from lintrain.pipeline.values.python import Bound, Sequence, Unknown, Value, literal
from lintrain.pipeline.values.tensors import AxisSize, Shape
from lintrain.pipeline.values.training import KerasRun, Pixels
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Misfit:
    """Data of another shape than the network: the argument that holds them, their shape, and that of the network."""

    argument: Argument
    given: Shape
    expected: Shape


def misfitting_inputs(run: KerasRun) -> Iterator[Misfit]:
    """What a network is fitted on, evaluated on or asked about, and cannot take by the shape that it was made for."""
    first = next(iter(layers_of(run)), None)
    expected = declared(first) if first is not None else ANY
    fitted = [arguments["x"] for _, arguments in run.fits if "x" in arguments]
    for argument in (*fitted, *run.evaluations, *run.predictions) if expected.sizes else ():
        given = shape_of_data(argument.value)
        if not expected.is_open and not given.is_open and _is_unfit(given, expected):
            yield Misfit(argument, given, expected)


def _is_unfit(given: Shape, expected: Shape) -> bool:
    """Whether Keras refuses a shape; it adds a last axis of 1, or leaves it out, where that is all that differs."""
    return _differ(given.sizes, expected.sizes)


def _differ(sizes: tuple[int | None, ...], wanted: tuple[int | None, ...]) -> bool:
    """Whether sizes differ behind the batch, a last axis of 1 in one of the two left out."""
    more = len(sizes) - len(wanted)
    if more == 1 and sizes[-1] in {1, None}:
        sizes = sizes[:-1]
    elif more == -1 and wanted[-1] in {1, None}:
        wanted = wanted[:-1]
    elif more:
        return True
    pairs = list(zip(sizes, wanted, strict=True))[1:]
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def misfitting_targets(run: KerasRun, *, is_sparse: bool) -> Iterator[Misfit]:
    """The targets of `fit` that have other axes than the outputs, or another size along one of them."""
    steps = steps_of(run)
    outputs = steps[-1].after if steps else ANY
    for _, arguments in run.fits if outputs.sizes and not outputs.is_open else ():
        targets = shape_of_data(arguments["y"].value) if "y" in arguments else ANY
        if not targets.is_open and targets.sizes and _is_missed(targets, outputs, is_sparse=is_sparse):
            yield Misfit(arguments["y"], targets, outputs)


def _is_missed(targets: Shape, outputs: Shape, *, is_sparse: bool) -> bool:
    # A row of numbers counts as one column.
    sizes = (*targets.sizes, 1) if len(targets.sizes) == 1 else targets.sizes
    wanted = (*outputs.sizes[:-1], 1) if is_sparse else outputs.sizes
    return _differ(sizes, wanted)


def rows_as_features(run: KerasRun) -> Layer | None:
    """The first layer, if its shape is `(x.shape[0], …)` of the array that every `fit` gets: its number of rows."""
    first = next(iter(layers_of(run)), None)
    shape = first.arguments.get("input_shape", first.arguments.get("shape")) if first is not None else None
    fitted = [arguments["x"].value for _, arguments in run.fits if "x" in arguments]
    if not isinstance(shape, Sequence) or not shape.items or not fitted or len(fitted) != len(run.fits):
        return None
    return first if all(_is_row_count(shape.items[0], each) for each in fitted) else None


def _is_row_count(size: Value, array: Value) -> bool:
    match size:
        case AxisSize(axis=0, within=within):
            return within is array
        case Unknown(name=name, within=Unknown(within=within) | Bound(receiver=within)) if name.endswith("shape.[0]"):
            return within is array
        case _:
            return False


def whole_shape_given(run: KerasRun) -> Layer | None:
    """The first layer, if its `input_shape` is `x.shape` of the array that every `fit` gets, whose rows are counted."""
    first = next(iter(layers_of(run)), None)
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
    layers = layers_of(run)
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
