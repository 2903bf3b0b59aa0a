"""The forward stage: the trainer's own training step, held before its backward pass.

The backward stage: gradients over several batches of the trainer.

The batch stage: the trainer's own loader and collator.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from itertools import islice
from typing import Any

from lintrain.evidence.run import ForwardEvidence, NonFiniteRows, OddCall, RewardEvidence, StageName
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import attribute, has, is_mapping, is_row, library
from lintrain.runtime.frameworks.trainer.setup import overridden
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.calls import Call
from lintrain.runtime.measure.encodings import measure_encodings
from lintrain.runtime.measure.gradients import Gradients, backward_evidence, terms_of
from lintrain.runtime.measure.losses import (
    NonFiniteModule,
    NonFiniteSearch,
    first_non_finite,
    loss_evidence,
    tokens_of,
)
from lintrain.runtime.measure.model import base_model, is_fresh
from lintrain.runtime.measure.non_finite import non_finite_rows
from lintrain.runtime.measure.predictions import chance_of, number, shape_of
from lintrain.runtime.measure.random_head import random_head
from lintrain.runtime.measure.replay import ask
from lintrain.runtime.measure.responses import Responses
from lintrain.runtime.measure.seen import LossCall, number_of_rows, seen_losses, subset, taken
from lintrain.runtime.measure.tables import Source, asked_batches, record_batches, show_predictions
from lintrain.runtime.measure.tokenizer import find_tokenizer

MOST_CALLS = 4
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
    take = attribute(trainer, "get_batch_samples", None)
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
    run.terms = terms_of(loss, recorder.loss_calls) if has(loss, "grad_fn") else ()
    run.loss_calls = tuple(loss_evidence(call) for call in recorder.loss_calls if call.is_own)[:MOST_CALLS]
    run.random_head = random_head(base_model(run.model), recorder.output)
    run.measured(forward=forward_evidence(run), odd_calls=_odd_calls(run))
    show_predictions(run, "train_dataset", recorder.output)
    _predict_asked_rows(run)
    if recorder.call is not None:
        tokens = tokens_of(recorder.loss_calls, loss, run.model)
        run.responses = Responses(run, recorder.call, tokens)
        run.responses.measure()


def _odd_calls(run: TrainerRun) -> tuple[OddCall, ...]:
    """Those until now; a session in the user's own process watches none."""
    watch = attribute(run.session, "watch", None)
    return watch.odd_calls.evidence() if watch is not None else ()


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
        terms=run.terms,
        calls=run.loss_calls,
        returned_keys=run.output_keys,
        fresh_head=run.session.knows_origins and is_fresh(run.model),
        standard_loss=_has_standard_loss(run, model),
        first_non_finite=non_finite.module if non_finite else None,
        first_non_finite_input=non_finite.input_was if non_finite else None,
        first_non_finite_range=non_finite.range if non_finite else None,
        random_head=run.random_head,
        non_finite_rows=None if finite else _bad_rows(run, run.batches[len(run.losses) - 1]),
    )


def _bad_rows(run: TrainerRun, batch: Any) -> NonFiniteRows | None:
    """The loss of the batch once more, without a graph: its rows with NaN or infinity."""
    outputs: list[Any] = []

    def keep(_module: Any, _inputs: Any, output: Any) -> None:
        outputs.append(output)

    hook = run.model.register_forward_hook(keep)
    try:
        with seen_losses() as calls, library("torch").no_grad():
            run.trainer.compute_loss(run.wrapped, run.trainer._prepare_inputs(batch))
    except Exception:  # noqa: BLE001 - a loss of the script's own that cannot be computed without a graph
        return None
    finally:
        hook.remove()
    return non_finite_rows(calls, outputs[-1] if outputs else None, batch)


def _non_finite(run: TrainerRun, batch: Any) -> NonFiniteModule | None:
    return first_non_finite(run.model, lambda: run.wrapped(**run.trainer._prepare_inputs(batch)))


def _has_standard_loss(run: TrainerRun, model: Any) -> bool:
    changed = LOSS_OVERRIDES & set(overridden(run.trainer))
    is_librarys = type(model).__module__.startswith("transformers.")
    return not changed and is_librarys and not run.trainer.args.label_smoothing_factor


SECONDS = 20.0
"""More batches are taken only while they are expected to end within this time."""


