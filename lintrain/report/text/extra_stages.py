"""Stages with several lines: extra measurements, and an evaluation that the script runs itself."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.evidence.memory import PROJECTION_ERROR
from lintrain.evidence.run import EvaluationEvidence, Evidence, MemoryEvidence, MetricUse, RanksEvidence, RankWait
from lintrain.report.text.causes import likely_cause
from lintrain.text import duration, rounded, show_number, show_size, times

Line = tuple[str, str]
"""The label of a line, and what was measured."""


def numbers_of_extra(evidence: Evidence, name: str) -> str:
    """The key numbers of an extra stage in one line; empty for other stages."""
    return "; ".join(f"{about} {text}" for about, text in lines_of_extra(evidence, name))


def lines_of_extra(evidence: Evidence, name: str) -> list[Line]:
    """The key numbers of an extra stage, line by line."""
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
        case "rows":
            return list(rows_read(evidence))
        case _:
            return []


def rows_read(evidence: Evidence, *, only_telling: bool = False) -> Iterator[Line]:
    """How many rows of each split were read, and the wrong ones; of splits that are whole and sound only if wanted."""
    for split in evidence.splits:
        if (sweep := split.sweep) is None or (only_telling and sweep.is_whole and not sweep.wrong):
            continue
        of = f" of {sweep.of:,}" if sweep.of is not None and not sweep.is_whole else ""
        hint = " (`--also rows` reads all)" if of and only_telling else ""
        name = split.argument.removesuffix("_dataset")
        if not only_telling or of:
            yield name, f"{sweep.rows:,}{of} rows read{hint}{'' if sweep.wrong else ', nothing wrong'}"
        for number, wrong in enumerate(sweep.wrong):
            label = name if only_telling and not of and number == 0 else ""
            yield label, wrong.in_words(numbered=sweep.numbered)


def _checkpoint(evidence: Evidence) -> Iterator[Line]:
    resumed = evidence.checkpoint
    if resumed is None:
        return
    size = sum(resumed.files.values()) / 2**20
    files = f"{len(resumed.files)} file{'' if len(resumed.files) == 1 else 's'}"
    yield "saved", f"after {resumed.saved_after} steps ({files}, {size:.1f} MiB)"
    uninterrupted, after = resumed.losses
    yield "next loss", f"{show_number(after, '.4g')}, {show_number(uninterrupted, '.4g')} without interruption"
    different = "; ".join(resumed.differences)
    yield "state", f"changed: {different}" if different else "identical"


def _memory(evidence: Evidence) -> Iterator[Line]:
    memory = evidence.memory
    if memory is None:
        return
    named = f" of {show_size(memory.device)}" if memory.device else ""
    accuracy = f"±{PROJECTION_ERROR:.0%}"
    yield "peak", f"{show_size(memory.peak)}{named} ({accuracy}) at {memory.batch}, {_method(memory)}"
    state = f", {memory.optimizer_name or 'optimizer'} {show_size(memory.optimizer)}" if memory.optimizer else ""
    rest = "the step's own tensors" if memory.in_step else "activations"
    yield (
        "parts",
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
        return "projected without weights"
    return "projected" if memory.method == "projected" else "measured in the script's steps"


def _evaluation(evidence: Evidence) -> Iterator[Line]:
    evaluation = evidence.evaluation
    if evaluation is not None and evaluation.bytes_per_row and evaluation.number_of_rows:
        kept = evaluation.bytes_per_row * evaluation.number_of_rows
        yield "evaluation", f"{show_size(kept)} of predictions for {evaluation.number_of_rows} rows"


def _determinism(evidence: Evidence) -> Iterator[Line]:
    starts = evidence.determinism
    if starts is None:
        return
    first, second = (", ".join(show_number(loss, ".4g") for loss in each) for each in starts.losses)
    if starts.repeats:
        yield "losses", f"{first} in both runs"
        return
    yield "losses", f"{first} in the first run; {second} in the second"
    yield "different", "; ".join(starts.sources) or "the computation itself"


def _throughput(evidence: Evidence) -> Iterator[Line]:
    pace = evidence.throughput
    if pace is None:
        return
    tokens = f", {pace.rows_per_second * pace.tokens:,.0f} tokens" if pace.tokens else ""
    yield "pace", f"{rounded(pace.rows_per_second)} rows{tokens} per second on this machine's CPU"
    yield "batch", f"{duration(pace.batch_seconds)} to load, {duration(pace.step_seconds)} to train on"
    workers = f"; less with {pace.workers} workers" if pace.workers else ""
    yield "waiting", f"{pace.waiting:.0%} of the time with one loading process{workers}"
    calls = ", ".join(f"`{name}` {times:.3g} times" for name, times in pace.synchronizing.items())
    if calls:
        yield "syncs", f"{calls} per step, each of which synchronizes a GPU"
    if pace.operators:
        yield "slowest", ", ".join(f"{name} {share:.0%}" for name, share in pace.operators)


def _ranks(evidence: Evidence) -> Iterator[Line]:
    ranks = evidence.ranks
    if ranks is None:
        return
    yield (
        "run",
        f"{ranks.processes} processes{'' if ranks.is_joined else ' without a process group'}, {ranks.steps} steps",
    )
    for wait in ranks.waits:
        at = f" at {wait.location.path}:{wait.location.line}" if wait.location else ""
        yield f"rank {wait.rank}", f"waits in `{wait.function}`{at} for ever{_calls(wait)}"
    if not ranks.steps:
        return
    yield "weights", f"{len(ranks.different_weights)} of {ranks.weights} differ at the start"
    yield "gradients", f"{len(ranks.different_gradients)} of {ranks.gradients} differ after backward"
    yield "losses", "; ".join(_losses_of(number, losses) for number, losses in enumerate(ranks.losses))
    if ranks.apart:
        yield "apart", f"{len(ranks.apart)} trained weights differ before step {ranks.steps}"
    if ranks.without_gradient:
        yield "without", f"{len(ranks.without_gradient)} weights get no gradient"
    yield from _rows(ranks)
    if by_all := [write.path for write in ranks.writes if len(write.ranks) == ranks.processes]:
        yield "files", f"{', '.join(sorted(set(by_all)))} written by all"
    if ranks.prints:
        lines = ", ".join(f"{each.location.path}:{each.location.line}" for each in ranks.prints)
        yield "printed", f"by all processes: {lines}"
    if ranks.batch_norms and ranks.is_joined:
        uses = "norms use" if ranks.batch_norms > 1 else "norm uses"
        yield "norms", f"{ranks.batch_norms} batch {uses} the rows of one process each"
    for gather in ranks.gathers:
        yield "gathered", f"`{gather.function}` returns {gather.gathered} of {gather.rows} rows"
    for schedule in ranks.schedules:
        if schedule.steps_per_update > 1:
            yield "schedule", f"{schedule.name} advances {schedule.steps_per_update} steps per optimizer step"
    if ranks.failure:
        yield "error", ranks.failure
        if cause := likely_cause(ranks.failure.partition(" ends with ")[2]):
            yield "likely", cause


def _calls(wait: RankWait) -> str:
    """How often each rank has called what one waits in, if they differ."""
    if not wait.is_unmatched:
        return ""
    return f", called {', '.join(f'{times(calls)} by rank {number}' for number, calls in enumerate(wait.calls))}"


def _losses_of(rank: int, losses: tuple[float, ...]) -> str:
    return f"{', '.join(show_number(loss, '.4g') for loss in losses)} on rank {rank}"


def _rows(ranks: RanksEvidence) -> Iterator[Line]:
    if ranks.shared_rows is not None:
        yield "rows", f"{ranks.shared_rows} of {' and '.join(map(str, ranks.rows))} on both processes"
    if ranks.same_batches:
        yield "batch", f"the same on both processes in {ranks.same_batches} of {ranks.steps} steps"
    if ranks.same_dataset is False:
        common = f", with {ranks.overlap:.0%} of their rows in common" if ranks.contents else ""
        yield "datasets", f"different{common}"
    if len(set(ranks.batches)) > 1:
        yield "batches", f"{' and '.join(map(str, ranks.batches))}"


def beside(name: str, scored: EvaluationEvidence | MetricUse) -> str:
    """What answers that know nothing score in the same metric, in brackets."""
    both = (("constant answer", scored.of_constant), ("random", scored.of_random))
    known = [f"{who} {show_number(scores[name], '.3g')}" for who, scores in both if name in scores]
    return f" ({', '.join(known)})" if known else ""


MOST_METRICS = 3


def followed(evidence: Evidence) -> list[Line]:
    """The lines of an evaluation: its rows, the mode of the model, its losses, its metrics, and what is compared."""
    evaluation = evidence.evaluation
    return [*_evaluation_lines(evaluation), *_constant(evidence, evaluation)] if evaluation is not None else []


def _constant(evidence: Evidence, evaluation: EvaluationEvidence) -> Iterator[Line]:
    """How many rows the constant answer has right, where no metric was asked about it."""
    split = evidence.split("eval_dataset")
    labels = split.labels if split is not None else None
    if evaluation.of_constant or labels is None or len(labels.counts) < 2:
        return
    label, most = max(labels.counts, key=lambda each: each[1])
    rows = sum(count for _, count in labels.counts)
    yield "constant", f"label {label} for every row is right in {most} of {rows} rows ({most / rows:.3g})"


def _evaluation_lines(evaluation: EvaluationEvidence) -> Iterator[Line]:
    if evaluation.batches:
        rows = f"{evaluation.rows} rows" if evaluation.rows else "a stream"
        yield "data", f"{rows} in {evaluation.batches} batch{'' if evaluation.batches == 1 else 'es'}"
    if evaluation.passes:
        yield "model", _modes(evaluation)
    if evaluation.losses:
        yield "loss", show_number(sum(evaluation.losses) / len(evaluation.losses))
    uses = by_metric(evaluation)[:MOST_METRICS]
    yield from ((use.function, _use(use)) for use in uses)
    shown = {"loss", *(name or use.function for use in uses for name in use.values)}
    others = {name: value for name, value in evaluation.metrics.items() if value is not None and name not in shown}
    if others:
        values = (f"{name} {show_number(value, '.3g')}{beside(name, evaluation)}" for name, value in others.items())
        yield "values", ", ".join(values)


def by_metric(evaluation: EvaluationEvidence) -> list[MetricUse]:
    """One call of each metric: one that raised, else one that returned numbers, else the first."""
    best: dict[str, MetricUse] = {}
    for use in evaluation.metric_uses:
        known = best.get(use.function)
        if known is None or (bool(use.error), bool(use.values)) > (bool(known.error), bool(known.values)):
            best[use.function] = use
    return list(best.values())


def _modes(evaluation: EvaluationEvidence) -> str:
    passes, training = evaluation.passes, evaluation.passes_in_training_mode
    mode = f"{training} with dropout or batch norm in training mode" if training else "in evaluation mode"
    recorded = f"{evaluation.recorded_passes} with" if evaluation.recorded_passes else "without"
    return f"{passes} pass{'' if passes == 1 else 'es'}, {mode}, {recorded} gradients"


def _use(use: MetricUse) -> str:
    """The inputs and the result of a metric."""
    sides = ((use.predictions_shape, use.predictions_dtype), (use.references_shape, use.references_dtype))
    inputs = " and ".join(f"{list(shape)} {dtype}" for shape, dtype in sides if dtype)
    values = ", ".join(f"{show_number(value, '.3g')}{beside(name, use)}" for name, value in use.values.items())
    result = f"raises {use.error}" if use.error else f"returns {values}" if values else ""
    return " ".join(
        part for part in (f"receives {inputs}" if inputs else "", "and" if inputs and result else "", result) if part
    )
