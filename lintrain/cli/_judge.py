"""The run of `lintrain judge`, and what `lintrain probe` shares with it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lintrain.check.result import Crash, Unjudged
from lintrain.cli._output import (
    CommandError,
    check_writable,
    say,
    write_document,
    write_for_people,
    write_report,
)
from lintrain.report.text.judgement import judgement_in_format, judgement_page
from lintrain.report.text.style import Style, style_of
from lintrain.rulebook import RuleFileError
from lintrain.runtime.parent.record import EvidenceFileError, Record, read_record
from lintrain.runtime.parent.trials import NoTrialError
from lintrain.settings.settings import FOR_PEOPLE, UsageError
from lintrain.source.discovery import MissingPathError
from lintrain.source.reading import LARGEST_FILE, read_plain
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.verdicts.judgement import Judgement, judge_record
from lintrain.verdicts.static_findings import StaticFindings, check_script, recorded_findings


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The command line of `lintrain judge`."""

    evidence: Path
    as_json: bool = False
    output_format: str | None = None
    output_file: Path | None = None
    html: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: Path | None = None


def judge(options: JudgeOptions) -> int:
    """Run the command and return its exit code; raises CommandError."""
    name = format_of(as_json=options.as_json, output_format=options.output_format)
    for file in (options.html, options.output_file):
        check_writable(file)
    judgement = judge_file(options.evidence, options)
    write_judgement(judgement, name, options.output_file)
    if options.html:
        write_report(judgement_page(judgement), options.html)
    return judgement.conclusion.exit_code


def judge_file(evidence: Path, options: JudgeOptions | None = None) -> Judgement:
    """The verdicts of the current rules on the evidence in a file; raises CommandError."""
    try:
        record = read_record(evidence)
    except EvidenceFileError as error:
        raise CommandError(str(error)) from error
    with as_command_errors():
        static = _static_findings(options or JudgeOptions(evidence), record)
    report_crashes(static)
    return judge_record(record, static)


def _static_findings(options: JudgeOptions, record: Record) -> StaticFindings:
    script = Path(record.script)
    if script.is_file() and hashlib.sha256(read_plain(script, LARGEST_FILE)).hexdigest() == record.script_sha256:
        return check_script(record.script, options.select, options.ignore, options.config)
    say(f"lintrain: {script}: changed since the probe; the findings recorded in the evidence are judged")
    return recorded_findings(record, options.select, options.ignore, options.config)


@contextmanager
def as_command_errors() -> Generator[None]:
    """Turn errors of the static check, and of settings to try, into CommandError."""
    try:
        yield
    except (UsageError, MissingPathError, RuleFileError, NoTrialError) as error:
        raise CommandError(str(error)) from error


def report_crashes(static: StaticFindings) -> None:
    """Write to stderr which rules crashed on the script, and which did not check it."""
    for crash in Crash.grouped(static.crashes):
        say(f"lintrain: {crash}")
    for _, line in Unjudged.grouped(static.unjudged):
        say(f"lintrain: {line}")


def format_of(*, as_json: bool, output_format: str | None) -> str:
    """The report format, `full` by default; raises CommandError if two are requested."""
    if as_json and output_format not in (None, "json"):
        raise CommandError(f"--json and --output-format {output_format} cannot be combined")
    return "json" if as_json else output_format or "full"


def write_judgement(judgement: Judgement, name: str, file: Path | None, *, with_calls: bool = False) -> None:
    """Write the report to a file or to standard output; raises CommandError if it cannot be written."""
    text = judgement_in_format(
        judgement, name, style_of(sys.stdout) if file is None else Style(), with_calls=with_calls
    )
    write = write_for_people if name in FOR_PEOPLE else write_document
    write(text, file)
