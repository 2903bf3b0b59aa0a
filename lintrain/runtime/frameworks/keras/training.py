"""Forward, backward and steps of a Keras model, through the `train_step` that it has.

Keras on torch: its stages and its model.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from lintrain.evidence.run import ForwardEvidence, KerasEvidence, ModelEvidence, OptimizerGroup, StageName, StepEvidence
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import attribute, has, is_mapping, library
from lintrain.runtime.frameworks.keras.data import Backend, ModeCalls, counted_modes, take_batches
from lintrain.runtime.frameworks.keras.keras_run import KerasRun, activation_at_end, from_logits, loss_name, rates
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.gradients import Gradients, backward_evidence
from lintrain.runtime.measure.predictions import number
from lintrain.runtime.measure.responses import Responses
from lintrain.runtime.measure.tables import show_predictions
from lintrain.runtime.measure.weights import changed, changed_share, pulls, restore, snapshot, trainable, updates

STEPS = 2


class Held(BaseException):
    """Ends a training step before its backward pass; `BaseException`, so that no `except Exception` takes it."""


class Seen:
    """What happened in a training step: the loss before its backward pass, the arguments of the loss function, the
    modes of layers.
    """

    def __init__(self) -> None:
        self.loss: Any = None
        self.outputs: Any = None
        self.targets: Any = None
        self.modes = ModeCalls()


@contextmanager
def _watched(run: KerasRun) -> Generator[Seen]:
    """Record the arguments of the library's `compute_loss`, and stop where the backward pass would start."""
    seen = Seen()
    trainer = library("keras.src.trainers.trainer").Trainer
    compute = trainer.compute_loss

    def compute_loss(model: Any, x: Any = None, y: Any = None, y_pred: Any = None, *args: Any, **kwargs: Any) -> Any:
        # A model may train another one inside of its step (distillation, a GAN): its loss is not
        # the one that is measured.
        if model is run.keras:
            seen.outputs, seen.targets = y_pred, y
        return compute(model, x, y, y_pred, *args, **kwargs)

    def backward(loss: Any, *_args: Any, **_kwargs: Any) -> None:
        seen.loss = loss
        raise Held

    # `train_step` of a script's own subclass may compute its loss in any way, but it has to call `backward` on a
    # tensor: stopping there works for all of them.
    with replaced(trainer, compute_loss=compute_loss), replaced(library("torch").Tensor, backward=backward):
        yield seen


def _step_until_backward(run: KerasRun, batch: Any, seen: Seen) -> None:
    try:
        returned = run.keras.train_step(batch)
    except Held:
        return
    # A `train_step` that uses an optimizer of torch with gradients of `torch.autograd.grad` never calls `backward`.
    if seen.loss is None and is_mapping(returned):
        seen.loss = returned.get("loss")


def measure_forward(run: KerasRun) -> None:
    """Build the model on its data, and take the first batch through model and loss."""
    seen = Seen()
    try:
        # As `fit` does it, so that a layer which cannot be built fails here with the error of the real run.
        run.keras._symbolic_build(iterator=run.iterator)
        run.iterator.reset()
        run.keras.train()
        # Metrics keep their sums from batch to batch; those of the symbolic build are not the run's.
        run.keras.reset_metrics()
        seen = _forward(run, run.batches[0])
    except BaseException:
        seen = _without_loss(run)
        raise
    finally:
        run.measured(keras=_keras_evidence(run, seen))
    run.waiting = seen.loss
    run.losses = [number(seen.loss) / run.scale] if seen.loss is not None else []
    run.logits_shape = tuple(attribute(seen.outputs, "shape", ()))
    run.measured(forward=_forward_evidence(run))
    show_predictions(run, "train_dataset", seen.outputs)
    run.responses = responses_of(run)
    run.responses.measure()


def _forward(run: KerasRun, batch: Any) -> Seen:
    with _watched(run) as seen, counted_modes(run.keras) as seen.modes:
        _step_until_backward(run, batch, seen)
    return seen


def _without_loss(run: KerasRun) -> Seen:
    """The arguments that the loss would have had, for a run that fails in it; nothing if the model itself fails."""
    seen = Seen()
    x, seen.targets, _ = run.parts(run.batches[0])
    try:
        with library("torch").no_grad():
            seen.outputs = run.keras(x)
    except Exception as error:  # noqa: BLE001 - the first error is the one that is reported
        run.session.note(f"the model's outputs could not be read: {type(error).__name__}")
    return seen


def _keras_evidence(run: KerasRun, seen: Seen) -> KerasEvidence:
    x, y, _ = run.parts(run.batches[0])
    outputs, targets = (one if has(one, "shape") else None for one in (seen.outputs, seen.targets))
    numbers = outputs.detach().float() if outputs is not None and outputs.numel() else None
    sums = numbers.sum(dim=-1) if numbers is not None and numbers.ndim else None
    return KerasEvidence(
        loss=loss_name(run.keras),
        from_logits=from_logits(run.keras),
        inputs=tuple(map(str, x)) if is_mapping(x) else (),
        has_targets=y is not None,
        output_shape=tuple(outputs.shape) if outputs is not None else (),
        output_minimum=float(numbers.min()) if numbers is not None else None,
        output_maximum=float(numbers.max()) if numbers is not None else None,
        sums=(float(sums.min()), float(sums.max())) if sums is not None else None,
        target_shape=tuple(targets.shape) if targets is not None else (),
        target_dtype=str(targets.dtype).removeprefix("torch.") if targets is not None else "",
        modal_calls=seen.modes.every,
        modal_calls_in_training=seen.modes.in_training,
        activation=activation_at_end(run.keras),
        untrained_at=seen.modes.untrained_at,
        fractions=_fractions(targets),
    )


