"""What a probe writes besides its report: evidence, a page, tests, a reproduction."""

from __future__ import annotations

import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lintrain.cli._output import CommandError, check_writable, say, write_named, write_report
from lintrain.report.text.judgement import judgement_page
from lintrain.runtime.parent.record import Record, record_json
from lintrain.runtime.parent.warden import warden
from lintrain.verdicts.judgement import Judgement


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


def write_evidence(record: Record, file: Path) -> None:
    """Write the evidence; raises CommandError if the file cannot be written."""
    write_named(file, record_json(record))


def write_page(judgement: Judgement, file: Path) -> None:
    """Write the report as an HTML page."""
    write_report(judgement_page(judgement), file)


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
