"""The stages of one Trainer call, for the driver: overfitting one batch, memory by the step on tensors without values,
and throughput of the loader and the steps one after the other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import MemoryEvidence, StageName, StageStatus
from lintrain.evidence.stages import TRAINING_STAGES
from lintrain.model.location import Location
from lintrain.runtime.child.hooks import Given, replaced
from lintrain.runtime.child.label_rows import of_training
from lintrain.runtime.child.library import attribute, is_mapping, library
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.surroundings import statement_now
from lintrain.runtime.frameworks.driver import NO_STEP, Framework, Work, drive
from lintrain.runtime.frameworks.trainer.evaluation import (
    answers_after_steps,
    evaluate_two_batches,
    why_no_evaluation,
)
from lintrain.runtime.frameworks.trainer.forward import (
    collate_batches,
    measure_forward,
    measure_gradients,
    recording,
    training_step,
    wrapped_model,
)
from lintrain.runtime.frameworks.trainer.later_calls import evaluates_itself, later_trainings
from lintrain.runtime.frameworks.trainer.setup import REASON as WEIGHTLESS
from lintrain.runtime.frameworks.trainer.setup import (
    argument_values,
    given_splits,
    is_weightless,
    loss_locations,
    overridden,
    reading_of,
    run_until_the_loop,
)
from lintrain.runtime.frameworks.trainer.step import (
    make_optimizer,
    measure_accumulation,
    one_step,
    set_learning_rate,
    take_two_steps,
)
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.columns import measure_splits, shared_rows
from lintrain.runtime.measure.descents import FACTORS, Descents
from lintrain.runtime.measure.live_bytes import resident_models
from lintrain.runtime.measure.model import measure_model
from lintrain.runtime.measure.objects.origins import locations_of
from lintrain.runtime.measure.objects.statements import mentions
from lintrain.runtime.measure.pace import WARM_UP, Pace, new_profile, synchronizing, top_operators
from lintrain.runtime.measure.predictions import number
from lintrain.runtime.measure.projection import Peak, Projection, Training
from lintrain.runtime.measure.seen import is_arrow, number_of_rows, rows_of, subset
from lintrain.runtime.measure.tokenizer import find_tokenizer, measure_tokenizer
from lintrain.runtime.measure.weights import restore, snapshot, trainable

NEED_WEIGHTS = (*TRAINING_STAGES[1:], StageName.EVALUATION)


def measure(
    session: ProbeSession,
    trainer: Any,
    entry: str,
    call: Location | None,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    *,
    is_followed: bool = False,
    is_new: bool = True,
) -> TrainerRun:
    """Every stage that this call can reach; evidence is sent as it comes. One that is not new is not measured again."""
    run = TrainerRun(session, trainer, entry, call)
    for location in () if is_followed else later_trainings():
        session.note(f"the training call at {location} comes later and was not measured")
    if is_new:
        drive(TrainerFramework(run, given_splits(trainer, entry, args, dict(kwargs))))
    else:
        run_until_the_loop(trainer)  # it resolves what the trainer's state and its evaluations need
    return run


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
            "construction": attribute(trainer, "lintrain_construction", None),
            "device": str(trainer.args.device),
            "ended_in": statement_now(self.run.session.script),
            "arguments": {
                **argument_values(trainer.args),
                "eval_strategy_is_written": mentions(r"\b(eval|evaluation)_strategy\b"),
            },
            "locations": self._locations(),
            "overrides": overridden(trainer),
        }

    def _locations(self) -> dict[str, Location]:
        """Where the script makes what the trainer was given, and where it evaluates by itself."""
        trainer, session = self.run.trainer, self.run.session
        callbacks = trainer.callback_handler.callbacks
        stopping = [each for each in callbacks if "EarlyStoppingCallback" in map(_name_of, type(each).__mro__)]
        given = locations_of(
            session.origins,
            trainer.model,
            find_tokenizer(self.run),
            collator=trainer.data_collator,
            arguments=trainer.args,
            stopping=next(iter(stopping), None),
        )
        for name in ("train_dataset", "eval_dataset"):
            if (cut_at := attribute(attribute(trainer, name, None), "lintrain_cut", None)) is not None:
                given[name] = cut_at
        evaluation = evaluates_itself()
        given = {**given, **loss_locations(trainer)}
        return given if evaluation is None else {**given, "evaluation": evaluation}

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
        measure_splits(run, self._given, lambda given: reading_of(run.trainer, given))
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
    for fresh in descents.sound_optimizers(trainable(run).values()):
        with replaced(run.trainer, optimizer=fresh):
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

        descents.descend(take_step, lambda: answers_after_steps(run, batch, recorder.output))


SHARDED = ("deepspeed", "fsdp")


def project_memory(run: TrainerRun) -> None:
    """Measure what a step holds; it fails for code that reads values, which these tensors do not have."""
    run.measured(memory=_evidence(run))


def why_no_projection(run: TrainerRun) -> str:
    """Why nothing can be projected; "" if it can."""
    if not run.batches or not is_mapping(run.batches[0]) or not rows_of(run.batches[0]):
        return "no batch is a dictionary of tensors"
    if any(run.statuses.get(name) is StageStatus.FAILED for name in TRAINING_STAGES[1:]):
        return NO_STEP
    if any(attribute(run.trainer.args, name, None) for name in SHARDED):
        return "the run shards its model over several devices"
    return "the weights are quantized" if attribute(run.model, "is_quantized", False) else ""


def _evidence(run: TrainerRun) -> MemoryEvidence:
    trainer, device = run.trainer, run.session.device_memory
    # The step stage did not run, for the model has no weights here.
    if trainer.optimizer is None:
        make_optimizer(run)
        run.wrapped = wrapped_model(trainer)
    batch = _longest_batch(run)
    projection = Projection(_training(run, batch), for_gpu=device is not None)
    with projection.open():
        peak = projection.peak(rows_of(batch))
        largest = projection.largest_batch(device, rows_of(batch)) if device is not None else None
        weights = projection.weights
    return memory_evidence(run, batch, peak, weights, largest)


def memory_evidence(run: TrainerRun, batch: Any, peak: Peak, weights: int, largest: int | None) -> MemoryEvidence:
    """The parts of a peak."""
    in_step = peak.step > peak.passes
    fixed = weights + peak.gradients + peak.optimizer
    return MemoryEvidence(
        method="projected",
        device=run.session.device_memory,
        peak=peak.whole,
        rows=rows_of(batch),
        tokens=tokens_of(batch),
        weights=weights,
        gradients=peak.gradients,
        optimizer=peak.optimizer,
        activations=max(0, peak.whole - fixed),
        fixed=fixed,
        in_step=in_step,
        largest_batch=largest,
        models=tuple(resident_models(_modules(run), run.optimizers)),
        optimizer_name=type(run.optimizers[0]).__name__,
        without_weights=any(weight.is_meta for weight in run.model.parameters()),
    )


def _training(run: TrainerRun, batch: Any) -> Training:
    trainer = run.trainer
    limit = trainer.args.max_grad_norm

    def clip() -> None:
        if limit:
            trainer.accelerator.clip_grad_norm_(trainer.model.parameters(), limit)

    return Training(
        modules=tuple(_modules(run)),
        optimizer=run.optimizers[0],
        batch=dict(batch),
        had=rows_of(batch),
        run_batch=lambda given: training_step(run, given),
        finish=clip,
        accumulates=int(trainer.args.gradient_accumulation_steps) > 1,
    )


def _longest_batch(run: TrainerRun) -> Any:
    """A batch of the longest row, as the run's own loader collates it; else the longest of those looked at."""
    batches = sorted(run.batches, key=lambda batch: tokens_of(batch) or 0)
    row = _longest_row(run.trainer.train_dataset)
    if row is None:
        return batches[-1]
    rows = run.trainer.train_dataset.select([row] * rows_of(batches[-1]))
    with replaced(run.trainer, train_dataset=rows):
        longest = next(iter(run.trainer.get_train_dataloader()))
    return longest if (tokens_of(longest) or 0) > (tokens_of(batches[-1]) or 0) else batches[-1]


