"""The step stage: two real optimizer steps at the peak learning rate, and what they changed.

Gradient accumulation: the same rows as one batch and as several, to see whether anybody divides the losses.
"""

from __future__ import annotations

import inspect
import math
from contextlib import ExitStack
from typing import Any

from lintrain.evidence.run import AccumulationEvidence, OptimizerGroup, ScheduleEvidence, StageName, StepEvidence
from lintrain.runtime.child.hooks import replaced
from lintrain.runtime.child.library import attribute, has, is_mapping, library
from lintrain.runtime.frameworks.trainer.forward import training_step
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.weights import (
    Frozen,
    changed,
    changed_share,
    group_evidence,
    is_felt,
    outside_optimizer,
    played_through,
    pulls,
    restore,
    snapshot,
    trainable,
    updates,
)

STEPS = 2


def take_two_steps(run: TrainerRun) -> None:
    """Build the trainer's own optimizer and schedule, step twice, and give the weights back."""
    trainer = run.trainer
    make_optimizer(run)
    # Before the rates are overwritten with their peak.
    run.measured(schedule=_schedule(run))
    set_learning_rate(run, 1.0)
    groups = _groups(run)
    before, frozen = snapshot(run), Frozen(run)
    had_gradient: set[str] = set()
    skipped = 0
    for number in range(STEPS):
        run.progress(StageName.STEP, number, STEPS)
        # The first step uses the gradients that the backward stage left: making them again would cost one more pass.
        is_ready = number == 0 and _has_gradients(run)
        had_gradient |= apply_gradients(run) if is_ready else one_step(run, run.batches[number % len(run.batches)])
        skipped += bool(attribute(trainer.accelerator, "optimizer_step_was_skipped", False))
    moved, share, by_layer = changed(run, before), changed_share(run, before), updates(run, before, STEPS)
    # Only weights that moved can change an answer.
    if run.responses is not None and moved:
        run.responses.after_steps()
    restore(run, before)
    run.measured(
        step=StepEvidence(
            optimizer=type(run.optimizers[0]).__name__,
            groups=groups,
            trainable_tensors=len(before),
            changed_tensors=len(moved),
            unchanged=tuple(sorted(had_gradient - moved)),
            outside_optimizer=outside_optimizer(run),
            skipped=skipped == STEPS,
            changed_share=share,
            updates=by_layer,
            frozen_moved=frozen.moved(),
            frozen_statistics=frozen.statistics(),
        )
    )


def make_optimizer(run: TrainerRun) -> None:
    """The optimizer and schedule as the library creates them; the peak learning rate is set afterwards."""
    trainer = run.trainer
    steps = training_steps(run)
    if has(trainer, "_prepare_for_training"):
        trainer.create_optimizer()
        trainer.optimizer = trainer.accelerator.prepare(trainer.optimizer)
        trainer.create_scheduler(num_training_steps=steps)
    else:  # before transformers 5
        trainer.create_optimizer_and_scheduler(num_training_steps=steps)
        trainer.optimizer = trainer.accelerator.prepare(trainer.optimizer)
    run.peaks = [peak(group) for group in trainer.optimizer.param_groups]
    run.first_learning_rates = [float(group["lr"]) for group in trainer.optimizer.param_groups]


def _schedule(run: TrainerRun) -> ScheduleEvidence | None:
    """Simulate the schedule; a class of the script's own may not support being copied."""
    schedule = attribute(run.trainer.lr_scheduler, "scheduler", run.trainer.lr_scheduler)
    try:
        return played_through(schedule, training_steps(run))
    except Exception as error:  # noqa: BLE001 - what cannot be played through is no fault of the script
        run.session.note(f"the schedule was not simulated: {type(error).__name__}: {error}")
        return None


def training_steps(run: TrainerRun) -> int:
    """Optimizer steps of the whole run as it is configured."""
    arguments = run.trainer.args
    if arguments.max_steps > 0:
        return int(arguments.max_steps)
    # As the library computes it: batches per epoch, divided into steps, rounded up, times the epochs.
    each = max(1, int(arguments.gradient_accumulation_steps))
    return max(1, math.ceil(math.ceil(_batches(run) / each) * float(arguments.num_train_epochs)))


def _batches(run: TrainerRun) -> int:
    """Batches of one epoch: of the training set, else of the loader that a subclass makes as it likes."""
    own_loader = library("transformers.trainer").Trainer.get_train_dataloader
    if (
        run.trainer.train_dataset is None
        or attribute(run.trainer.get_train_dataloader, "__func__", None) is not own_loader
    ):
        return len(run.trainer.get_train_dataloader())
    return math.ceil(len(run.trainer.train_dataset) / max(1, int(run.trainer._train_batch_size)))


def peak(group: Any) -> float:
    """The learning rate of a group before any schedule."""
    return float(group.get("initial_lr", group["lr"]))


def set_learning_rate(run: TrainerRun, factor: float) -> None:
    """Put every group at its peak, times a factor."""
    for group in run.trainer.optimizer.param_groups:
        group["lr"] = peak(group) * factor


def _groups(run: TrainerRun) -> tuple[OptimizerGroup, ...]:
    return tuple(
        group_evidence(run.trainer.optimizer, group, peak=peak(group), first=first)
        for group, first in zip(run.trainer.optimizer.param_groups, run.first_learning_rates, strict=True)
    )


def _has_gradients(run: TrainerRun) -> bool:
    """Whether those of the backward stage are there still: the weights are what they were, so a step can take them."""
    return any(weight.grad is not None for weight in trainable(run).values())


