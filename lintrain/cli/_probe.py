"""The run of `lintrain probe`.

What a probe writes besides its report: evidence, a page, tests, a reproduction.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import signal
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from lintrain.cli._fixes import diff
from lintrain.cli._judge import as_command_errors, format_of, report_crashes, write_judgement
from lintrain.cli._output import (
    CommandError,
    check_writable,
    say,
    write_contents,
    write_for_people,
    write_named,
    write_report,
)
from lintrain.configurations.kind import Kind
from lintrain.report.text.frame import count
from lintrain.report.text.judgement import judgement_page
from lintrain.report.text.stages import open_checklist
from lintrain.report.text.style import style_of
from lintrain.runtime.parent.entry import Entry, NoEntryError, file_of_module
from lintrain.runtime.parent.environment import NoInterpreterError, choose_interpreter
from lintrain.runtime.parent.kept_verdicts import keep_verdicts
from lintrain.runtime.parent.launcher import GIB, Bounds, NoRoomError
from lintrain.runtime.parent.launchers import Launched, LaunchError, read_launch
from lintrain.runtime.parent.pass_request import NoExtraError, NoRowsError, is_kept_batch, read_extras, read_rows
from lintrain.runtime.parent.prober import Wanted, probe_script
from lintrain.runtime.parent.processes import warden
from lintrain.runtime.parent.record import Record, record_json
from lintrain.runtime.parent.trials import setting_of
from lintrain.settings.settings import FOR_PEOPLE
from lintrain.source.configuration import Configuration
from lintrain.source.reading import CONFIGURED, UnreadableError, load_bytes, read_bytes, read_file
from lintrain.source.writing import file_bytes
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import read_size
from lintrain.verdicts.conclusion import NOT_JUDGED
from lintrain.verdicts.judgement import Judgement, judge_record
from lintrain.verdicts.repairs import Repairs, text_with
from lintrain.verdicts.static_findings import StaticFindings, start_check

MULTIRUN = "a multirun of Hydra starts several runs; probe one of them"
OUTPUT_IS_USEFUL = ("exited", "killed", "no-training", "by-hand", "time", "memory", "probe-failed")


@dataclass(frozen=True, slots=True)
class ProbeOptions:
    """The command line of `lintrain probe`."""

    script: str | None = None
    arguments: tuple[str, ...] = ()
    module: str | None = None
    python: str | None = None
    overfit: int | None = None
    also: tuple[str, ...] = ()
    rows: tuple[str, ...] = ()
    batch: Path | None = None
    device_memory: str | None = None
    full_data: bool = False
    offline: bool = False
    stand_ins: bool = False
    stand_in_data: Path | None = None
    timeout: float = 300.0
    memory: float | None = None
    as_json: bool = False
    output_format: str | None = None
    output_file: Path | None = None
    evidence: Path | None = None
    html: Path | None = None
    write_tests: Path | None = None
    fix: bool = False
    diff: bool = False
    export_repro: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: Path | None = None
    no_cache: bool = False
    quiet: bool = False
    verbose: bool = False
    tried: tuple[str, ...] = ()
    until_stdin_ends: bool = False
    with_calls: bool = False


def probe(options: ProbeOptions) -> int:
    """Run the command and return its exit code; raises CommandError."""
    name = format_of(as_json=options.as_json, output_format=options.output_format)
    if options.until_stdin_ends:
        threading.Thread(target=_end_with_stdin, daemon=True).start()
    if options.diff and name not in FOR_PEOPLE:
        raise CommandError(f"--diff and --output-format {name} cannot be combined")
    for file in (options.evidence, options.html, options.write_tests, options.output_file):
        check_writable(file)
    check_new_folder(options.export_repro)
    started = _started(options)
    for named in (started.script, started.configuration):
        if named is not None:
            _check_script(Path(named))
    # Before any module of ours asks for them: what is written in front of a command counts for all of it.
    os.environ.update(started.variables)
    try:
        python = choose_interpreter(options.python or started.python, Path(started.script or "."))
    except NoInterpreterError as error:
        say(f"lintrain: could not judge: {error}")
        return NOT_JUDGED
    if started.script and started.script.endswith(CONFIGURED):
        started = _of_configuration(started.script, python)
    entry = _entry(started, python)
    if one := entry.one_of_many:
        raise CommandError(f"{MULTIRUN}: `{one}`")
    with as_command_errors():
        checked = start_check(
            started.configuration or str(entry.script), options.select, options.ignore, options.config
        )
    repairs = Repairs(str(entry.script), checked)
    with kept_failure(is_wanted=options.export_repro is not None) as kept:
        try:
            record = _run(options, entry, python, kept, repairs)
            with as_command_errors():
                static = checked()
        except NoRoomError as error:
            say(f"lintrain: could not judge: no disk space for the probe's files: {error}")
            return NOT_JUDGED
        record = dataclasses.replace(record, findings=tuple(one.finding for one in static.reported))
        code = _report(options, name, record, static, kept)
        if options.fix or options.diff:
            write_fixes(record, repairs, is_diff=options.diff)
        return code


def _report(options: ProbeOptions, name: str, record: Record, static: StaticFindings, kept: Path | None) -> int:
    """Judge the evidence, write the requested files, and return the exit code."""
    if options.evidence:
        write_named(options.evidence, record_json(record))
    report_crashes(static)
    judgement = judge_record(record, static)
    if not options.no_cache and (problem := keep_verdicts(record, judgement.pairs)):
        say(f"lintrain: {problem}")
    write_judgement(judgement, name, options.output_file, with_calls=options.with_calls)
    if options.html:
        write_report(judgement_page(judgement), options.html)
    if options.write_tests:
        write_tests(record, options.write_tests, module=options.module)
    if options.export_repro and kept is not None:
        write_repro(record, kept, options.export_repro)
    _show_output(options, record, judgement)
    return judgement.conclusion.exit_code


def _started(options: ProbeOptions) -> Launched:
    """The script and its launcher on the command line; raises CommandError."""
    command = [*([options.script] if options.script is not None else []), *options.arguments]
    if options.module is not None and "=" in options.module:
        script = options.script or "train.py"
        one = options.module.partition(",")[0]
        raise CommandError(f"`-m {options.module}`: {MULTIRUN}: `lintrain probe {script} -- {one}`")
    if options.module is not None:
        return Launched(None, options.module, tuple(command))
    if not command:
        raise CommandError("no script given: `lintrain probe train.py` or `lintrain probe -m package.module`")
    try:
        return read_launch(command) or Launched(command[0], None, tuple(command[1:]))
    except LaunchError as error:
        raise CommandError(str(error)) from error


def _of_configuration(path: str, python: str) -> Launched:
    """What starts the tool that a configuration is for, where it is installed; raises CommandError with what to do."""
    source = read_file(path)
    parts = source.parts if isinstance(source, Configuration) else []
    if not parts:
        raise CommandError(f"{path}: neither a script nor a training configuration that lintrain knows")
    kind = parts[0].kind
    if not kind.module:
        raise CommandError(f"{path}: {kind.title}, not a script; {_how_to_start(kind, path)}")
    try:
        file_of_module(python, kind.module[0])
    except NoEntryError as error:
        command = f"{kind.start} {path}"
        raise CommandError(
            f"{path}: {kind.title}, which `{command}` starts; {kind.package} is not installed for {python}: "
            f"`pip install {kind.package}`, then probe it again"
        ) from error
    return Launched(None, kind.module[0], (*kind.module[1:], path), configuration=path)


def _how_to_start(kind: Kind, path: str) -> str:
    if kind.start:
        return f"`{kind.start} {path}` needs the script: `lintrain probe train.py`"
    return f"probe the script that reads it: `lintrain probe train.py -- {path}`"


def _entry(started: Launched, python: str) -> Entry:
    """The file to run and check; raises CommandError."""
    try:
        script = Path(started.script) if started.script else file_of_module(python, started.module or "")
    except NoEntryError as error:
        if started.package:
            raise CommandError(
                f"{started.package} is not installed for {python}: `pip install {started.package}`, then probe it again"
            ) from error
        raise CommandError(str(error)) from error
    return Entry(script, started.arguments, started.module, started.environment, started.shortcuts)


def _run(options: ProbeOptions, entry: Entry, python: str, kept: Path | None, repairs: Repairs) -> Record:
    bounds = Bounds(options.timeout, int(options.memory * GIB) if options.memory else None)
    wanted = Wanted(
        entry=entry,
        python=python,
        bounds=bounds,
        overfit=options.overfit or 0,
        also=_extras(options),
        rows=_rows(options),
        batch=_batch(options.batch),
        device_memory=_device_memory(options),
        full_data=options.full_data,
        offline=options.offline or _has_stand_ins(options),
        stand_ins=_has_stand_ins(options),
        stand_in_data=str(options.stand_in_data.resolve()) if options.stand_in_data else "",
        is_on_cpu=_has_stand_ins(options),
        kept=kept,
        echo=sys.stderr.buffer if options.verbose else None,
        choose_repairs=repairs,
        tries_fixes=options.fix or options.diff,
        setting=setting_of(options.tried, entry) if options.tried else None,
    )
    with _interruptible(), open_checklist(quiet=options.quiet or options.verbose) as checklist:
        try:
            return probe_script(wanted, checklist.listen)
        except UnreadableError as error:
            raise CommandError(f"{entry.script}:{error.line}: {error}") from error


def _extras(options: ProbeOptions) -> tuple[str, ...]:
    """The extra measurements; --device-memory implies `memory`."""
    implied = ("memory",) if options.device_memory is not None else ()
    try:
        return read_extras((*options.also, *implied))
    except NoExtraError as error:
        raise CommandError(f"--also {error}") from error


def _batch(file: Path | None) -> str:
    """The path of a kept batch, from any folder; raises CommandError for another file."""
    if file is not None and not is_kept_batch(file):
        raise CommandError(f"{file}: not a batch that lintrain kept (`lintrain-batch-….pt`)")
    return str(file.resolve()) if file else ""


def _has_stand_ins(options: ProbeOptions) -> bool:
    return options.stand_ins or options.stand_in_data is not None


def _rows(options: ProbeOptions) -> tuple[tuple[str, int], ...]:
    try:
        return read_rows(options.rows)
    except NoRowsError as error:
        raise CommandError(f"--rows {error}") from error


def _device_memory(options: ProbeOptions) -> int | None:
    if options.device_memory is None:
        return None
    if (size := read_size(options.device_memory)) is None:
        raise CommandError(f"--device-memory {options.device_memory}: expected a size with a unit, as 24GiB or 80GB")
    return size


@contextmanager
def _interruptible() -> Generator[None]:
    """Clean up on SIGTERM and a closed terminal as on Ctrl-C."""

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
    """End this process when its standard input is closed."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _check_script(script: Path) -> None:
    if not script.exists():
        raise CommandError(f"{script}: no such file")
    if script.is_dir():
        raise CommandError(f"{script}: is a folder; name a training script")
    if not script.is_file():
        raise CommandError(f"{script}: not a regular file")


