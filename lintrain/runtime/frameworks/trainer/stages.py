"""The stages of one Trainer call, for the driver.

The overfit stage: does this model, with this optimizer, overfit a single batch?
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import StageName
from lintrain.evidence.stages import TRAINING_STAGES
from lintrain.model.location import Location
from lintrain.runtime.child.label_rows import of_training
from lintrain.runtime.child.library import is_mapping
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.replace import Given, replaced
from lintrain.runtime.child.surroundings import statement_now
from lintrain.runtime.frameworks.driver import NO_STEP, Framework, Work, drive
from lintrain.runtime.frameworks.trainer.evaluation import evaluate_two_batches, why_no_evaluation
from lintrain.runtime.frameworks.trainer.forward import collate_batches, measure_forward, measure_gradients, recording
from lintrain.runtime.frameworks.trainer.later_calls import later_trainings
from lintrain.runtime.frameworks.trainer.memory import project_memory, time_steps, why_no_projection
from lintrain.runtime.frameworks.trainer.setup import REASON as WEIGHTLESS
from lintrain.runtime.frameworks.trainer.setup import (
    argument_values,
    given_splits,
    is_weightless,
    overridden,
    run_until_the_loop,
)
from lintrain.runtime.frameworks.trainer.step import measure_accumulation, one_step, set_learning_rate, take_two_steps
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.columns import measure_splits, shared_rows
from lintrain.runtime.measure.losses import FACTORS, Descents, classes_in_batch, rows_of
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.predictions import number
from lintrain.runtime.measure.seen import number_of_rows, subset
from lintrain.runtime.measure.tokenizer import measure_tokenizer
from lintrain.runtime.measure.weights import restore, snapshot

NEED_WEIGHTS = (*TRAINING_STAGES[1:], StageName.EVALUATION)


def measure(
    session: ProbeSession,
    trainer: Any,
    entry: str,
    call: Location | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> None:
    """Every stage that this call can reach; evidence is sent as it comes."""
    run = TrainerRun(session, trainer, entry, call)
    for location in later_trainings():
        session.note(f"the training call at {location} comes later and was not measured")
    drive(TrainerFramework(run, given_splits(trainer, entry, args, dict(kwargs))))


class TrainerFramework(Framework):
    """A Trainer's own methods make everything: its loader, its training step, its optimizer, its evaluation."""

    name = "a Trainer"

    def __init__(self, run: TrainerRun, given: list[Given]) -> None:
        super().__init__(run)
        self.run: TrainerRun = run
        self._given = given
        # Fixed now: a subclass may drop its data set while the library prepares the run.
        self._trains = run.trainer.train_dataset is not None or _has_own_loader(run)
        self._work: dict[StageName, Callable[[], None]] = {
            StageName.DATASET: self._measure_dataset,
            StageName.BATCH: self._take_batches,
            StageName.FORWARD: lambda: measure_forward(run),
            StageName.BACKWARD: self._measure_backward,
            StageName.STEP: lambda: take_two_steps(run),
            StageName.EVALUATION: lambda: evaluate_two_batches(run, given),
            StageName.OVERFIT: lambda: overfit_one_batch(run, run.session.overfit),
            StageName.THROUGHPUT: lambda: time_steps(run),
        }

    def facts(self) -> EvidenceFields:
        """The Trainer, where it is made and called, and its arguments."""
        trainer = self.run.trainer
        return {
            "trainer": type(trainer).__name__,
            "construction": getattr(trainer, "lintrain_construction", None),
            "device": str(trainer.args.device),
            "ended_in": statement_now(self.run.session.script),
            "arguments": argument_values(trainer.args),
            "overrides": overridden(trainer),
        }

    def work(self, stage: StageName) -> Work | None:
        """What a stage does."""
        if stage is StageName.MEMORY:
            return Work(lambda: project_memory(self.run), "the step does not work on tensors without values")
        return Work(self._work[stage])

    def hindrance(self, stage: StageName) -> str:
        """Why a stage cannot run."""
        run = self.run
        if not self._trains and stage in TRAINING_STAGES:
            return f"the script calls `{run.entry}` and gives no `train_dataset`"
        if self._trains and stage in NEED_WEIGHTS and is_weightless(run.model):
            return WEIGHTLESS
        if stage is StageName.EVALUATION:
            return why_no_evaluation(run, self._given)
        if stage is StageName.MEMORY:
            return why_no_projection(run)
        if stage not in (StageName.OVERFIT, StageName.THROUGHPUT):
            return ""
        # TRL's online trainers generate their rows within the step (GRPO): one batch cannot be repeated.
        if run.batches and not is_mapping(run.batches[0]):
            return "the trainer generates new rows at every step"
        return "" if run.passed(StageName.STEP) else NO_STEP

    def conclude(self) -> None:
        """Nothing: each stage of a Trainer sends what it shows."""

    def _measure_dataset(self) -> None:
        run = self.run
        run.measured(model=measure_model(run), tokenizer=measure_tokenizer(run))
        measure_splits(run, self._given)
        rows = number_of_rows(run.trainer.train_dataset)
        run.measured(shared_rows=shared_rows(self._given), conflicts=of_training(run.session, rows))

    def _take_batches(self) -> None:
        """Let the library's own `train` set everything up, and stand in for its loop."""
        # Part of the batch stage, for an error in the preparation keeps the script from its first batch.
        run_until_the_loop(self.run.trainer)
        collate_batches(self.run)

    def _measure_backward(self) -> None:
        measure_gradients(self.run)
        # After the gradients are read: it clears them, and the step stage then makes its own.
        measure_accumulation(self.run)


def _has_own_loader(run: TrainerRun) -> bool:
    """Whether the script trains on a loader that its own trainer makes, which needs no `train_dataset`."""
    return run.entry == "train" and "get_train_dataloader" in overridden(run.trainer)


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