def _fractions(targets: Any) -> float | None:
    if targets is None or not targets.numel():
        return None
    numbers = targets.detach().float()
    return float((numbers != numbers.round()).float().mean())


def _forward_evidence(run: KerasRun) -> ForwardEvidence:
    return ForwardEvidence(
        losses=tuple(run.losses),
        chance=None,
        finite=all(math.isfinite(loss) for loss in run.losses),
        logits_shape=run.logits_shape,
    )


def measure_backward(run: KerasRun) -> None:
    """The waiting backward pass, then those of the other batches."""
    gradients = Gradients(run)
    for number_of_batch, batch in enumerate(run.batches):
        # The first graph is the one that the forward stage kept.
        loss = run.waiting if number_of_batch == 0 else _loss_of(run, batch)
        loss.backward()
        gradients.read(run.scale)
        run.progress(StageName.BACKWARD, number_of_batch, len(run.batches))
    run.measured(forward=_forward_evidence(run), backward=backward_evidence(run, gradients))


def _loss_of(run: KerasRun, batch: Any) -> Any:
    seen = _forward(run, batch)
    run.losses.append(number(seen.loss) / run.scale)
    return seen.loss


def take_two_steps(run: KerasRun) -> None:
    """Two whole training steps at the highest learning rate of the schedule; the weights are restored."""
    model = run.keras
    first, highest, at = rates(run)
    # In mixed precision the outer optimizer only scales; iterations and decay are those of the inner one.
    optimizer = attribute(model.optimizer, "inner_optimizer", model.optimizer)
    # The schedule is a function of the step: the step of its peak makes Keras use the peak rate by itself.
    if at:
        optimizer.iterations.assign(at)
    before = snapshot(run)
    had_gradient: set[str] = set()
    for step in range(STEPS):
        run.progress(StageName.STEP, step, STEPS)
        returned = model.train_step(run.batches[step % len(run.batches)])
        run.logged = tuple(map(str, returned)) if is_mapping(returned) else ()
        had_gradient |= {name for name, weight in trainable(run).items() if pulls(weight)}
    # All three compare with `before`, so they come before the weights are restored, and so does the repeated call.
    moved, share, by_layer = changed(run, before), changed_share(run, before), updates(run, before, STEPS)
    if run.responses is not None and moved:
        run.responses.after_steps()
    restore(run, before)
    decay = float(attribute(optimizer, "weight_decay", None) or 0.0)
    run.measured(
        step=StepEvidence(
            optimizer=type(optimizer).__name__,
            groups=(OptimizerGroup(highest, first, decay, len(before)),),
            trainable_tensors=len(before),
            changed_tensors=len(moved),
            unchanged=tuple(sorted(had_gradient - moved)),
            changed_share=share,
            updates=by_layer,
        )
    )


class Asked:
    """The model as a module that is called in inference mode; Keras manages its own state."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __call__(self, x: Any) -> Any:
        """Its outputs, with dropout off."""
        return self._model(x, training=False)

    def forward(self, x: Any) -> Any:
        """What torch would call."""
        return self(x)

    def modules(self) -> list[Any]:
        """None: there is no mode to set."""
        return []

    def named_modules(self) -> list[tuple[str, Any]]:
        """None."""
        return []

    def buffers(self) -> list[Any]:
        """None."""
        return []


def responses_of(run: KerasRun) -> Responses:
    """Repeated calls on the first batch: its inputs alone."""
    x, _, _ = run.parts(run.batches[0])
    return Responses(run, Call(Asked(run.keras), (x,), {}), None)


def measure_model(run: KerasRun) -> ModelEvidence:
    """The weights of the model, and whether it has layers that work differently in training."""
    model = run.keras
    weights = [weight for _, weight in run.model.named_parameters()]
    kinds = {type(layer).__name__ for layer in model._flatten_layers()}
    return ModelEvidence(
        name=type(model).__name__,
        inputs=(),
        label_inputs=(),
        task="",
        num_labels=None,
        label_names=(),
        positions=None,
        rotary=False,
        pretrained=False,
        parameters=sum(weight.numel() for weight in weights),
        trainable_parameters=sum(weight.numel() for weight in weights if weight.requires_grad),
        training=True,
        has_dropout_or_batch_norm=any("Dropout" in kind or kind == "BatchNormalization" for kind in kinds),
        device=str(next((weight.device for weight in weights), "cpu")),
    )


def _device() -> str:
    return str(library("keras.src.backend.torch.core").get_device())


TORCH = Backend(KerasRun, take_batches, measure_forward, measure_model, measure_backward, take_two_steps, _device)
