"""The overfit stage: does this model, with this optimizer, overfit a single batch?"""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.kinds import is_mapping
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.trainer.forward import recording
from lintrain.runtime.frameworks.trainer.step import one_step, set_learning_rate
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.outputs import number
from lintrain.runtime.measure.overfit import FACTORS, Descents, classes_in_batch, rows_of
from lintrain.runtime.measure.subset import subset
from lintrain.runtime.measure.weights import restore, snapshot


def overfit_one_batch(run: TrainerRun, steps: int) -> None:
    """The given number of steps on one batch that holds every label, at each of three learning rates."""
    batch = one_batch(run)
    before = snapshot(run)
    optimizer = run.optimizers[0]
    state = optimizer.state_dict()
    descents = Descents(run, steps)
    # Each rate starts from the same weights and an empty optimizer: momentum of an earlier series would decide the
    # next one.
    for factor in FACTORS:
        optimizer.state.clear()
        set_learning_rate(run, factor)
        _descend(run, batch, descents)
        restore(run, before)
    optimizer.load_state_dict(state)
    run.measured(overfit=descents.evidence(max(run.peaks, default=0.0), rows_of(batch)))


def one_batch(run: TrainerRun) -> Any:
    """A batch of the training set with a row of every label, as the run's own loader collates it."""
    trainer = run.trainer
    if trainer.train_dataset is None or is_mapping(trainer.train_dataset):
        return next(iter(trainer.get_train_dataloader()))
    rows = subset(trainer.train_dataset, trainer._train_batch_size)
    with replaced(trainer, train_dataset=rows):
        return next(iter(trainer.get_train_dataloader()))


def _descend(run: TrainerRun, batch: Any, descents: Descents) -> None:
    """One run of steps; dropout is off."""
    model = run.model
    model.eval()
    run.wrapped.eval()
    stays = {"train": lambda _mode=True: model}
    with replaced(model, **stays), replaced(run.wrapped, **stays), recording(run) as recorder:

        def take_step() -> float:
            one_step(run, dict(batch) if is_mapping(batch) else batch)
            return number(recorder.losses[-1])

        descents.descend(take_step, lambda: classes_in_batch(run, batch, recorder.output))
