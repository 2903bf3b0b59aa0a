"""What `probe` and `judge` share: reading the static findings, and writing the report."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from lintrain.check.result import Crash, Unjudged
from lintrain.cli._output import Refusal, say, write_document, write_for_people
from lintrain.report.text.judgement import judgement_in_form
from lintrain.report.text.style import Style, style_of
from lintrain.rulebook import RuleFileError
from lintrain.settings.settings import FOR_PEOPLE, UsageError
from lintrain.source.discovery import MissingPathError
from lintrain.verdicts.judgement import Judgement
from lintrain.verdicts.static_findings import StaticFindings


@contextmanager
def refusing() -> Generator[None]:
    """Raise Refusal for what the user asked for and the static half cannot do."""
    try:
        yield
    except (UsageError, MissingPathError, RuleFileError) as error:
        raise Refusal(str(error)) from error


def report_crashes(static: StaticFindings) -> None:
    """Write to stderr which rules failed on the script, and which did not judge its text."""
    for fault in Crash.told_together(static.crashes):
        say(f"lintrain: {fault}")
    for _, line in Unjudged.told_together(static.unjudged):
        say(f"lintrain: {line}")


def form_of(*, as_json: bool, output_format: str | None) -> str:
    """The form of the report: the full one unless another is asked for; raises Refusal for two of them."""
    if as_json and output_format not in (None, "json"):
        raise Refusal(f"--json and --output-format {output_format} are two forms of the report; name one of them")
    return "json" if as_json else output_format or "full"


def write_judgement(judgement: Judgement, name: str, file: Path | None) -> None:
    """Write the report in a form to a file or to standard output; raises Refusal where it cannot be written."""
    text = judgement_in_form(judgement, name, style_of(sys.stdout) if file is None else Style())
    write = write_for_people if name in FOR_PEOPLE else write_document
    write(text, file)
