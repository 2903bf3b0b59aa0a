"""The overfit stage: can this model, with this optimizer, learn one batch by heart?"""

from __future__ import annotations

import time
from typing import Any

from lintrain.core.evidence import OverfitEvidence
from lintrain.probe.child.experiments.model import base_model, task_of
from lintrain.probe.child.experiments.outputs import number
from lintrain.probe.child.experiments.subset import subset
from lintrain.probe.child.experiments.weights import restore, snapshot
from lintrain.probe.child.kinds import is_mapping
from lintrain.probe.child.replace import replaced
from lintrain.probe.child.run import Run
from lintrain.probe.child.trainer.forward import recording
from lintrain.probe.child.trainer.run import TrainerRun
from lintrain.probe.child.trainer.step import one_step, set_learning_rate

SECONDS = 120.0


def overfit_one_batch(run: TrainerRun, steps: int) -> None:
    """The given number of steps on one batch that holds every label, at the peak learning rate and at ten times it."""
    batch = one_batch(run)
    before = snapshot(run)
    optimizer = run.optimizers[0]
    state = optimizer.state_dict()
    ends = time.perf_counter() + SECONDS
    series: list[list[float]] = []
    predicted: tuple[int | None, int | None] = (None, None)
    for factor in (1.0, 10.0):
        optimizer.state.clear()
        set_learning_rate(run, factor)
        losses, last = _descend(run, batch, steps, ends, len(series))
        series.append(losses)
        predicted = predicted if len(series) > 1 else classes_in_batch(run, batch, last)
        restore(run, before)
    optimizer.load_state_dict(state)
    run.measured(
        overfit=OverfitEvidence(
            steps=steps,
            losses=tuple(series[0]),
            losses_at_ten_times=tuple(series[1]),
            learning_rate=max(run.peaks, default=0.0),
            predicted_classes=predicted[0],
            batch_classes=predicted[1],
            rows=rows_of(batch),
            stopped_early=time.perf_counter() > ends,
        )
    )


def one_batch(run: TrainerRun) -> Any:
    """A batch of the training set with a row of every label, as the run's own loader collates it."""
    trainer = run.trainer
    if trainer.train_dataset is None or is_mapping(trainer.train_dataset):
        return next(iter(trainer.get_train_dataloader()))
    rows = subset(trainer.train_dataset, trainer._train_batch_size)
    with replaced(trainer, train_dataset=rows):
        return next(iter(trainer.get_train_dataloader()))


def _descend(run: TrainerRun, batch: Any, steps: int, ends: float, done: int) -> tuple[list[float], Any]:
    """Losses before each step and after the last, with the last output; dropout is off."""
    model, losses, output = run.model, list[float](), None
    model.eval()
    run.wrapped.eval()
    stays = {"train": lambda _mode=True: model}
    with replaced(model, **stays), replaced(run.wrapped, **stays), recording(run) as recorder:
        for step in range(steps + 1):
            one_step(run, dict(batch) if is_mapping(batch) else batch)
            losses.append(number(recorder.losses[-1]))
            output = recorder.output
            run.progress("overfit", done * steps + step, 2 * steps)
            if time.perf_counter() > ends:
                break
    return losses, output


def classes_in_batch(run: Run, batch: Any, output: Any) -> tuple[int | None, int | None]:
    """How many classes the model predicts on the batch, and how many the batch holds."""
    labels = batch.get("labels") if hasattr(batch, "get") else None
    logits = getattr(output, "logits", None)
    if task_of(base_model(run.model)) != "SequenceClassification" or labels is None or logits is None:
        return None, None
    if logits.ndim != 2 or logits.shape[1] < 2 or labels.ndim != 1:  # several labels at once have two dimensions
        return None, None
    return len(set(logits.argmax(dim=1).tolist())), len(set(labels.tolist()))


def rows_of(batch: Any) -> int:
    """The rows of a batch with names; 0 where it has none."""
    values = batch.values() if is_mapping(batch) else ()
    return next((int(value.shape[0]) for value in values if getattr(value, "ndim", 0)), 0)
