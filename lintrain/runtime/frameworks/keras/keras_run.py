"""A `fit` of Keras under measurement: its model, its data, its optimizer, and the arguments of `compile`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from types import GeneratorType
from typing import Any

from lintrain.model.location import Location
from lintrain.runtime.child.library import attribute, is_mapping, is_row, library
from lintrain.runtime.child.measured_run import MeasuredRun
from lintrain.runtime.child.probe_session import ProbeSession

WHOLE = "Model.fit"
UNKNOWN_LENGTH = 100
OF_FIT: dict[str, Any] = {
    "epochs": 1,
    "callbacks": None,
    "validation_split": 0.0,
    "validation_data": None,
    "shuffle": False,
    "steps_per_epoch": None,
    "validation_batch_size": None,
}
"""The arguments of `fit` for a script that passes one batch at a time."""


def rows_of(x: Any) -> int | None:
    """The rows of the first array of inputs; None if there is none."""
    parts = list(x.values()) if is_mapping(x) else x if is_row(x) else [x]
    return next((int(part.shape[0]) for part in parts if attribute(part, "shape", ())), None)


class Weights:
    """The variables of a Keras model as the parameters of a module, by their paths in the model."""

    def __init__(self, model: Any) -> None:
        self.keras = model
        self.training = True

    def named_parameters(self) -> Iterator[tuple[str, Any]]:
        """Every variable, those that train first; the state of random generators, whole numbers, is none."""
        for variable in (*self.keras.trainable_variables, *self.keras.non_trainable_variables):
            # On torch, `value` may be a copy in the precision of an autocast scope; `_value` is what is trained.
            weight = attribute(variable, "_value", variable.value)
            if weight.is_floating_point():
                yield variable.path.replace("/", "."), weight

    def parameters(self) -> Iterator[Any]:
        """Their tensors."""
        return (weight for _, weight in self.named_parameters())


class Drawn:
    """The batches of a generator, counted as Keras takes them."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator
        self.count = 0
        self.is_over = False

    def batches(self) -> Iterator[Any]:
        """A generator of the same batches."""
        for batch in self._generator:
            self.count += 1
            yield batch
        self.is_over = True

    def draw_on(self, rest: Iterator[Any], most: int) -> None:
        """Take more of its batches, until there are so many, for a moment at most: the run will not read them."""
        ends = time.perf_counter() + SECONDS
        with suppress(Exception):  # an error that the run does not come to
            while not self.is_over and self.count < most and time.perf_counter() < ends:
                next(rest, None)


class KerasRun(MeasuredRun):
    """`given` are the arguments of `fit`, those of `train_on_batch` as if one batch were all of the data; `iterator`
    gives batches as Keras takes them, and `waiting` is a loss whose backward pass waits. `logged` are the names that
    an epoch ends with, as far as its parts went through."""

    def __init__(
        self, session: ProbeSession, model: Any, call: Location | None, given: dict[str, Any], trainer: str
    ) -> None:
        super().__init__(session, call)
        self.keras = model
        self.trainer = trainer
        self.given: dict[str, Any] = (
            given if trainer == WHOLE else {**OF_FIT, "batch_size": rows_of(given["x"]), **given}
        )
        x: Any = self.given["x"]
        self.drawn = Drawn(x) if isinstance(x, GeneratorType) else None
        if self.drawn is not None:
            self.given["x"] = self.drawn.batches()
        self.logged: tuple[str, ...] = ()
        self.iterator: Any = None
        self.waiting: Any = None
        self.validation: Any = self.given["validation_data"]
        self._weights = Weights(model)

    @property
    def package(self) -> str:
        """The package of the model."""
        return "keras"

    @property
    def slicing(self) -> Any:
        """The module of the library that splits validation rows from arrays."""
        return library("keras.src.trainers.data_adapters.array_slicing")

    @property
    def planned_steps(self) -> int:
        """Steps of all epochs; `UNKNOWN_LENGTH` for an epoch whose length is not known."""
        # A generator has no length: Keras itself learns it at the end of the first epoch.
        length: int | None = attribute(self.iterator, "num_batches", None)
        epochs: int = self.given["epochs"]
        return max(1, int(length or UNKNOWN_LENGTH) * epochs)

    @property
    def model(self) -> Any:
        """The weights by name, which is all that shared measurements need of a model."""
        return self._weights

    @property
    def collator(self) -> Any:
        """The data adapter of Keras."""
        return attribute(self.iterator, "data_adapter", None)

    @property
    def clipped_at(self) -> float | None:
        """The norm that the optimizer clips to."""
        names = ("global_clipnorm", "clipnorm")
        limits = [limit for name in names if (limit := attribute(self.keras.optimizer, name, None))]
        return float(limits[0]) if limits else None

    @property
    def scale(self) -> float:
        """The loss scale of the optimizer in mixed precision."""
        # Gradients of a scaled loss are that much larger; the probe divides it out of losses and gradients.
        return float(attribute(self.keras.optimizer, "dynamic_scale", None) or 1.0)

    def parts(self, batch: Any) -> tuple[Any, Any, Any]:
        """Inputs, targets and sample weights of a batch."""
        adapters = library("keras.src.trainers.data_adapters.data_adapter_utils")
        x, y, weights = adapters.unpack_x_y_sample_weight(batch)
        return x, y, weights


