"""What `lintrain probe` does with its options."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from lintrain.cli._judged import form_of, refusing, report_crashes, write_judgement
from lintrain.cli._output import Refusal, refuse_what_cannot_be_written, say
from lintrain.cli._written import kept_failure, refuse_folder, write_evidence, write_page, write_repro, write_tests
from lintrain.report.text.checklist import open_checklist
from lintrain.runtime.parent.entry import Entry, NoEntryError, file_of_module
from lintrain.runtime.parent.extras import NoExtraError, read_extras
from lintrain.runtime.parent.interpreter import NoInterpreterError, choose_interpreter
from lintrain.runtime.parent.kept_verdicts import keep_verdicts
from lintrain.runtime.parent.launcher import GIB, Bounds, NoRoomError
from lintrain.runtime.parent.launchers import Launched, LaunchError, read_launch
from lintrain.runtime.parent.prober import Wanted, probe_script
from lintrain.runtime.parent.record import Record
from lintrain.source.reading import UnreadableError
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text.sizes import read_size
from lintrain.verdicts.conclusion import NOT_JUDGED
from lintrain.verdicts.judgement import Judgement, judge_record
from lintrain.verdicts.static_findings import StaticFindings, start_check

OUTPUT_IS_USEFUL = ("exited", "killed", "no-training", "by-hand", "time", "memory", "probe-failed")


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The command line of `lintrain probe`, as click reads it."""

    script: str | None = None
    arguments: tuple[str, ...] = ()
    module: str | None = None
    python: str | None = None
    overfit: int | None = None
    also: tuple[str, ...] = ()
    device_memory: str | None = None
    full_data: bool = False
    offline: bool = False
    timeout: float = 300.0
    memory: float | None = None
    as_json: bool = False
    output_format: str | None = None
    output_file: Path | None = None
    evidence: Path | None = None
    html: Path | None = None
    write_tests: Path | None = None
    export_repro: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: Path | None = None
    no_cache: bool = False
    quiet: bool = False
    verbose: bool = False
    until_stdin_ends: bool = False


def probe(options: ProbeOptions) -> int:
    """Carry out the command and give its exit code; raises Refusal."""
    name = form_of(as_json=options.as_json, output_format=options.output_format)
    if options.until_stdin_ends:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    for file in (options.evidence, options.html, options.write_tests, options.output_file):
        refuse_what_cannot_be_written(file)
    refuse_folder(options.export_repro)
    started = _started(options)
    if started.script is not None:
        _refuse_what_is_no_script(Path(started.script))
    try:
        python = choose_interpreter(options.python, Path(started.script or "."))
    except NoInterpreterError as error:
        say(f"lintrain: could not judge: {error}")
        return NOT_JUDGED
    entry = _entry(started, python)
    with refusing():
        checked = start_check(str(entry.script), options.select, options.ignore, options.config)
    with kept_failure(is_wanted=options.export_repro is not None) as kept:
        try:
            record = _run(options, entry, python, kept)
            with refusing():
                static = checked()
        except NoRoomError as error:
            say(f"lintrain: could not judge: no room for the probe's own files: {error}")
            return NOT_JUDGED
        record = dataclasses.replace(record, findings=tuple(one.finding for one in static.reported))
        return _report(options, name, record, static, kept)


def _report(options: ProbeOptions, name: str, record: Record, static: StaticFindings, kept: Path | None) -> int:
    """Judge what was measured, write all that was asked for, and give the exit code."""
    if options.evidence:
        write_evidence(record, options.evidence)
    report_crashes(static)
    judgement = judge_record(record, static)
    if not options.no_cache and (problem := keep_verdicts(record, judgement.pairs)):
        say(f"lintrain: {problem}")
    write_judgement(judgement, name, options.output_file)
    if options.html:
        write_page(judgement, options.html)
    if options.write_tests:
        write_tests(record, options.write_tests, module=options.module)
    if options.export_repro and kept is not None:
        write_repro(record, kept, options.export_repro)
    _show_output(options, record, judgement)
    return judgement.conclusion.exit_code


def _started(options: ProbeOptions) -> Launched:
    """What the command line asks to run, its launcher taken off; raises Refusal."""
    words = [*([options.script] if options.script is not None else []), *options.arguments]
    if options.module is not None:
        return Launched(None, options.module, tuple(words))
    if not words:
        raise Refusal("names no script; `lintrain probe train.py`, or `-m package.module`")
    try:
        return read_launch(words) or Launched(words[0], None, tuple(words[1:]))
    except LaunchError as error:
        raise Refusal(str(error)) from error


def _entry(started: Launched, python: str) -> Entry:
    """The file that is run and checked; raises Refusal."""
    try:
        script = Path(started.script) if started.script else file_of_module(python, started.module or "")
    except NoEntryError as error:
        raise Refusal(str(error)) from error
    return Entry(script, started.arguments, started.module, started.environment, started.shortcuts)


def _run(options: ProbeOptions, entry: Entry, python: str, kept: Path | None) -> Record:
    bounds = Bounds(options.timeout, int(options.memory * GIB) if options.memory else None)
    echo = sys.stderr.buffer if options.verbose else None
    wanted = Wanted(
        entry=entry,
        python=python,
        bounds=bounds,
        overfit=options.overfit or 0,
        also=_extras(options),
        device_memory=_device_memory(options),
        full_data=options.full_data,
        offline=options.offline,
        kept=kept,
        echo=echo,
    )
    with _interruptible(), open_checklist(quiet=options.quiet or options.verbose) as checklist:
        try:
            return probe_script(wanted, checklist.listen)
        except UnreadableError as error:
            raise Refusal(f"{entry.script}:{error.line}: {error}") from error


def _extras(options: ProbeOptions) -> tuple[str, ...]:
    """A device that is named asks for the memory, too."""
    implied = ("memory",) if options.device_memory is not None else ()
    try:
        return read_extras((*options.also, *implied))
    except NoExtraError as error:
        raise Refusal(f"--also {error}") from error


def _device_memory(options: ProbeOptions) -> int | None:
    if options.device_memory is None:
        return None
    if (size := read_size(options.device_memory)) is None:
        raise Refusal(f"--device-memory {options.device_memory}: write it as 24GiB or 80GB")
    return size


@contextmanager
def _interruptible() -> Generator[None]:
    """Let a polite request to end (SIGTERM, a closed terminal) clean up like Ctrl-C."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_with_stdin() -> None:
    """End this process when nobody holds the other end of its input any more."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _refuse_what_is_no_script(script: Path) -> None:
    if not script.exists():
        raise Refusal(f"{script}: no such file")
    if script.is_dir():
        raise Refusal(f"{script}: is a folder; name the script that trains")
    if not script.is_file():
        raise Refusal(f"{script}: is a pipe or a device, not a script")


def _show_output(options: ProbeOptions, record: Record, judgement: Judgement) -> None:
    is_useful = record.ending.kind in OUTPUT_IS_USEFUL and judgement.conclusion.exit_code == NOT_JUDGED
    if is_useful and record.ending.output and not options.verbose:
        say("the last lines that the script printed:")
        for line in record.ending.output.splitlines():
            say(f"  {line}")
