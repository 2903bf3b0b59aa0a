"""The extra measurements, each in its own section: memory, throughput, determinism, ranks, checkpoint."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lintrain.evidence.memory import PROJECTION_ERROR
from lintrain.evidence.repeats import are_same
from lintrain.evidence.run import CheckpointEvidence, DeterminismEvidence, Evidence, MemoryEvidence, RanksEvidence
from lintrain.report.page.charts import Bar, bars
from lintrain.report.page.markup import Markup, Piece, figure, section, table, tag
from lintrain.text import duration, rounded, show_size

MOST_FILES = 12
SIGNS = {True: ("✓", "passed"), False: ("✗", "failed")}


def memory_of(evidence: Evidence) -> Iterator[Markup]:
    """The peak memory of a step by its parts, and for other batch sizes."""
    memory = evidence.memory
    if memory is None:
        return
    charts = [_memory_parts(memory), _batches(memory)]
    yield section("Memory of a training step", tag("div", charts, class_="charts"), _models(memory))


def _memory_parts(memory: MemoryEvidence) -> Markup:
    rest = "the step's own tensors" if memory.in_step else "activations"
    parts = (
        ("weights", memory.weights),
        ("gradients", memory.gradients),
        (memory.optimizer_name or "optimizer", memory.optimizer),
        (rest, memory.activations),
    )
    known = [(name, size) for name, size in parts if size]
    entries = [Bar(name, size / memory.peak, show_size(size)) for name, size in known]
    how = "projected" if memory.method == "projected" else "measured in the script's steps"
    weights = " without weights" if memory.without_weights else ""
    caption = f"{show_size(memory.peak)} at the peak with {memory.batch}, {how}{weights}, ±{PROJECTION_ERROR:.0%}"
    return figure(caption, bars(caption, entries))


def _batches(memory: MemoryEvidence) -> Markup | None:
    """The peak for this batch size, for larger ones, and for the largest that fits; the full width is the device."""
    if memory.device is None or not memory.rows or memory.peak <= memory.fixed:
        return None
    each = (memory.peak - memory.fixed) / memory.rows
    most: list[int] = [memory.largest_batch] if memory.largest_batch else []
    rows: list[int] = sorted({memory.rows, *most, *_doubled(memory, each)})
    entries = [_batch(memory, count, memory.fixed + each * count) for count in rows]
    caption = f"peak by batch size on {show_size(memory.device)}: {memory.largest}"
    return figure(caption, bars(caption, entries))


def _doubled(memory: MemoryEvidence, each: float) -> list[int]:
    """Twice and four times the batch size, and the first doubling that is too large."""
    counts, count = [memory.rows * 2, memory.rows * 4], memory.rows
    while memory.device and memory.fixed + each * count <= memory.device and count < memory.rows << 20:
        count *= 2
    return [*counts, count] if memory.largest_batch is not None else counts


def _batch(memory: MemoryEvidence, rows: int, size: float) -> Bar:
    device = memory.device or 1
    is_largest = rows == memory.largest_batch
    name = f"{rows:,} rows" + (" (max)" if is_largest else " (this run)" if rows == memory.rows else "")
    return Bar(name, size / device, show_size(int(size)), is_marked=size > device)


def _models(memory: MemoryEvidence) -> Markup | None:
    if len(memory.models) < 2:
        return None
    rows = [
        (model.name, show_size(model.size), "trains" if model.trains else "does not train") for model in memory.models
    ]
    return table(("model", "weights", ""), rows, caption="models in memory at the same time")


def throughput_of(evidence: Evidence) -> Iterator[Markup]:
    """The time to load a batch and to train on it, and the slowest operations."""
    pace = evidence.throughput
    if pace is None:
        return
    seconds = (("loading a batch", pace.batch_seconds), ("training on it", pace.step_seconds))
    whole = pace.batch_seconds + pace.step_seconds
    entries = [Bar(name, each / whole, duration(each), is_marked=False) for name, each in seconds]
    tokens = f", {pace.rows_per_second * pace.tokens:,.0f} tokens" if pace.tokens else ""
    caption = f"{rounded(pace.rows_per_second)} rows{tokens} per second on this machine's CPU, with one loading process"
    charts = [figure(caption, bars(caption, entries))]
    if pace.operators:
        title = "slowest torch operations of a step"
        charts.append(figure(title, bars(title, [Bar(name, share, f"{share:.0%}") for name, share in pace.operators])))
    calls = [(tag("code", name), f"{times:.3g}") for name, times in pace.synchronizing.items()]
    waits = table(("call", "times per step"), calls, caption="calls that synchronize a GPU") if calls else None
    yield section("Throughput", tag("div", charts, class_="charts"), waits)


def determinism_of(evidence: Evidence) -> Iterator[Markup]:
    """The losses of two runs side by side, and what differs between the runs."""
    starts = evidence.determinism
    if starts is not None:
        yield section("Determinism", _losses(starts), _listed(starts.sources, "different"))


def _losses(starts: DeterminismEvidence) -> Markup:
    rows = [
        (str(step), f"{one:.6g}", f"{other:.6g}", _sign(are_same(one, other)))
        for step, (one, other) in enumerate(zip(*starts.losses, strict=False), start=1)
    ]
    summary = "two runs are identical" if starts.repeats else "two runs differ"
    return table(("step", "first run", "second run", "same"), rows, caption=f"{summary}: losses of each")


def ranks_of(evidence: Evidence) -> Iterator[Markup]:
    """What each process trained on, and whether the models stay equal."""
    ranks = evidence.ranks
    if ranks is None:
        return
    rows = [
        (f"rank {rank}", *(_number_of(numbers, rank) for numbers in (ranks.rows, ranks.batches, ranks.dataset_rows)))
        for rank in range(ranks.processes)
    ]
    caption = f"{ranks.steps} steps on {ranks.processes} processes"
    parts = table(("", "rows trained on", "batches of an epoch", "rows of the dataset"), rows, caption=caption)
    shown = [parts, _questions(_rank_questions(ranks)), _writes(ranks)]
    yield section("Several processes", tag("div", shown, class_="charts"))


def _number_of(numbers: Sequence[int | None], rank: int) -> str:
    number = numbers[rank] if rank < len(numbers) else None
    return "" if number is None else f"{number:,}"


def _rank_questions(ranks: RanksEvidence) -> Iterator[tuple[str, str, bool | None]]:
    started, after = len(ranks.different_weights), len(ranks.different_gradients)
    yield "same weights at the start", f"{started} of {ranks.weights} differ", not started
    yield "same gradients after backward", f"{after} of {ranks.gradients} differ", not after
    yield "every weight has a gradient", f"{len(ranks.without_gradient)} have none", not ranks.without_gradient
    shared = "unknown" if ranks.shared_rows is None else f"{ranks.shared_rows} rows on both processes"
    yield "distinct rows per process", shared, None if ranks.shared_rows is None else not ranks.shared_rows
    if ranks.apart:
        yield (
            "same weights after training",
            f"{len(ranks.apart)} trained weights differ before step {ranks.steps}",
            False,
        )
    for gather in ranks.gathers:
        text = f"{gather.function} returns {gather.gathered} of {gather.rows}"
        yield "every row gathered once", text, gather.gathered == gather.rows
    for schedule in ranks.schedules:
        text = f"{schedule.steps_per_update} per optimizer step"
        yield f"steps of {schedule.name}", text, None  # a prepared schedule advances for all processes, by design
    if ranks.failure:
        yield "no error", ranks.failure, False
    if ranks.same_dataset is not None:
        yield "same dataset", "same rows" if ranks.same_dataset else "different rows", ranks.same_dataset


def _writes(ranks: RanksEvidence) -> Markup | None:
    rows = [(tag("code", write.path), ", ".join(map(str, write.ranks))) for write in ranks.writes]
    return table(("file", "ranks"), rows, caption="files that the script wrote, by rank") if rows else None


def checkpoint_of(evidence: Evidence) -> Iterator[Markup]:
    """A run that resumes from a checkpoint, compared with the uninterrupted one."""
    resumed = evidence.checkpoint
    if resumed is not None:
        parts = [_questions(_resumed_questions(resumed)), _files(resumed)]
        yield section("Resuming from a checkpoint", tag("div", parts, class_="charts"))


def _resumed_questions(resumed: CheckpointEvidence) -> Iterator[tuple[str, str, bool | None]]:
    weights, lost = len(resumed.changed_weights), len(resumed.lost_state) + len(resumed.changed_state)
    uninterrupted, loss = resumed.losses
    before, after = resumed.learning_rates
    yield "next loss", f"{loss:.6g}, uninterrupted {uninterrupted:.6g}", resumed.same_loss
    yield "weights", f"{weights} of {resumed.weights} differ", not weights
    yield "optimizer state", f"{lost} of {resumed.optimizer_state} tensors differ", not lost
    yield "learning rate", f"{after:.3g}, uninterrupted {before:.3g}", are_same(before, after)
    yield "random numbers", ", ".join(resumed.generators) or "unchanged", not resumed.generators
    seen = f"{resumed.repeated_rows} of {resumed.rows} rows seen before"
    same = None if resumed.same_batch is None else resumed.same_batch
    yield (
        "next batch",
        seen if resumed.repeated_rows else "unknown" if same is None else "the same" if same else "another",
        same,
    )


def _files(resumed: CheckpointEvidence) -> Markup | None:
    if not resumed.files:
        return None
    largest = max(resumed.files.values()) or 1
    by_size = sorted(resumed.files.items(), key=lambda file: -file[1])[:MOST_FILES]
    caption = f"saved after {resumed.saved_after} steps, {len(resumed.files)} files; loaded by the {resumed.resumes_by}"
    entries = [Bar(name.rpartition("/")[2], size / largest, show_size(size)) for name, size in by_size]
    return figure(caption, bars(caption, entries))


def _questions(asked: Iterator[tuple[str, str, bool | None]]) -> Markup:
    rows = [(_sign(is_so), name, text) for name, text, is_so in asked]
    return table(("", "comparison", "measured"), rows, caption="comparison", kind="words")


def _sign(is_so: bool | None) -> Markup:
    sign, kind = SIGNS[is_so] if is_so is not None else ("?", "not-reached")
    return tag("span", sign, class_=f"status {kind}")


def _listed(lines: Sequence[str], title: str) -> Piece:
    return tag("div", tag("p", f"{title}:"), tag("ul", (tag("li", line) for line in lines))) if lines else None


def extras_of(evidence: Evidence) -> Iterator[Markup]:
    """The sections of the requested extra measurements."""
    for kind in (memory_of, throughput_of, determinism_of, ranks_of, checkpoint_of):
        yield from kind(evidence)
