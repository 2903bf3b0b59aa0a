"""A whole probe: the CPU pass, a second pass if a shortcut was unsound, and the GPU pass if there is a GPU.

Measurements that need further passes over the script, in fresh processes, after the first one passed.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

from lintrain._version import __version__
from lintrain.evidence.fields import EvidenceFields
from lintrain.evidence.run import Evidence, Stage, StageName
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.runtime.parent.download_folders import download_folders, paths_of_downloads
from lintrain.runtime.parent.entry import Entry, ScriptStarts
from lintrain.runtime.parent.events import BEFORE_IT, Event, UntrustworthyError
from lintrain.runtime.parent.going_on import Answers, ChooseRepairs
from lintrain.runtime.parent.launcher import Bounds, Launch, NoRoomError, package_folder
from lintrain.runtime.parent.pass_request import OVERFIT_STEPS, SAMPLE_ROWS, PassRequest, new_exchange
from lintrain.runtime.parent.processes import warden
from lintrain.runtime.parent.record import SCHEMA, Record
from lintrain.runtime.parent.remains import copy_plain_files
from lintrain.runtime.parent.timeline import UnmeasuredError
from lintrain.runtime.parent.trials import Grid, Setting
from lintrain.runtime.passes.checkpoint import compare_resumed, compare_starts
from lintrain.runtime.passes.ranks import compare_ranks
from lintrain.runtime.passes.trials import compare_values
from lintrain.source.reading import LARGEST_FILE, read_plain
from lintrain.startup.lazy_dataclass import dataclass

KEPT = "kept"
"""In the temporary folder: what the child kept."""
LEAST_SECONDS = 2.0
"""Of the time limit, for a second try to begin."""
LOST_GPU = ("CUDA error", "CUBLAS_STATUS_", "device-side assert")
"""Errors of a kernel, which name no value, and often the wrong line."""
GPU_WORDS = ("cuda", "gpu", "flash", "nccl", "bitsandbytes")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The options of a probe; `kept` is a folder for what a failing stage needs to fail again; `is_on_cpu` leaves
    the GPU pass out. With `choose_repairs` the script runs again after a failing stage, with what this repairs;
    with `tries_fixes` also if no stage fails. `setting` has several values, each of which is tried in a run of its own.
    """

    entry: Entry
    python: str
    bounds: Bounds
    overfit: int = 0
    also: tuple[str, ...] = ()
    rows: tuple[tuple[str, int], ...] = ()
    batch: str = ""
    device_memory: int | None = None
    full_data: bool = False
    offline: bool = False
    stand_ins: bool = False
    takes_gpu_to_cpu: bool = False
    stand_in_data: str = ""
    kept: Path | None = None
    echo: IO[bytes] | None = None
    is_on_cpu: bool = False
    choose_repairs: ChooseRepairs | None = None
    tries_fixes: bool = False
    setting: Setting | Grid | None = None


def probe_script(wanted: Wanted, listen: Callable[[Event], None]) -> Record:
    """Run every pass; the temporary folder is removed afterwards, whatever happens."""
    temporary = _new_folder()
    with warden(temporary), download_folders():
        return _probe(wanted, temporary, listen)


def _new_folder() -> Path:
    """A folder for the probe's own files; raises NoRoomError."""
    try:
        return Path(tempfile.mkdtemp(prefix="lintrain-probe-"))
    except OSError as error:
        raise NoRoomError(error.strerror or str(error)) from error