def measure_gradients(run: TrainerRun) -> None:
    """The waiting backward pass of the first batch, then whole steps on the others; the last gradients stay."""
    gradients = Gradients(run)
    started = time.perf_counter()
    search = NonFiniteSearch()
    for loss, kwargs in run.waiting:
        search.watch(loss, run.model)
        run.trainer.accelerator.backward(loss, **kwargs)
    search.close()
    # Frees the graph before the next batch makes another: two graphs at a time need twice the memory of the run.
    run.waiting = []
    gradients.non_finite = search.found
    gradients.read(_scale(run), keep=True)
    run.measured(backward=backward_evidence(run, gradients))
    each = time.perf_counter() - started
    for done, batch in enumerate(run.batches[1:], start=1):
        run.progress(StageName.BACKWARD, done, len(run.batches))
        # A whole step costs about three times the waiting backward pass: forward, backward, and the loss once more.
        if (done + 1) * each * 3 > SECONDS:
            run.session.shorten(
                f"gradients were measured on {done} of {len(run.batches)} batches: one pass takes {each:.1f} s"
            )
            break
        gradients.clear()
        _whole_step(run, batch, done)
        gradients.read(_scale(run), keep=True)
    seen = _odd_calls(run)
    run.measured(
        forward=forward_evidence(run),
        backward=backward_evidence(run, gradients),
        rewards=reward_evidence(run.trainer),
        odd_calls=seen,
    )


def reward_evidence(trainer: Any) -> RewardEvidence | None:
    """The rewards that TRL's GRPO and RLOO keep for their log until it is written; None without such rewards."""
    kept = attribute(trainer, "_metrics", None)
    logged = kept.get("train") if is_mapping(kept) else None
    if not is_mapping(logged) or not has(trainer, "reward_funcs"):
        return None
    # Read with `get`: these are dictionaries that make an entry for each name that they are asked for.
    means, spreads = tuple(logged.get("reward") or ()), tuple(logged.get("reward_std") or ())
    batch = attribute(trainer.args, "generation_batch_size", None)
    if not means or not isinstance(batch, int):
        return None
    return RewardEvidence(batch * len(means), means, spreads)


def _whole_step(run: TrainerRun, batch: Any, done: int) -> None:
    with recording(run) as recorder:
        returned = training_step(run, batch)
    show_predictions(run, "train_dataset", recorder.output, batch=done)
    run.losses.append(number(recorder.losses[-1] if recorder.losses else returned))


def _scale(run: TrainerRun) -> float:
    scaler = attribute(run.trainer.accelerator, "scaler", None)
    return float(scaler.get_scale()) if scaler is not None else 1.0


MOST_LENGTHS = 4_096


def collate_batches(run: TrainerRun) -> None:
    """Take the first batches of the training loader and describe the first; all of them count for the tokens."""
    with ExitStack() as stack:
        if _reads_every_length(run):
            rows = subset(run.trainer.train_dataset, MOST_LENGTHS)
            stack.enter_context(replaced(run.trainer, train_dataset=rows))
            run.session.shorten(f"batches grouped by length were made from {MOST_LENGTHS} rows")
        loader = run.trainer.get_train_dataloader()
        for batch in islice(iter(loader), run.session.batches):
            run.batches.append(batch)
            run.progress(StageName.BATCH, len(run.batches), run.session.batches)
    if not run.batches:
        raise ValueError("the training loader yields no batch")
    run.batches[0] = run.session.given_batch.instead_of(run.batches[0])
    measure_encodings(run, find_tokenizer(run))
    dataset = run.trainer.train_dataset
    source = None if is_mapping(dataset) else Source(dataset, lambda rows: _collate_rows(run, rows))
    record_batches(run, "train_dataset", run.batches, source=source)


def _collate_rows(run: TrainerRun, rows: list[int]) -> list[Any]:
    """Some rows of the training data as the trainer's own loader makes batches of them."""
    with replaced(run.trainer, train_dataset=taken(run.trainer.train_dataset, rows)):
        return list(run.trainer.get_train_dataloader())


def _predict_asked_rows(run: TrainerRun) -> None:
    """What the model predicts for rows that were asked for by name; they are in no batch of the training."""
    for position, batch in asked_batches(run, "train_dataset").items() if run.passes_all else ():
        outputs = ask(Call(run.wrapped, (), run.trainer._prepare_inputs(batch)))
        show_predictions(run, "train_dataset", outputs, batch=position)


def _reads_every_length(run: TrainerRun) -> bool:
    """Whether the sampler would read the whole dataset to group its rows by length."""
    arguments = run.trainer.args
    groups = attribute(arguments, "group_by_length", False)
    strategy = str(attribute(arguments, "train_sampling_strategy", "random"))
    rows = number_of_rows(run.trainer.train_dataset) or 0
    return rows > MOST_LENGTHS and (groups or "length" in strategy or "rebalance" in strategy)
