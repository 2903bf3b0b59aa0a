"""Gradient accumulation: the same rows as one batch and as several, to see whether anybody divides the losses."""

from __future__ import annotations

import inspect
import math
from contextlib import ExitStack
from typing import Any

from lintrain.evidence.run import AccumulationEvidence
from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.library import library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun

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
    wanted = min(int(run.trainer.args.gradient_accumulation_steps), MOST_PARTS)
    batch: object = run.batches[0] if run.batches else None
    if wanted < 2 or not is_mapping(batch):
        return None
    entries: Batch = dict(batch)
    rows = {int(value.shape[0]) if getattr(value, "ndim", 0) else 0 for value in entries.values()}
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
    """Keep the model in evaluation mode, whatever the trainer asks for."""
    model = run.model
    model.eval()
    run.wrapped.eval()
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
    items = _items(trainer, batches)
    with replaced(trainer, current_gradient_accumulation_steps=len(batches)):
        for batch in batches:
            _step(run, dict(batch), items)
    norms = [float(each.grad.detach().float().norm()) for each in parameters if each.grad is not None]
    for parameter in parameters:
        parameter.grad = None
    return math.sqrt(sum(norm**2 for norm in norms))


def _step(run: TrainerRun, batch: Batch, items: Any) -> None:
    known = inspect.signature(library("transformers.trainer").Trainer.training_step).parameters
    given = (items,) if "num_items_in_batch" in known else ()
    run.trainer.training_step(run.wrapped, batch, *given)


def _items(trainer: Any, batches: list[Batch]) -> Any:
    """The number of scored labels of a whole step, as the trainer counts it."""
    take = getattr(trainer, "get_batch_samples", None)
    if take is None:
        return None
    arguments: list[Any] = [iter(batches), len(batches)]
    if len(inspect.signature(take).parameters) > 2:
        arguments.append(trainer.args.device)
    return take(*arguments)[1]
