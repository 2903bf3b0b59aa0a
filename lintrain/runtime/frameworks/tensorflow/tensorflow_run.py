"""A `fit` on TensorFlow under measurement: what Keras 3 and the Keras of before have in places of their own.

A training step of Keras on TensorFlow, stopped where gradients are asked for.

Tensors, variables and gradients of TensorFlow as arrays of NumPy.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library, loaded
from lintrain.runtime.frameworks.keras.data import ModeCalls, counted_modes
from lintrain.runtime.frameworks.keras.keras_run import UNKNOWN_LENGTH, KerasRun


class TensorFlowRun(KerasRun):
    """A model of Keras 3; `waiting` is what its first training step wanted gradients of."""

    @property
    def model(self) -> Any:
        """The model of Keras itself."""
        return self.keras

    @property
    def scale(self) -> float:
        """The loss scale of the optimizer in mixed precision."""
        optimizer = self.keras.optimizer
        found = attribute(optimizer, "dynamic_scale", None) or attribute(optimizer, "loss_scale", None)
        return float(found or 1.0)

    def new_iterator(self) -> Any:
        """The iterator over an epoch, as `fit` makes it."""
        names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
        return library("keras.src.backend.tensorflow.trainer").TFEpochIterator(
            distribute_strategy=self.keras.distribute_strategy,
            steps_per_execution=1,
            **{name: self.given[name] for name in names},
        )

    def dataset(self) -> Any:
        """The `tf.data.Dataset` of batches behind the iterator."""
        return self.iterator._get_iterator()


class OlderRun(TensorFlowRun):
    """A model of `tf_keras`, as the TensorFlow models of transformers 4 are."""

    @property
    def package(self) -> str:
        """The package of the model."""
        return "tf_keras"

    @property
    def adapters(self) -> Any:
        """The module of the library that reads what `fit` is given."""
        return library("tf_keras.src.engine.data_adapter")

    @property
    def slicing(self) -> Any:
        """The module of the library that splits validation rows from arrays."""
        return self.adapters

    @property
    def planned_steps(self) -> int:
        """Steps of all epochs; `UNKNOWN_LENGTH` for an epoch whose length is not known."""
        length: int | None = attribute(self.iterator, "inferred_steps", None)
        epochs: int = self.given["epochs"]
        return max(1, int(length or UNKNOWN_LENGTH) * epochs)

    @property
    def collator(self) -> Any:
        """The data adapter of Keras."""
        return attribute(self.iterator, "_adapter", None)

    def parts(self, batch: Any) -> tuple[Any, Any, Any]:
        """Inputs, targets and sample weights of a batch."""
        x, y, weights = self.adapters.unpack_x_y_sample_weight(batch)
        return x, y, weights

    def new_iterator(self) -> Any:
        """The handler of the data, as `fit` makes it."""
        names = ("x", "y", "sample_weight", "batch_size", "steps_per_epoch", "shuffle", "class_weight")
        return self.adapters.get_data_handler(
            **{name: self.given[name] for name in names},
            epochs=1,
            model=self.keras,
            steps_per_execution=library("tensorflow").constant(1),
        )

    def dataset(self) -> Any:
        """The `tf.data.Dataset` of batches behind the handler."""
        return self.iterator._dataset


class Held(BaseException):
    """Ends a training step before its backward pass; `BaseException`, so that no `except Exception` takes it."""


class Seen:
    """What passed in a training step: its loss and how its gradients are had, what the loss was given."""

    def __init__(self) -> None:
        self.loss: Any = None
        self.ask: Any = None
        self.outputs: Any = None
        self.targets: Any = None
        self.modes = ModeCalls()
        self.returned: Mapping[str, Any] = {}
        self.gradients: dict[int, Any] = {}

    def compute_gradients(self) -> None:
        """Ask for the gradients that the step was stopped before."""
        self.gradients = self.ask()


@contextmanager
def _losses(run: TensorFlowRun, seen: Seen) -> Generator[None]:
    """Keep what the loss of `compile` is given."""
    older = loaded("tf_keras.src.engine.compile_utils") if run.package == "tf_keras" else None
    if older is None:
        trainer = library("keras.src.trainers.trainer").Trainer
        compute = trainer.compute_loss

        def compute_loss(model: Any, x: Any = None, y: Any = None, y_pred: Any = None, *args: Any, **more: Any) -> Any:
            if model is run.keras:
                seen.outputs, seen.targets = y_pred, y
            return compute(model, x, y, y_pred, *args, **more)

        with replaced(trainer, compute_loss=compute_loss):
            yield
        return
    compiled = older.LossesContainer
    call = compiled.__call__

    def call_(losses: Any, y_true: Any, y_pred: Any, *args: Any, **more: Any) -> Any:
        if losses is run.keras.compiled_loss:
            seen.outputs, seen.targets = y_pred, y_true
        return call(losses, y_true, y_pred, *args, **more)

    with replaced(compiled, __call__=call_):
        yield


@contextmanager
def _gradients(run: TensorFlowRun, seen: Seen, *, hold: bool) -> Generator[None]:
    """Keep the gradients of the model's weights, or stop the step where they are asked for."""
    tape = library("tensorflow").GradientTape
    gradient = tape.gradient

    def ask(self: Any, target: Any, sources: Any, *args: Any, **more: Any) -> Any:
        wanted = [key_of(source) for source in leaves(sources)]
        # A gradient with respect to something else, as a gradient penalty takes it, is part of the forward pass.
        if not {key_of(weight) for weight in run.keras.trainable_variables}.intersection(wanted):
            return gradient(self, target, sources, *args, **more)

        def go_backward() -> dict[int, Any]:
            return dict(zip(wanted, leaves(gradient(self, target, sources, *args, **more)), strict=True))

        if seen.loss is None:
            seen.loss, seen.ask = target, go_backward
        if hold:
            raise Held
        found = gradient(self, target, sources, *args, **more)
        seen.gradients.update(zip(wanted, leaves(found), strict=True))
        return found

    with replaced(tape, gradient=ask):
        yield