def _probe(wanted: Wanted, temporary: Path, listen: Callable[[Event], None]) -> Record:
    ends = time.monotonic() + wanted.bounds.seconds
    found, ending, is_whole = _cpu_pass(wanted, temporary, listen)
    evidence, runs = next(iter(found), None), found[1:]
    if evidence is not None and _fails_in_backward(evidence):
        evidence = _with_forward_lines(evidence, wanted, temporary, ends)
    elif evidence is not None and _is_not_finite(evidence):
        evidence = _with_origin(evidence, wanted, temporary, ends)
    if evidence is not None:
        # Further passes only where the first went well: they would fail at the same line, at the same cost.
        if ending.kind is EndingKind.MEASURED:
            sample_rows = 0 if is_whole else SAMPLE_ROWS
            starts = ScriptStarts(
                wanted.entry,
                wanted.python,
                wanted.bounds,
                ends,
                temporary,
                sample_rows,
                listen,
                wanted.echo,
                wanted.offline,
                stand_ins=wanted.stand_ins,
                stand_in_data=wanted.stand_in_data,
            )
            evidence = measure_reruns(starts, wanted.also, evidence)
            if wanted.setting is not None:
                evidence = _with_stage(starts, StageName.TRIALS, partial(compare_values, wanted.setting), evidence)
        runs.insert(0, evidence)
    # The GPU pass comes second, and only where the CPU pass leaves a question: it starts the script once more.
    if not wanted.is_on_cpu and has_gpu() and _gpu_can_say_more(evidence, ending):
        on_gpu = replace(_with_time_left(wanted, ending), choose_repairs=None)
        runs, ending = _with_gpu_pass(runs, ending, on_gpu, temporary, listen)
    text = read_plain(wanted.entry.script, LARGEST_FILE)
    return Record(
        schema=SCHEMA,
        lintrain=__version__,
        script=str(wanted.entry.script),
        script_sha256=hashlib.sha256(text).hexdigest(),
        python=wanted.python,
        ending=ending,
        runs=tuple(runs),
        arguments=wanted.entry.arguments,
    )


def _cpu_pass(wanted: Wanted, temporary: Path, listen: Callable[[Event], None]) -> tuple[list[Evidence], Ending, bool]:
    """The evidence of each run in the pass, how it ended, and whether it processed all of the data."""
    found, ending = _pass(wanted, temporary, "cpu", wanted.full_data, listen)
    if ending.kind is not EndingKind.NEEDS_FULL_DATA:
        return found, ending, wanted.full_data
    listen({"event": "again", "reason": ending.reason})
    found, second = _pass(_with_time_left(wanted, ending), temporary, "cpu", True, listen)
    note = f"all of the data was processed: {ending.reason}"
    return [replace(each, notes=(*each.notes, note)) for each in found], second, True


def _fails_in_backward(evidence: Evidence) -> bool:
    """Whether autograd itself fails in an operation, whose forward call it can name."""
    failure = evidence.failure
    is_of_engine = failure is not None and failure.raised_in.endswith("_engine_run_backward")
    return is_of_engine and not failure.contains("does not require grad") if failure else False


def _with_forward_lines(evidence: Evidence, wanted: Wanted, temporary: Path, ends: float) -> Evidence:
    """The evidence of a failing backward pass, with the lines of the forward pass that a second try found."""
    found = _second_try(wanted, temporary, ends)
    if found is None:
        return evidence
    lines = found[0].failure.forward if found and found[0].failure is not None else ()
    note = "the script ran a second time with torch's anomaly detection, to find the forward pass of the error"
    stages = tuple(_with_lines(stage, lines) for stage in evidence.stages)
    return replace(evidence, stages=stages, notes=(*evidence.notes, note))


def _second_try(wanted: Wanted, temporary: Path, ends: float) -> list[Evidence] | None:
    """What the script shows when it runs again and each operation is traced; None if no time is left."""
    left = ends - time.monotonic()
    if left < LEAST_SECONDS:
        return None
    bounds = replace(wanted.bounds, seconds=left)
    second = replace(wanted, bounds=bounds, also=(), overfit=0, kept=None, choose_repairs=None, tries_fixes=False)
    return _pass(second, temporary, "cpu", wanted.full_data, lambda _: None, is_second_try=True)[0]


def _is_not_finite(evidence: Evidence) -> bool:
    """Whether the loss, or a gradient of a finite one, is NaN or infinite."""
    forward, backward = evidence.forward, evidence.backward
    return forward is not None and (not forward.finite or (backward is not None and backward.non_finite is not None))


def _with_origin(evidence: Evidence, wanted: Wanted, temporary: Path, ends: float) -> Evidence:
    """The evidence with the operation and the line that a second run found."""
    found = next(iter(_second_try(wanted, temporary, ends) or ()), None)
    note = "the script ran a second time, to find the first operation with NaN or infinity"
    if found is None:
        return evidence
    backward = evidence.backward
    if backward is not None and backward.non_finite is not None and found.backward is not None:
        backward = replace(backward, non_finite=found.backward.non_finite or backward.non_finite)
    return replace(evidence, origin=found.origin, backward=backward, notes=(*evidence.notes, note))


