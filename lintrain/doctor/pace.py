"""What the schedule, the steps, the clock and the log of a run show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from lintrain.doctor.judgement import ENOUGH, FEW, Judgement, at, first_and_last, middle, short
from lintrain.doctor.record import Curve, Role, RunRecord
from lintrain.evidence.tracebacks import read_traceback
from lintrain.model.level import Level
from lintrain.report.text.causes import NotExplainedError, error_document


def judge_schedule(run: RunRecord) -> Iterator[Judgement]:
    """A learning rate that is 0, or another than was asked for."""
    rate = run.of(Role.RATE)
    if rate is None or len(rate) < FEW:
        return
    highest = max(rate.values)
    if highest == 0:
        yield Judgement(
            "rate-zero",
            Level.ERROR,
            f"`{rate.name}` is 0 at all {len(rate)} points",
            "With a learning rate of 0 no weight changes.",
            "set `learning_rate`, and see what the schedule multiplies it with",
            (rate.name,),
            "low-learning-rate",
        )
        return
    ended = next((number for number in range(len(rate)) if _rest_is_zero(rate, number, highest)), None)
    rest = 1 - ended / len(rate) if ended is not None else 0.0
    if ended is not None and rest > 0.15 and len(rate) - ended >= FEW:
        yield Judgement(
            "rate-ends-early",
            Level.ERROR,
            f"`{rate.name}` reaches 0 at {at(rate.points[ended])}: the last {rest:.0%} of the run train nothing",
            "The schedule is shorter than the run: it counts other steps than those that are made.",
            "give the schedule the number of optimizer steps of all epochs",
            (rate.name,),
            "schedule-unit-mismatch",
        )
    yield from _not_as_configured(run, rate, highest)


def _rest_is_zero(rate: Curve, number: int, highest: float) -> bool:
    return all(point.value <= 1e-3 * highest for point in rate.points[number:])


def _not_as_configured(run: RunRecord, rate: Curve, highest: float) -> Iterator[Judgement]:
    wanted = str(run.arguments.get("lr_scheduler_type", "")).lower().rpartition(".")[2]
    is_flat = min(rate.values) == highest
    if wanted in ("linear", "cosine", "polynomial", "inverse_sqrt") and is_flat and len(rate) >= ENOUGH:
        yield Judgement(
            "schedule-not-applied",
            Level.WARNING,
            f"`{rate.name}` is {short(highest)} at all {len(rate)} points, but the schedule is `{wanted}`",
            "The schedule is made and never stepped, or another optimizer is trained than the one that it changes.",
            "call `scheduler.step()` after each `optimizer.step()`",
            (rate.name,),
            "unstepped-scheduler",
        )
    given = run.arguments.get("learning_rate")
    warm_up = run.arguments.get("warmup_steps")
    is_over = isinstance(warm_up, int | float) and run.last_step > 1.2 * warm_up
    if isinstance(given, float) and is_over and 0 < highest < 0.5 * given:
        yield Judgement(
            "rate-below-configured",
            Level.WARNING,
            f"`{rate.name}` is at most {short(highest)}, but {short(given)} is configured",
            "The schedule never reaches the rate that was asked for.",
            "compare the steps of the warm-up with the steps of the run",
            (rate.name,),
        )


def judge_end(run: RunRecord) -> Iterator[Judgement]:
    """Fewer steps than were planned."""
    if run.planned_steps and 0 < run.last_step < 0.95 * run.planned_steps:
        yield Judgement(
            "ended-early",
            Level.NOTE,
            f"the run ended at step {run.last_step:,.0f} of {run.planned_steps:,}"
            f" ({run.last_step / run.planned_steps:.0%})",
            "It was stopped, died, or is still running: its schedule was planned for all of its steps.",
            "go on from its last checkpoint (`resume_from_checkpoint=True`)",
        )


def judge_time(run: RunRecord) -> Iterator[Judgement]:
    """Pauses between points of training, without an evaluation in them; and steps that take ever longer."""
    loss = run.of(Role.LOSS)
    points = [point for point in loss.points if point.time is not None] if loss else []
    if loss is None or len(points) < 2 * ENOUGH:
        return
    evaluated = [point.step for curve in run.all_of(Role.EVAL_LOSS) for point in curve.points]
    paces = [
        (after, ((after.time or 0.0) - (before.time or 0.0)) / (after.step - before.step), before)
        for before, after in pairwise(points)
        if after.step > before.step and not any(before.step <= step <= after.step for step in evaluated)
    ]
    paces = [each for each in paces if each[1] >= 0]
    if len(paces) < ENOUGH:
        return
    usual = middle([pace for _, pace, _ in paces])
    gaps = [(after, (after.time or 0.0) - (before.time or 0.0)) for after, pace, before in paces if pace > 10 * usual]
    lost, whole = sum(gap for _, gap in gaps), (points[-1].time or 0.0) - (points[0].time or 0.0)
    if usual > 0 and gaps and lost > max(30.0, 0.2 * whole):
        worst = max(gaps, key=lambda each: each[1])
        yield Judgement(
            "stalls",
            Level.WARNING,
            f"{lost / whole:.0%} of the time went into {len(gaps)} pause{'s' if len(gaps) > 1 else ''}, the longest of"
            f" {worst[1]:.0f} s before {at(worst[0])}; a step usually takes {usual:.2g} s",
            "Nothing is trained in a pause: data is waited for, a checkpoint written, or the machine was shared.",
            "see where the time goes with `lintrain probe --also throughput`",
            (loss.name,),
        )
    first, last = (middle(part) for part in first_and_last([pace for _, pace, _ in paces]))
    # Below a second in all, these are the times that the logger takes to write, not those of steps.
    if first > 0 and last > 2 * first and whole > 1.0:
        yield Judgement(
            "slows-down",
            Level.WARNING,
            f"a step takes {last:.2g} s at the end, {last / first:.2g} times as long as at first ({first:.2g} s)",
            "Steps that take ever longer keep something from one to the next: graphs, lists, files.",
            "look for losses that are added up without `.item()`, and lists of outputs that grow",
            (loss.name,),
            "retained-graph",
        )


ENDINGS = (
    (r"DUE TO TIME LIMIT", "time-limit", "the job reached its time limit", "ask for more time, and save checkpoints"),
    (
        r"oom[-_ ]kill|Out of memory: Killed|Exceeded job memory limit|^Killed$|exit code 137",
        "killed",
        "the system killed the process: it took more memory than the machine or the job has",
        "load less at once: fewer or smaller workers, `streaming=True`, lists of outputs that do not grow",
    ),
    (
        r"Watchdog caught collective operation timeout|NCCL.*timeout",
        "ranks-waited",
        "the processes of the run waited for each other until the time was over",
        "look for a step, a save or an evaluation that only one rank makes",
    ),
    (
        r"Bus error|insufficient shared memory",
        "shared-memory",
        "the workers of a loader ran out of shared memory",
        "give the container more (`--shm-size`), or use fewer workers",
    ),
    (r"Segmentation fault", "crashed", "native code crashed", "run with `PYTHONFAULTHANDLER=1` to see where"),
)
"""Ends that Python did not see, by what is in the last lines of a log: pattern, name, message, help."""

LAST = 60
"""Lines of a log that tell how it ended."""


def judge_log(run: RunRecord) -> Iterator[Judgement]:
    """The end of a run by its log: an error with its likeliest cause, or what ended the process from outside."""
    last = "\n".join(run.log.splitlines()[-LAST:])
    for pattern, name, message, help_text in ENDINGS:
        if re.search(pattern, last, re.MULTILINE | re.IGNORECASE if name != "killed" else re.MULTILINE):
            yield Judgement(
                name, Level.ERROR, message, "No line of the script is to blame for it by itself.", help_text
            )
            return
    failure = read_traceback(run.log) if "Traceback (most recent call last)" in last else None
    if failure is None or failure.type == "KeyboardInterrupt":
        return
    first = next(iter(failure.message.splitlines()), "")
    where = f" at {failure.location.path}:{failure.location.line}" if failure.location else ""
    try:
        cause = error_document(run.log)["causes"][0]
    except NotExplainedError:
        cause = {"cause": "", "fix": "", "page": ""}
    yield Judgement(
        "ended-by-error",
        Level.ERROR,
        f"the run ended with {failure.type}{where}: {first[:200]}",
        cause["cause"] or "Its traceback is at the end of the log.",
        cause["fix"] or "`lintrain probe` shows what the failing call was given",
        page=cause["page"],
    )
