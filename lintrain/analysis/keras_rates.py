"""Learning rates of Keras at which no deep network is trained."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.analysis import monitors
from lintrain.analysis.learning_rates import Rate
from lintrain.pipeline.record import Pipeline
from lintrain.pipeline.values.model import Layer, Network, Optimizer
from lintrain.pipeline.values.python import Constant, Instance, LibraryObject, Sequence, Value, number_of
from lintrain.pipeline.values.training import KerasRun

ADAPTIVE = frozenset({"Adam", "AdamW", "Adamax", "Nadam", "RMSprop"})
"""Optimizers whose steps are about as long as the learning rate."""

HUGE = 0.5
"""A rate with which no network is trained by steps of this size, unless it is a single layer."""

HIGH = 0.05
"""A rate that ends the training of a deep network: its activations and gradients are lost in the first steps."""

DEEP = 4
"""Layers with weights from which a network is deep."""

OF_DEPTH = frozenset({"Conv1D", "Conv2D", "Conv3D", "GRU", "LSTM", "MultiHeadAttention", "SimpleRNN"})
"""Layers that are sensitive to the size of a step, however few they are."""

WEIGHTED = OF_DEPTH | {"Dense", "Embedding", "Conv2DTranspose", "SeparableConv2D", "DepthwiseConv2D"}

MOST = 64
"""Layers of a functional network that are followed."""


def high_rates(pipeline: Pipeline) -> Iterator[Rate]:
    """The rates of the networks that a script fits, which its own code sets and nothing changes later."""
    for run in pipeline.keras_runs:
        rate = _rate_of(run) if run.fits or run.takes_single_steps else None
        if rate is not None and rate.value >= _limit_of(run.model) and not _is_scheduled(run):
            yield rate


def _rate_of(run: KerasRun) -> Rate | None:
    optimizer = run.value("optimizer")
    if not isinstance(optimizer, Optimizer) or not optimizer.path.startswith("keras.") or run.is_optimizer_touched:
        return None
    value, location = number_of(optimizer.learning_rate), optimizer.learning_rate_location
    is_free = isinstance(optimizer.learning_rate, Constant) and optimizer.learning_rate.may_differ
    if optimizer.name not in ADAPTIVE or value is None or location is None or is_free:
        return None
    return Rate(value, location, "learning_rate", False, optimizer.name)


def _limit_of(model: Value) -> float:
    """The rate from which a network cannot be trained."""
    names = [layer.name for layer in _layers_of(model)]
    weighted = sum(name in WEIGHTED for name in names)
    if weighted >= DEEP or not OF_DEPTH.isdisjoint(names):
        return HIGH
    return float("inf") if isinstance(model, Network) and weighted < 2 else HUGE


def _layers_of(model: Value) -> list[Layer]:
    """The layers of a network: of a functional one from its output to its input, of a class those that it keeps."""
    waiting, found, seen = [model], list[Layer](), set[int]()
    while waiting and len(seen) < MOST:
        value = waiting.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        match value:
            case Layer():
                found.append(value)
                waiting += value.inputs
            case Network(layers=parts) | Sequence(items=parts):
                waiting += parts
            case Instance(attributes=attributes):
                waiting += attributes.values()
            case _:
                pass
    return found


def _is_scheduled(run: KerasRun) -> bool:
    """Whether a callback may set the rate."""
    given = [arguments["callbacks"].value for _, arguments in run.fits if "callbacks" in arguments]
    callbacks = [each for value in given for each in monitors.items(value)]
    return any("**" in arguments for _, arguments in run.fits) or not all(
        isinstance(each, LibraryObject) and each.path.rpartition(".")[2] in FIXED for each in callbacks
    )


FIXED = frozenset(
    {"CSVLogger", "EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau", "TensorBoard", "TerminateOnNaN"}
)
"""Callbacks that never set the rate of the first epochs."""