def _with_gpu_pass(
    runs: list[Evidence], ending: Ending, wanted: Wanted, temporary: Path, listen: Callable[[Event], None]
) -> tuple[list[Evidence], Ending]:
    """The runs of the CPU pass and those on the GPU, or these alone where the script needs one; and the ending."""
    begins = time.monotonic()
    found, gpu_ending = _pass(wanted, temporary, "gpu", wanted.full_data, listen)
    if ending.kind is EndingKind.MEASURED:
        return [*runs, *map(_as_second, filter(_says_more, found))], ending
    left = wanted.bounds.seconds - (time.monotonic() - begins)
    return _shown_by_cpu(found, replace(wanted, bounds=replace(wanted.bounds, seconds=left)), temporary), gpu_ending


def _says_more(evidence: Evidence) -> bool:
    """Whether a run of the GPU pass shows more than the CPU pass, which went well.

    A run whose model stays on the CPU repeats it. But one that fails there does so for the GPU: batches were moved to
    it and the model was not.
    """
    return evidence.device != "cpu" or evidence.failure is not None


def _as_second(evidence: Evidence) -> Evidence:
    note = "the GPU was visible in this run, and the model was on the CPU when its batches were read"
    return replace(evidence, notes=(*evidence.notes, note)) if evidence.device == "cpu" else evidence


def _shown_by_cpu(found: list[Evidence], wanted: Wanted, temporary: Path) -> list[Evidence]:
    """The runs of a GPU pass; if a kernel ended the last, what the script shows on the CPU, which names the value."""
    failure = found[-1].failure if found else None
    if failure is None or not failure.contains(*LOST_GPU) or wanted.bounds.seconds < LEAST_SECONDS:
        return found
    shown, _ = _pass(replace(wanted, takes_gpu_to_cpu=True), temporary, "cpu", wanted.full_data, lambda _: None)
    if not shown or shown[0].failure is None:
        return found
    where = f" at {failure.location.path}:{failure.location.line}" if failure.location else ""
    note = (
        f"on the GPU a kernel fails{where} ({failure.message.splitlines()[0]}) and names no value: "
        "this run has `cuda` taken to the CPU"
    )
    # No verdict rests on that: the script failed on its own device before.
    return [replace(each, notes=(*each.notes, note), stand_ins=()) for each in shown]


def _with_lines(stage: Stage, lines: tuple[str, ...]) -> Stage:
    return replace(stage, failure=replace(stage.failure, forward=lines)) if stage.failure else stage


def _with_time_left(wanted: Wanted, ending: Ending) -> Wanted:
    return replace(wanted, bounds=replace(wanted.bounds, seconds=max(1.0, wanted.bounds.seconds - ending.seconds)))


def _pass(
    wanted: Wanted,
    temporary: Path,
    device: str,
    full_data: bool,
    listen: Callable[[Event], None],
    *,
    is_second_try: bool = False,
) -> tuple[list[Evidence], Ending]:
    """The evidence of each run of the script in one process, and how that ended."""
    folder = Path(tempfile.mkdtemp(dir=temporary))
    exchange = new_exchange(folder)
    command, skipped = wanted.entry.prepare(exchange)
    request = _request(wanted, device, folder, exchange, skipped, full_data=full_data, is_second_try=is_second_try)
    answers = Answers(wanted.choose_repairs or _repair_nothing, wanted.entry, exchange)
    launch = Launch(request, [wanted.python, *command], wanted.entry.environment, wanted.echo, answer=answers)
    ending = launch.follow(wanted.bounds, listen)
    # Copied file by file, plain files only: the folder was written by the script's process, which may have put links
    # there.
    if wanted.kept is not None and device == "cpu" and (folder / KEPT).is_dir():
        with suppress(OSError):  # too much of it: nothing is reproduced
            copy_plain_files(folder / KEPT, wanted.kept)
    if not launch.assembly.reached_a_run:
        return [], ending
    try:
        stopped = _stopped(launch, ending)
        return [*answers.runs(launch.assembly, stopped)], answers.ending(launch.assembly, stopped, ending)
    except UntrustworthyError as error:
        reason = f"the script's process sent invalid values: {error}"
        return [], replace(ending, kind=EndingKind.UNTRUSTED, reason=reason)


