"""A training step of Keras on TensorFlow, stopped where gradients are asked for."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any

from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.library import library, loaded
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.keras.modes import ModeCalls, counted_modes
from lintrain.runtime.frameworks.tensorflow.arrays import key_of, leaves
from lintrain.runtime.frameworks.tensorflow.tensorflow_run import TensorFlowRun


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
