"""The stages that are only measured on request: the numbers of each, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.evidence.memory import PROJECTION_ERROR
from lintrain.evidence.run import Evidence, MemoryEvidence, RanksEvidence
from lintrain.report.text.durations import duration, rounded
from lintrain.text.sizes import show_size

Line = tuple[str, str]
"""What a line is about, in a word or two, and what was measured."""


def numbers_of_extra(evidence: Evidence, name: str) -> str:
    """The key numbers of a stage that passed, in one text; nothing for one that has its line elsewhere."""
    return "; ".join(f"{about} {text}" for about, text in lines_of_extra(evidence, name))


def lines_of_extra(evidence: Evidence, name: str) -> list[Line]:
    """The same line by line."""
    match name:
        case "checkpoint":
            return list(_checkpoint(evidence))
        case "memory":
            return list(_memory(evidence))
        case "determinism":
            return list(_determinism(evidence))
        case "throughput":
            return list(_throughput(evidence))
        case "ranks":
            return list(_ranks(evidence))
        case _:
            return []


def _checkpoint(evidence: Evidence) -> Iterator[Line]:
    resumed = evidence.checkpoint
    if resumed is None:
        return
    size = sum(resumed.files.values()) / 2**20
    files = f"{len(resumed.files)} file{'' if len(resumed.files) == 1 else 's'}"
    yield "saved", f"after {resumed.saved_after} steps ({files}, {size:.1f} MiB)"
    went_on, starts = resumed.losses
    yield "next loss", f"{starts:.4g}, {went_on:.4g} without the interruption"
    different = "; ".join(resumed.differences)
    yield "parts", f"not as they were: {different}" if different else "all as they were"


def _memory(evidence: Evidence) -> Iterator[Line]:
    memory = evidence.memory
    if memory is None:
        return
    named = f" of {show_size(memory.device)}" if memory.device else ""
    either_way = f"{PROJECTION_ERROR:.0%} either way"
    yield "peak", f"{show_size(memory.peak)}{named} ({either_way}) at {memory.batch}, {_method(memory)}"
    state = f", {memory.optimizer_name or 'optimizer'} {show_size(memory.optimizer)}" if memory.optimizer else ""
    rest = "the step's own tensors" if memory.in_step else "activations"
    yield (
        "of it",
        f"weights {show_size(memory.weights)}, gradients {show_size(memory.gradients)}{state}, "
        f"{rest} {show_size(memory.activations)}",
    )
    if len(memory.models) > 1:
        models = (
            f"{model.name} {show_size(model.size)}{'' if model.trains else ' (does not train)'}"
            for model in memory.models
        )
        yield "models", ", ".join(models)
    if memory.device is not None:
        yield "batch", memory.largest
    yield from _evaluation(evidence)


def _method(memory: MemoryEvidence) -> str:
    if memory.without_weights:
        return "projected without the weights"
    return "projected" if memory.method == "projected" else "counted in the script's own steps"


def _evaluation(evidence: Evidence) -> Iterator[Line]:
    evaluation = evidence.evaluation
    if evaluation is not None and evaluation.bytes_per_row and evaluation.number_of_rows:
        kept = evaluation.bytes_per_row * evaluation.number_of_rows
        yield "evaluation", f"{show_size(kept)} of predictions for {evaluation.number_of_rows} rows"


def _determinism(evidence: Evidence) -> Iterator[Line]:
    starts = evidence.determinism
    if starts is None:
        return
    first, second = (", ".join(f"{loss:.4g}" for loss in each) for each in starts.losses)
    if starts.repeats:
        yield "losses", f"{first} in both starts"
        return
    yield "losses", f"{first} in one start; {second} in the other"
    yield "not alike", "; ".join(starts.sources) or "the computation itself"


def _throughput(evidence: Evidence) -> Iterator[Line]:
    pace = evidence.throughput
    if pace is None:
        return
    tokens = f", {pace.rows_per_second * pace.tokens:,.0f} tokens" if pace.tokens else ""
    yield "pace", f"{rounded(pace.rows_per_second)} rows{tokens} per second on this machine's CPU"
    yield "batch", f"{duration(pace.batch_seconds)} to load, {duration(pace.step_seconds)} to train on"
    asked = f"; with {pace.workers} workers it can be less" if pace.workers else ""
    yield "waiting", f"{pace.waiting:.0%} of the time, for a loader that works alone{asked}"
    calls = ", ".join(f"`{name}` {times:.3g} times" for name, times in pace.synchronizing.items())
    if calls:
        yield "reads", f"{calls} in a step, for which a GPU waits"
    if pace.operators:
        yield "longest", ", ".join(f"{name} {share:.0%}" for name, share in pace.operators)


def _ranks(evidence: Evidence) -> Iterator[Line]:
    ranks = evidence.ranks
    if ranks is None:
        return
    yield "run", f"{ranks.processes} processes{'' if ranks.is_joined else ' that form no group'}, {ranks.steps} steps"
    yield "weights", f"{len(ranks.different_weights)} of {ranks.weights} differ at the start"
    yield "gradients", f"{len(ranks.different_gradients)} of {ranks.gradients} differ after backward"
    if ranks.apart:
        yield "apart", f"{len(ranks.apart)} trained weights differ before step {ranks.steps}"
    if ranks.without_gradient:
        yield "without", f"{len(ranks.without_gradient)} weights get no gradient"
    yield from _rows(ranks)
    if by_all := [write.path for write in ranks.writes if len(write.ranks) == ranks.processes]:
        yield "files", f"{', '.join(sorted(set(by_all)))} written by all"
    for gather in ranks.gathers:
        yield "gathered", f"`{gather.function}` gives {gather.gathered} rows of {gather.rows}"
    for schedule in ranks.schedules:
        if schedule.steps_per_update > 1:
            yield "schedule", f"{schedule.name} goes {schedule.steps_per_update} steps on with each of the optimizer"
    if ranks.failure:
        yield "error", ranks.failure


def _rows(ranks: RanksEvidence) -> Iterator[Line]:
    if ranks.shared_rows is not None:
        yield "rows", f"{ranks.shared_rows} of {' and '.join(map(str, ranks.rows))} on both"
    if ranks.same_batches:
        yield "batch", f"the same on both in {ranks.same_batches} of {ranks.steps} steps"
    if ranks.same_dataset is False:
        yield "data sets", "not the same"
    if len(set(ranks.batches)) > 1:
        yield "batches", f"{' and '.join(map(str, ranks.batches))}"
