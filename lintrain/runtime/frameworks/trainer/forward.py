"""The forward stage: the trainer's own training step, held before its backward pass."""

from __future__ import annotations

import inspect
import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from lintrain.evidence.run import ForwardEvidence
from lintrain.runtime.child.kinds import is_row
from lintrain.runtime.child.library import library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.trainer.setup import overridden
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.model import base_model, is_fresh
from lintrain.runtime.measure.non_finite import NonFiniteModule, first_non_finite
from lintrain.runtime.measure.outputs import chance_of, number, shape_of
from lintrain.runtime.measure.responses import Responses
from lintrain.runtime.measure.seen import LossCall, seen_losses
from lintrain.runtime.measure.standard_loss import tokens_of

LOSS_OVERRIDES = frozenset({"compute_loss", "compute_loss_func", "training_step"})


class Recorder:
    """What passes through a training step: raw losses and the functions that made them, the last call of the model
    with its output, the loss that waits for backward."""

    def __init__(self) -> None:
        self.losses: list[Any] = []
        self.output: Any = None
        self.call: Call | None = None
        self.loss_calls: list[LossCall] = []
        self.waiting: list[tuple[Any, dict[str, Any]]] = []
        self.holds = False


@contextmanager
def recording(run: TrainerRun) -> Generator[Recorder]:
    """Watch the trainer's loss, model and backward; with `holds` the backward pass waits."""
    trainer, recorder = run.trainer, Recorder()
    compute, backward = trainer.compute_loss, trainer.accelerator.backward

    def compute_loss(*args: Any, **kwargs: Any) -> Any:
        result: Any = compute(*args, **kwargs)
        recorder.losses.append(result[0] if is_row(result) else result)
        return result

    def held_backward(loss: Any, **kwargs: Any) -> None:
        # The graph is kept and not run: the forward stage passes or fails on its own, and the backward stage starts
        # from the same loss instead of computing it again.
        if recorder.holds:
            recorder.waiting.append((loss, kwargs))
        else:
            backward(loss, **kwargs)

    def keep_call(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        recorder.call, recorder.output = Call(model, args, kwargs), output

    hook = trainer.model.register_forward_hook(keep_call, with_kwargs=True)
    with replaced(trainer, compute_loss=compute_loss), replaced(trainer.accelerator, backward=held_backward):
        try:
            yield recorder
        finally:
            hook.remove()


def training_step(run: TrainerRun, batch: Any) -> Any:
    """One step as the trainer's own loop calls it; gives the loss that the loop would log."""
    trainer = run.trainer
    items = _items(trainer, batch)
    parameters = inspect.signature(library("transformers.trainer").Trainer.training_step).parameters
    if "num_items_in_batch" in parameters:
        return trainer.training_step(run.wrapped, batch, items)
    return trainer.training_step(run.wrapped, batch)


def _items(trainer: Any, batch: Any) -> Any:
    """The number of scored labels, counted by the trainer as for a window of one batch."""
    take = getattr(trainer, "get_batch_samples", None)
    if take is None:
        return None
    # The trainer divides its loss by the number of scored labels of a whole accumulation window; here the window is
    # this one batch.
    arguments = [iter([batch]), 1]
    if len(inspect.signature(take).parameters) > 2:
        arguments.append(trainer.args.device)
    return take(*arguments)[1]


def measure_forward(run: TrainerRun) -> None:
    """The first batch through model and loss; its backward pass waits for the next stage."""
    run.wrapped = wrapped_model(run.trainer)
    with recording(run) as recorder, seen_losses() as recorder.loss_calls:
        recorder.holds = True
        returned = training_step(run, run.batches[0])
    loss = recorder.losses[-1] if recorder.losses else returned
    run.waiting = recorder.waiting
    run.losses = [number(loss)]
    run.output_keys, run.logits_shape = shape_of(recorder.output)
    run.measured(forward=forward_evidence(run))
    if recorder.call is not None:
        tokens = tokens_of(recorder.loss_calls, loss, run.model)
        run.responses = Responses(run, recorder.call, tokens)
        run.responses.measure()


def wrapped_model(trainer: Any) -> Any:
    """The model as the trainer runs it: wrapped for autocast and devices, not for an optimizer."""
    model = trainer._wrap_model(trainer.model_wrapped)
    return trainer.accelerator.prepare_model(model) if model is trainer.model else model


def forward_evidence(run: TrainerRun) -> ForwardEvidence:
    """What the forward passes until now say."""
    finite = all(math.isfinite(loss) for loss in run.losses)
    # Looked for only then: it costs another forward pass with a hook on every module.
    non_finite = None if finite else _non_finite(run, run.batches[len(run.losses) - 1])
    model = base_model(run.model)
    return ForwardEvidence(
        losses=tuple(run.losses),
        chance=chance_of(model),
        finite=finite,
        logits_shape=run.logits_shape,
        returned_keys=run.output_keys,
        fresh_head=run.session.knows_origins and is_fresh(run.model),
        standard_loss=_has_standard_loss(run, model),
        first_non_finite=non_finite.module if non_finite else None,
        first_non_finite_input=non_finite.input_was if non_finite else None,
        first_non_finite_range=non_finite.range if non_finite else None,
    )


def _non_finite(run: TrainerRun, batch: Any) -> NonFiniteModule | None:
    return first_non_finite(run.model, lambda: run.wrapped(**run.trainer._prepare_inputs(batch)))


def _has_standard_loss(run: TrainerRun, model: Any) -> bool:
    changed = LOSS_OVERRIDES & set(overridden(run.trainer))
    is_librarys = type(model).__module__.startswith("transformers.")
    return not changed and is_librarys and not run.trainer.args.label_smoothing_factor
