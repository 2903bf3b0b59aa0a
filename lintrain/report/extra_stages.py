"""The stages that are only measured on request: the numbers of each in one line."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.core.evidence import Evidence, MemoryEvidence
from lintrain.core.memory_measurements import PROJECTION_ERROR
from lintrain.core.sizes import show_size
from lintrain.report.durations import duration, rounded


def numbers_of_extra(evidence: Evidence, name: str) -> str:
    """The key numbers of a stage that passed; nothing for one that has its line elsewhere."""
    match name:
        case "checkpoint":
            return _checkpoint(evidence)
        case "memory":
            return "; ".join(_memory(evidence))
        case "determinism":
            return _determinism(evidence)
        case "throughput":
            return "; ".join(_throughput(evidence))
        case "ranks":
            return "; ".join(_ranks(evidence))
        case _:
            return ""


def _checkpoint(evidence: Evidence) -> str:
    resumed = evidence.checkpoint
    if resumed is None:
        return ""
    size = sum(resumed.files.values()) / 2**20
    files = f"{len(resumed.files)} file{'' if len(resumed.files) == 1 else 's'}"
    saved = f"saved after {resumed.saved_after} steps ({files}, {size:.1f} MiB)"
    went_on, starts = resumed.losses
    losses = f"next loss {starts:.4g}, {went_on:.4g} without the interruption"
    different = "; ".join(resumed.differences)
    return f"{saved}; {losses}; {f'not as it was: {different}' if different else 'all parts as they were'}"


def _memory(evidence: Evidence) -> Iterator[str]:
    memory = evidence.memory
    if memory is None:
        return
    named = f" of {show_size(memory.device)}" if memory.device else ""
    yield f"{show_size(memory.peak)}{named} (±{PROJECTION_ERROR:.0%}) at {memory.batch}, {_method(memory)}"
    state = f", {memory.optimizer_name or 'optimizer'} {show_size(memory.optimizer)}" if memory.optimizer else ""
    rest = "the step's own tensors" if memory.in_step else "activations"
    yield (
        f"weights {show_size(memory.weights)}, gradients {show_size(memory.gradients)}{state}, "
        f"{rest} {show_size(memory.activations)}"
    )
    if len(memory.models) > 1:
        yield ", ".join(
            f"{model.name} {show_size(model.size)}{'' if model.trains else ' (does not train)'}"
            for model in memory.models
        )
    if memory.device is not None:
        yield memory.largest
    yield from _evaluation(evidence)


def _method(memory: MemoryEvidence) -> str:
    if memory.without_weights:
        return "projected without the weights"
    return "projected" if memory.method == "projected" else "counted in the script's own steps"


def _evaluation(evidence: Evidence) -> Iterator[str]:
    evaluation = evidence.evaluation
    if evaluation is not None and evaluation.bytes_per_row and evaluation.number_of_rows:
        kept = evaluation.bytes_per_row * evaluation.number_of_rows
        yield f"evaluation keeps {show_size(kept)} of predictions for {evaluation.number_of_rows} rows"


def _determinism(evidence: Evidence) -> str:
    starts = evidence.determinism
    if starts is None:
        return ""
    losses = " and ".join(", ".join(f"{loss:.4g}" for loss in each) for each in starts.losses)
    if starts.repeats:
        return f"two starts give the same losses: {losses.partition(' and ')[0]}"
    different = "; ".join(starts.sources) or "the computation itself"
    return f"two starts give losses {losses}; not the same: {different}"


def _throughput(evidence: Evidence) -> Iterator[str]:
    pace = evidence.throughput
    if pace is None:
        return
    tokens = f", {pace.rows_per_second * pace.tokens:,.0f} tokens" if pace.tokens else ""
    yield f"{rounded(pace.rows_per_second)} rows{tokens} per second on this machine's CPU"
    yield f"a batch takes {duration(pace.batch_seconds)} to load and {duration(pace.step_seconds)} to train on"
    asked = f"; with {pace.workers} workers it can be less" if pace.workers else ""
    yield f"{pace.waiting:.0%} of the time waits for the loader working alone{asked}"
    calls = ", ".join(f"`{name}` {times:.3g} times" for name, times in pace.synchronizing.items())
    if calls:
        yield f"a step reads values by {calls}, for which a GPU waits"
    if pace.operators:
        yield "longest: " + ", ".join(f"{name} {share:.0%}" for name, share in pace.operators)


def _ranks(evidence: Evidence) -> Iterator[str]:
    ranks = evidence.ranks
    if ranks is None:
        return
    yield f"{ranks.processes} processes{'' if ranks.is_joined else ' that form no group'}, {ranks.steps} steps"
    yield f"{len(ranks.different_weights)} of {ranks.weights} weights differ at the start"
    yield f"{len(ranks.different_gradients)} of {ranks.gradients} gradients after backward"
    if ranks.apart:
        yield f"{len(ranks.apart)} trained weights differ before step {ranks.steps}"
    if ranks.without_gradient:
        yield f"{len(ranks.without_gradient)} weights get none"
    if ranks.shared_rows is not None:
        yield f"{ranks.shared_rows} of {' and '.join(map(str, ranks.rows))} rows on both"
    if ranks.same_batches:
        yield f"{ranks.same_batches} of {ranks.steps} steps on the same batch"
    if ranks.same_dataset is False:
        yield "their data sets are not the same"
    if len(set(ranks.batches)) > 1:
        yield f"{' and '.join(map(str, ranks.batches))} batches"
    if by_all := [write.path for write in ranks.writes if len(write.ranks) == ranks.processes]:
        yield f"all of them write {', '.join(sorted(set(by_all)))}"
    for gather in ranks.gathers:
        yield f"`{gather.function}` gives {gather.gathered} rows of {gather.rows}"
    for schedule in ranks.schedules:
        if schedule.steps_per_update > 1:
            yield f"{schedule.name} goes {schedule.steps_per_update} steps on with each of the optimizer"
    if ranks.failure:
        yield ranks.failure