def one_step(run: TrainerRun, batch: Any) -> set[str]:
    """One step; gives the names of the parameters whose gradients should move them."""
    run.optimizers[0].zero_grad()
    training_step(run, batch)
    return apply_gradients(run)


def apply_gradients(run: TrainerRun) -> set[str]:
    """Step with the gradients that are there and the trainer's clipping; gives the names of those that should move."""
    trainer = run.trainer
    had_gradient = {name for name, weight in trainable(run).items() if pulls(weight)}
    # As the library does it: 0 and None turn clipping off.
    if trainer.args.max_grad_norm:
        trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), trainer.args.max_grad_norm)
    # After clipping: a gradient that it made too small for the format of its weight cannot move that.
    felt = {
        name for name, weight in trainable(run).items() if name in had_gradient and is_felt(run.optimizers[0], weight)
    }
    trainer.optimizer.step()
    return felt


MOST_PARTS = 4
"""More parts show nothing that these do not."""

Batch = dict[str, Any]


def measure_accumulation(run: TrainerRun) -> None:
    """Both ways through the trainer's own step, where the run accumulates; nothing if its rows cannot be parted."""
    parts = _parted(run)
    if parts is None:
        return
    try:
        # Dropout would draw other masks for the parts than for the whole, and the ratio would be noise.
        with _without_dropout(run):
            whole = _norm_of(run, [_joined(parts)])
            split = _norm_of(run, parts)
    except Exception as error:  # noqa: BLE001 - a loss that cannot take fewer rows is no fault of the script
        run.session.note(f"gradient accumulation was not measured: {type(error).__name__}: {error}")
        return
    if whole > 0 and math.isfinite(whole) and math.isfinite(split):
        rows = sum(_rows(part) for part in parts)
        run.measured(accumulation=AccumulationEvidence(len(parts), rows, split / whole))


def _parted(run: TrainerRun) -> list[Batch] | None:
    """The first batch as that many batches of equal size as the run accumulates, but no more than a few.

    None if a row of the batch is not a row of the data: preferences have two of them for each.
    """
    # `8` steps of accumulation are measured as 4 parts: the ratio is 1 with a division and the
    # number of parts without one.
    wanted = min(int(run.trainer.args.gradient_accumulation_steps), MOST_PARTS)
    batch: object = run.batches[0] if run.batches else None
    if wanted < 2 or not is_mapping(batch):
        return None
    entries: Batch = dict(batch)
    rows = {int(value.shape[0]) if attribute(value, "ndim", 0) else 0 for value in entries.values()}
    # More rows than the batch size: a collator that makes two rows of each (chosen and rejected) and whose parts
    # would tear pairs apart.
    if len(rows) != 1 or max(rows) > int(run.trainer._train_batch_size) or (size := rows.pop() // wanted) == 0:
        return None
    return [
        {name: value[start * size : (start + 1) * size] for name, value in entries.items()} for start in range(wanted)
    ]


def _joined(parts: list[Batch]) -> Batch:
    """The rows of all parts in one batch."""
    return {name: library("torch").cat([part[name] for part in parts]) for name in parts[0]}


def _rows(batch: Batch) -> int:
    return max(int(value.shape[0]) for value in batch.values())


def _without_dropout(run: TrainerRun) -> ExitStack:
    """Keep the parts of the model in evaluation mode, whatever the trainer asks for."""
    model = run.model
    model.eval()
    run.wrapped.eval()
    # The script's own loss may ask the model itself for its mode, and divide in training only.
    model.training = run.wrapped.training = True
    stack = ExitStack()
    for each in {id(each): each for each in (model, run.wrapped)}.values():
        stack.enter_context(replaced(each, train=lambda _mode=True: model))
    return stack


def _norm_of(run: TrainerRun, batches: list[Batch]) -> float:
    """The norm of the gradients that these batches add up to, as one step of the trainer."""
    trainer = run.trainer
    parameters = [each for each in trainer.model.parameters() if each.requires_grad]
    for parameter in parameters:
        parameter.grad = None
    # Counted over the whole step, as the library does: a mean of means differs where parts have
    # unequal numbers of labels.
    items = _items(trainer, batches)
    # The script's own loss may divide by the argument.
    asked = {"gradient_accumulation_steps": len(batches)}
    with replaced(trainer, current_gradient_accumulation_steps=len(batches)), replaced(trainer.args, **asked):
        for batch in batches:
            _step(run, dict(batch), items)
    norms = [float(each.grad.detach().float().norm()) for each in parameters if each.grad is not None]
    for parameter in parameters:
        parameter.grad = None
    return math.sqrt(sum(norm**2 for norm in norms))


def _step(run: TrainerRun, batch: Batch, items: Any) -> None:
    # Older versions have no third argument, and divide each loss themselves.
    known = inspect.signature(library("transformers.trainer").Trainer.training_step).parameters
    given = (items,) if "num_items_in_batch" in known else ()
    run.trainer.training_step(run.wrapped, batch, *given)


def _items(trainer: Any, batches: list[Batch]) -> Any:
    """The number of scored labels of a whole step, as the trainer counts it."""
    take = attribute(trainer, "get_batch_samples", None)
    if take is None:
        return None
    arguments: list[Any] = [iter(batches), len(batches)]
    if len(inspect.signature(take).parameters) > 2:
        arguments.append(trainer.args.device)
    return take(*arguments)[1]
