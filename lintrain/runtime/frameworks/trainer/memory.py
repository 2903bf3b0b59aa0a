"""The memory stage of a Trainer's run: its own training step on tensors without values.

The throughput stage of a Trainer's run: its loader and its steps, timed one after the other.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

from lintrain.evidence.run import MemoryEvidence, StageName, StageStatus
from lintrain.evidence.stages import TRAINING_STAGES
from lintrain.runtime.child.library import is_mapping, library
from lintrain.runtime.child.replace import replaced
from lintrain.runtime.frameworks.driver import NO_STEP
from lintrain.runtime.frameworks.trainer.forward import training_step, wrapped_model
from lintrain.runtime.frameworks.trainer.step import make_optimizer, one_step
from lintrain.runtime.frameworks.trainer.trainer_run import TrainerRun
from lintrain.runtime.measure.live_bytes import resident_models
from lintrain.runtime.measure.losses import rows_of
from lintrain.runtime.measure.pace import WARM_UP, Pace, new_profile, synchronizing, top_operators
from lintrain.runtime.measure.projection import Peak, Projection, Training
from lintrain.runtime.measure.seen import is_arrow
from lintrain.runtime.measure.weights import restore, snapshot

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
    if any(getattr(run.trainer.args, name, None) for name in SHARDED):
        return "the run shards its model over several devices"
    return "the weights are quantized" if getattr(run.model, "is_quantized", False) else ""


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
    for number, batch in enumerate(islice(_batches(run), BATCHES + WARM_UP)):
        pace.on_batch()
        with synchronizing(calls):
            one_step(run, batch)
        pace.on_batch_request()
        run.progress(StageName.THROUGHPUT, number, BATCHES + WARM_UP)
        if time.perf_counter() > ends and number > WARM_UP:
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