def _longest_row(dataset: Any) -> int | None:
    """The row with the most tokens, where a table says so at once."""
    if dataset is None or not is_arrow(dataset) or "input_ids" not in dataset.column_names:
        return None
    pyarrow = library("pyarrow.compute")
    lengths = pyarrow.list_value_length(dataset.with_format("arrow")["input_ids"])
    return int(pyarrow.index(lengths, pyarrow.max(lengths)).as_py()) if len(lengths) else None


def tokens_of(batch: Any) -> int | None:
    """The length of a batch's token ids; None if it has none."""
    ids = batch.get("input_ids") if is_mapping(batch) else None
    return int(ids.shape[1]) if ids is not None and ids.ndim == 2 else None


def _modules(run: TrainerRun) -> Iterator[Any]:
    """The model that trains, and every other that the trainer keeps: a reference, a teacher."""
    module = library("torch.nn").Module
    trainer: object = run.trainer
    held: list[Any] = [run.wrapped, run.model, *vars(trainer).values()]
    yield from {id(each): each for each in held if isinstance(each, module)}.values()


BATCHES = 6
SECONDS = 30.0


def time_steps(run: TrainerRun) -> None:
    """Whole steps on batches as they come; the weights are restored afterwards."""
    before, pace, calls = snapshot(run), Pace(), Counter[str]()
    ends = time.perf_counter() + SECONDS
    pace.on_batch_request()
    for done, batch in enumerate(islice(_batches(run), BATCHES + WARM_UP)):
        pace.on_batch()
        with synchronizing(calls):
            one_step(run, batch)
        pace.on_batch_request()
        run.progress(StageName.THROUGHPUT, done, BATCHES + WARM_UP)
        if time.perf_counter() > ends and done > WARM_UP:
            break
    # One step more, outside the timing: the profiler makes a step several times as slow.
    with new_profile() as profile:
        one_step(run, run.batches[0])
    restore(run, before)
    rows, tokens = rows_of(run.batches[0]), tokens_of(run.batches[0])
    run.measured(throughput=pace.evidence(rows, tokens, run.workers, calls, top_operators(profile)))


def _batches(run: TrainerRun) -> Iterator[Any]:
    """Those of the training loader, round after round."""
    while True:
        yield from run.trainer.get_train_dataloader()


def _name_of(kind: type) -> str:
    return kind.__name__