def step_until_backward(run: TensorFlowRun, batch: Any) -> Seen:
    """A training step up to where it asks for gradients; a step that never does is executed."""
    seen = Seen()
    try:
        _step(run, batch, seen, hold=True)
    except Held:
        return seen
    if seen.loss is None:
        seen.loss = seen.returned.get("loss")
    return seen


def whole_step(run: TensorFlowRun, batch: Any) -> Seen:
    """A training step with everything that it does."""
    seen = Seen()
    _step(run, batch, seen, hold=False)
    return seen


def _step(run: TensorFlowRun, batch: Any, seen: Seen, *, hold: bool) -> None:
    """As Keras runs a step eagerly: in the replica context of the model's strategy."""
    with _losses(run, seen), _gradients(run, seen, hold=hold), counted_modes(run.keras) as seen.modes:
        # Optimizers and metrics read the replica context; outside of it they raise.
        strategy = run.keras.distribute_strategy
        with strategy.scope():
            returned = strategy.run(run.keras.train_step, args=(batch,))
    if is_mapping(returned):
        seen.returned = returned


def array_of(value: Any) -> Any:
    """What a tensor, a variable or a sparse gradient holds; None for what holds no numbers."""
    value = attribute(value, "value", value) if type(value).__module__.startswith("keras") else value
    if has(value, "indices") and has(value, "values"):  # a gradient of an embedding, row by row
        value = library("tensorflow").convert_to_tensor(value)
    if not has(value, "numpy"):
        return None
    values = value.numpy()
    return values if attribute(values, "dtype", None) is not None else None


def numbers_of(value: Any) -> Any:
    """The same in float32, for norms; bfloat16 too."""
    values = array_of(value)
    return None if values is None or values.dtype.kind in "OSU" else values.astype("float32")


def leaves(value: Any) -> Iterator[Any]:
    """Every entry of nested containers, in their order."""
    if is_mapping(value):
        for part in value.values():
            yield from leaves(part)
    elif is_row(value):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def name_of(variable: Any) -> str:
    """The path of a variable in its model, with dots."""
    return str(attribute(variable, "path", None) or variable.name).removesuffix(":0").replace("/", ".")


def key_of(variable: Any) -> int:
    """What is the same for a variable of Keras 3 and for the one of TensorFlow inside it."""
    inner = attribute(variable, "_value", None)
    return id(variable if inner is None else inner)
