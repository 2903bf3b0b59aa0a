"""What a probe writes beside its report: its evidence, a page, tests, a reproduction."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lintrain.cli._output import Refusal, refuse_what_cannot_be_written, say, write_named, write_report
from lintrain.report.text.judgement import judgement_page
from lintrain.runtime.parent.record import Record, record_json
from lintrain.runtime.parent.warden import warden
from lintrain.verdicts.judgement import Judgement


def refuse_folder(folder: Path | None) -> None:
    """Say before the run that a new folder cannot be made there, or that there is something in it; raises Refusal."""
    refuse_what_cannot_be_written(folder)
    if folder is None or not folder.exists():
        return
    if not folder.is_dir():
        raise Refusal(f"{folder}: is a file; name a new folder")
    if any(folder.iterdir()):
        raise Refusal(f"{folder}: holds files already; name a new folder")


@contextmanager
def kept_failure(*, is_wanted: bool) -> Generator[Path | None]:
    """A folder for what a failing stage needs to fail again, which goes away; None where nobody asked for it."""
    if not is_wanted:
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="lintrain-kept-"))
    with warden(folder):
        yield folder


def write_evidence(record: Record, file: Path) -> None:
    """Write what was measured; raises Refusal where the file cannot be written."""
    write_named(file, record_json(record))


def write_page(judgement: Judgement, file: Path) -> None:
    """Write the report as a page."""
    write_report(judgement_page(judgement), file)


def write_tests(record: Record, file: Path, *, module: str | None) -> None:
    """Write tests of the pipeline, or say why there are none: they start a script, not a module."""
    from lintrain.report.written_tests import NoTestsError, pipeline_tests

    if module is not None:
        say(f"lintrain: {file} is not written: tests run a script, and this was started with `-m {module}`")
        return
    try:
        write_report(pipeline_tests(record, file), file)
    except NoTestsError as error:
        say(f"lintrain: {file} is not written: {error}")
    else:
        say(f"lintrain: {file} is written; `python -m pytest {file}` runs it")


def write_repro(record: Record, kept: Path, folder: Path) -> None:
    """Write a reproduction of the failing stage, or say why there is none."""
    from lintrain.report.reproduction import NoReproductionError, write_reproduction

    try:
        failure = write_reproduction(record, kept, folder)
    except NoReproductionError as error:
        say(f"lintrain: {folder} is not written: {error}")
    else:
        say(f"lintrain: {folder} is written; `python {folder / 'repro.py'}` ends with the same {failure.type}")
