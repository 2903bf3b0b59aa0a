"""What `lintrain judge` does with its options."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

from lintrain.cli._judged import Text, judge_record, read_text, stored_text
from lintrain.cli._output import Refusal, refuse_what_cannot_be_written, say, write_report
from lintrain.probe.record import EvidenceFileError, Record, read_record


@dataclass(frozen=True, slots=True)
class JudgeOptions:
    """The command line of `lintrain judge`, as click reads it."""

    evidence: Path
    as_json: bool = False
    html: Path | None = None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    config: Path | None = None


def judge(options: JudgeOptions) -> int:
    """Carry out the command and give its exit code; raises Refusal."""
    refuse_what_cannot_be_written(options.html)
    try:
        record = read_record(options.evidence)
    except EvidenceFileError as error:
        raise Refusal(str(error)) from error
    judgement = judge_record(record, _text(options, record))
    write_report(judgement.as_json() if options.as_json else judgement.as_text(sys.stdout))
    if options.html:
        write_report(judgement.as_html(), options.html)
    return judgement.conclusion.exit_code


def _text(options: JudgeOptions, record: Record) -> Text:
    script = Path(record.script)
    if script.is_file() and hashlib.sha256(script.read_bytes()).hexdigest() == record.script_sha256:
        return read_text(record.script, options.select, options.ignore, options.config)
    say(f"lintrain: {script}: is not the script that was probed any more; its findings of that time are judged")
    return stored_text(record, options.select, options.ignore, options.config)
