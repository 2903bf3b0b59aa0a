"""What `lintrain judge` does with its options."""

from __future__ import annotations

import hashlib
from pathlib import Path

from lintrain.cli._judged import form_of, refusing, report_crashes, write_judgement
from lintrain.cli._output import Refusal, refuse_what_cannot_be_written, say, write_report
from lintrain.report.text.judgement import judgement_page
from lintrain.runtime.parent.record import EvidenceFileError, Record, read_record
from lintrain.source.plain_files import read_plain
from lintrain.source.reading import LARGEST_FILE
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.verdicts.judgement import Judgement, judge_record
from lintrain.verdicts.static_findings import StaticFindings, check_script, recorded_findings


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The command line of `lintrain judge`, as click reads it."""

    evidence: Path
    as_json: bool = False
    output_format: str | None = None
    output_file: Path | None = None
    html: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: Path | None = None


def judge(options: JudgeOptions) -> int:
    """Carry out the command and give its exit code; raises Refusal."""
    name = form_of(as_json=options.as_json, output_format=options.output_format)
    for file in (options.html, options.output_file):
        refuse_what_cannot_be_written(file)
    judgement = judge_file(options.evidence, options)
    write_judgement(judgement, name, options.output_file)
    if options.html:
        write_report(judgement_page(judgement), options.html)
    return judgement.conclusion.exit_code


def judge_file(evidence: Path, options: JudgeOptions | None = None) -> Judgement:
    """What today's rules say of the evidence in a file; raises Refusal."""
    try:
        record = read_record(evidence)
    except EvidenceFileError as error:
        raise Refusal(str(error)) from error
    with refusing():
        static = _static_findings(options or JudgeOptions(evidence), record)
    report_crashes(static)
    return judge_record(record, static)


def _static_findings(options: JudgeOptions, record: Record) -> StaticFindings:
    script = Path(record.script)
    if script.is_file() and hashlib.sha256(read_plain(script, LARGEST_FILE)).hexdigest() == record.script_sha256:
        return check_script(record.script, options.select, options.ignore, options.config)
    say(f"lintrain: {script}: is not the script that was probed any more; its findings of that time are judged")
    return recorded_findings(record, options.select, options.ignore, options.config)