Value = str | int | float | bool | None
KERAS = ("keras", "tf_keras")
MOST_STEPS = 10_000
MOST_DRAWN, SECONDS = 10_000, 0.3
"""Batches that are taken from a generator to see whether it ends, and seconds for it."""


def loss_name(model: Any, package: str = "keras") -> str:
    """The loss as Keras names it; empty for one of the script's own, and for several."""
    given = model.loss
    if isinstance(given, str):
        given = library(f"{package}.losses").get(given)
    if not any(module.startswith(KERAS) for module in (type(given).__module__, _module(given))):
        return ""
    name = attribute(given, "__name__", None) or type(given).__name__
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _module(function: Any) -> str:
    return str(attribute(function, "__module__", ""))


def from_logits(model: Any) -> bool | None:
    """Whether the loss takes logits; a name or a function stands for the default, None for no such setting."""
    if isinstance(model.loss, str):
        # A string gives the function its default, `from_logits=False`, whatever the last layer is.
        return False if "crossentropy" in model.loss.lower() else None
    setting = attribute(model.loss, "from_logits", None)
    if setting is None:  # the older Keras keeps it for the function that it calls
        setting = attribute(model.loss, "_fn_kwargs", {}).get("from_logits")
    if setting is None and callable(model.loss) and "crossentropy" in loss_name(model):
        return False
    return setting if isinstance(setting, bool) else None


def activation_at_end(model: Any) -> str:
    """The activation of the layer that gives the output of a chain or graph of layers; "" for any other model."""
    try:
        # `outputs` raises for a subclassed model, and is a list of several for a model with two heads, where no
        # single layer is the last.
        (output,) = model.outputs
        made = output._keras_history
    except (AttributeError, TypeError, ValueError):  # a model of the script's own, or several outputs
        return ""
    layer = attribute(made, "operation", None) or attribute(made, "layer", None)
    activation = attribute(layer, "activation", None)
    if activation is None:
        return {"Softmax": "softmax", "ReLU": "relu"}.get(type(layer).__name__, "")
    return str(attribute(activation, "__name__", ""))


def arguments_of(run: KerasRun) -> dict[str, Value]:
    """What `compile` and `fit` were given."""
    model, given = run.keras, run.given
    return {
        "loss": loss_name(model, run.package) or type(model.loss).__name__,
        "from_logits": from_logits(model),
        "optimizer": type(model.optimizer).__name__,
        "jit_compile": bool(model.jit_compile),
        "run_eagerly": bool(model.run_eagerly),
        "batch_size": given["batch_size"],
        "epochs": given["epochs"],
        "shuffle": given["shuffle"] if isinstance(given["shuffle"], bool) else str(given["shuffle"]),
        "validation_split": float(given["validation_split"] or 0.0),
        "steps_per_epoch": given["steps_per_epoch"],
    }


def _given_rate(optimizer: Any) -> Any:
    """The rate or schedule as the optimizer keeps it; the legacy optimizers of TensorFlow store it elsewhere."""
    given = attribute(optimizer, "_learning_rate", None)
    older: dict[str, Any] = attribute(optimizer, "_hyper", {})
    return older.get("learning_rate") if given is None else given


def rates(run: KerasRun, most: int = MOST_STEPS) -> tuple[float, float, int]:
    """The learning rate of the first step, the highest of the planned ones, and the step that has it."""
    optimizer = run.keras.optimizer
    # A LossScaleOptimizer keeps the schedule in the one that it wraps.
    optimizer = attribute(optimizer, "inner_optimizer", optimizer)
    schedule = _given_rate(optimizer)
    if not isinstance(schedule, library(f"{run.package}.optimizers.schedules").LearningRateSchedule):
        rate = float(optimizer.learning_rate)
        return rate, rate, 0
    planned = run.planned_steps
    # A plan of a million steps is sampled: no schedule in use rises and falls between two samples.
    steps = range(0, planned, max(1, planned // most))
    found = [(float(schedule(step)), step) for step in steps]
    highest = max(rate for rate, _ in found)
    return found[0][0], highest, next(step for rate, step in found if rate == highest)
