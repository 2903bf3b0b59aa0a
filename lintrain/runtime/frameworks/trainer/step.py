"""The step stage: two real optimizer steps at the peak learning rate, and what they changed."""

from __future__ import annotations

import math
from typing import Any

from lintrain.evidence.run import OptimizerGroup, ScheduleEvidence, StageName, StepEvidence
from lintrain.runtime.child.library import library
from lintrain.runtime.frameworks.trainer.forward import training_step
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.schedule import played_through
from lintrain.runtime.measure.updates import Frozen, updates
from lintrain.runtime.measure.weights import (
    changed,
    changed_share,
    is_felt,
    outside_optimizer,
    pulls,
    restore,
    snapshot,
    trainable,
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
        skipped += bool(getattr(trainer.accelerator, "optimizer_step_was_skipped", False))
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
    """The optimizer and schedule as the library makes them; the peak learning rate is in force afterwards."""
    trainer = run.trainer
    steps = training_steps(run)
    if hasattr(trainer, "_prepare_for_training"):
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
    schedule = getattr(run.trainer.lr_scheduler, "scheduler", run.trainer.lr_scheduler)
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
        or getattr(run.trainer.get_train_dataloader, "__func__", None) is not own_loader
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
        OptimizerGroup(peak(group), first, float(group.get("weight_decay", 0.0)), len(group["params"]))
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
    if trainer.args.max_grad_norm:
        trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), trainer.args.max_grad_norm)
    felt = {
        name for name, weight in trainable(run).items() if name in had_gradient and is_felt(run.optimizers[0], weight)
    }
    trainer.optimizer.step()
    return felt