def _show_output(options: ProbeOptions, record: Record, judgement: Judgement) -> None:
    is_useful = record.ending.kind in OUTPUT_IS_USEFUL and judgement.conclusion.exit_code == NOT_JUDGED
    if is_useful and record.ending.output and not options.verbose:
        say("last lines of the script's output:")
        for line in record.ending.output.splitlines():
            say(f"  {line}")


def check_new_folder(folder: Path | None) -> None:
    """Raise CommandError before the run if a folder is not empty or cannot be created."""
    check_writable(folder)
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise CommandError(f"{folder}: is a file; name a new folder")
    if any(folder.iterdir()):
        raise CommandError(f"{folder}: is not empty; name a new folder")


@contextmanager
def kept_failure(*, is_wanted: bool) -> Generator[Path | None]:
    """A temporary folder for what a failing stage needs to fail again; None if it is not wanted."""
    if not is_wanted:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="lintrain-kept-"))
    with warden(folder):
        yield folder


def write_fixes(record: Record, repairs: Repairs, *, is_diff: bool) -> None:
    """Write the fixes that were tried and held, or show them; raises CommandError if the file cannot be written."""
    held, source = repairs.held(record.runs), repairs.source()
    text = text_with(source, held) if source is not None and held else None
    if source is None or text is None:
        say("lintrain: no fix was tried and held; nothing is changed")
        return
    original = load_bytes(source.path)
    if hashlib.sha256(original).hexdigest() != record.script_sha256:
        raise CommandError(f"{source.path}: changed since the probe began; nothing is written")
    content = file_bytes(source, text, original)
    done = count(len(held), "confirmed finding")
    if is_diff:
        style = style_of(sys.stdout)
        lines = diff(source, read_bytes(source.path, content), style)
        write_for_people("".join(f"{line}\n" for line in lines), None)
        say(f"lintrain: `--fix` would fix {done}")
        return
    write_contents({source.path: content})
    say(f"lintrain: fixed {done} in {source.path}")


def write_tests(record: Record, file: Path, *, module: str | None) -> None:
    """Write tests of the pipeline, or report why there are none: the tests run a script, not a module."""
    from lintrain.report.written_tests import NoTestsError, pipeline_tests

    if module is not None:
        say(f"lintrain: no tests written to {file}: they run a script, but this is the module `{module}`")
        return
    try:
        write_report(pipeline_tests(record, file), file)
    except NoTestsError as error:
        say(f"lintrain: no tests written to {file}: {error}")
    else:
        say(f"lintrain: wrote {file}; run it with `python -m pytest {file}`")


def write_repro(record: Record, kept: Path, folder: Path) -> None:
    """Write a reproduction of the failing stage, or report why there is none."""
    from lintrain.report.reproduction import NoReproductionError, write_reproduction

    try:
        failure = write_reproduction(record, kept, folder)
    except NoReproductionError as error:
        say(f"lintrain: no reproduction written to {folder}: {error}")
    else:
        say(f"lintrain: wrote {folder}; `python {folder / 'repro.py'}` raises the same {failure.type}")