def _request(
    wanted: Wanted,
    device: str,
    folder: Path,
    exchange: Path,
    skipped: Sequence[str],
    *,
    full_data: bool,
    is_second_try: bool,
) -> PassRequest:
    return PassRequest(
        script=str(wanted.entry.script),
        folder=str(Path.cwd()),
        package=package_folder(),
        temporary=str(folder),
        exchange=str(exchange),
        device=device,
        overfit=wanted.overfit or (OVERFIT_STEPS if "overfit" in wanted.also else 0),
        also=wanted.also,
        rows=wanted.rows,
        batch=wanted.batch,
        device_memory=wanted.device_memory,
        sample_rows=0 if full_data or StageName.ROWS in wanted.also else SAMPLE_ROWS,
        shortcuts=(*wanted.entry.shortcuts, *skipped),
        downloads=paths_of_downloads(),
        reproduces=wanted.kept is not None,
        offline=wanted.offline,
        stand_ins=wanted.stand_ins,
        stand_in_data=wanted.stand_in_data,
        takes_gpu_to_cpu=wanted.takes_gpu_to_cpu,
        is_second_try=is_second_try,
        goes_on=wanted.choose_repairs is not None,
        tries_fixes=wanted.tries_fixes,
    )


def _repair_nothing(_runs: object) -> None:
    """Every failing stage is the end."""


def _stopped(launch: Launch, ending: Ending) -> str:
    if ending.kind is EndingKind.CRASHED:
        return BEFORE_IT
    if ending.kind is EndingKind.NO_TRAINING:
        return "the script trained nothing"
    where = f" in the {launch.assembly.running} stage" if launch.assembly.running else ""
    return f"{ending.reason or ending.kind}{where}"


def has_gpu() -> bool:
    """Whether this machine has an accelerator that torch's CUDA devices stand for (NVIDIA or AMD)."""
    return (
        bool(list(Path("/dev").glob("nvidia[0-9]*"))) or Path("/dev/kfd").exists() or bool(shutil.which("nvidia-smi"))
    )


def _gpu_can_say_more(evidence: Evidence | None, ending: Ending) -> bool:
    """A clean CPU pass, or one that ended because the script asks for the GPU that was hidden from it."""
    if ending.kind is EndingKind.MEASURED and evidence is not None and evidence.failure is None:
        return True
    failure = evidence.failure if evidence is not None else None
    text = f"{failure.message} {failure.code}" if failure else ending.reason
    return any(word in text.lower() for word in GPU_WORDS)


RERUNS: Mapping[str, Callable[[ScriptStarts], EvidenceFields]] = {
    StageName.CHECKPOINT: compare_resumed,
    StageName.DETERMINISM: compare_starts,
    StageName.RANKS: compare_ranks,
}
"""By the name of the stage: what starts the script again and compares."""


UNFINISHED = "Expected to have finished reduction in the prior iteration"
"""The error of DistributedDataParallel for weights without a gradient (torch 2.13), which a pass can go on after."""


def measure_reruns(starts: ScriptStarts, also: tuple[str, ...], evidence: Evidence) -> Evidence:
    """The evidence with what the requested extras add to it."""
    for name in map(StageName, also):
        if name in RERUNS:
            evidence = _with_stage(starts, name, RERUNS[name], evidence)
    return evidence


Compare = Callable[[ScriptStarts], EvidenceFields]


def _with_stage(starts: ScriptStarts, name: StageName, compare: Compare, evidence: Evidence) -> Evidence:
    starts.listen({"event": "stage-started", "stage": name})
    stage, fields = _measured(starts, name, compare, evidence)
    starts.listen({"event": "stage", "stage": {"name": name, "status": stage.status, "seconds": stage.seconds}})
    return replace(evidence, stages=(*evidence.stages, stage), **fields)  # type: ignore[arg-type]


def _measured(
    starts: ScriptStarts, name: StageName, compare: Compare, evidence: Evidence
) -> tuple[Stage, EvidenceFields]:
    started = time.monotonic()
    # All reruns compare optimizer steps.
    ends_unfinished = name is StageName.RANKS and evidence.failed_with(UNFINISHED) is not None
    if not evidence.passed(StageName.STEP) and not ends_unfinished:
        return Stage.not_reached(name, "training does not reach its first step"), {}
    try:
        fields = compare(replace(starts, allows_unused=ends_unfinished))
    except UnmeasuredError as reason:
        return Stage.not_reached(name, str(reason), time.monotonic() - started), {}
    return Stage.passed(name, time.monotonic() - started), fields
