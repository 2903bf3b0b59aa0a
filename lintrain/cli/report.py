"""`lintrain report`: work with stored reports."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, cast

import click

from lintrain._version import __version__
from lintrain.cli._output import CommandError, say, write_document, write_for_people
from lintrain.report.machine.compact import expanded
from lintrain.report.machine.document import FORMAT, CheckReport, whys_of, without_suppressed
from lintrain.report.machine.merging import join, open_sources, reopened
from lintrain.report.machine.wording import unjudged_files
from lintrain.report.text.findings import people_blocks
from lintrain.report.text.frame import summary
from lintrain.report.text.style import Style, style_of
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import LARGEST_EVIDENCE
from lintrain.settings.loading import load_settings
from lintrain.settings.settings import FOR_PEOPLE, FORMATS, WITH_SUPPRESSED, UsageError
from lintrain.source.reading import read_plain
from lintrain.startup.lazy_dataclass import dataclass

CLEAN, FOUND, FAILED = 0, 1, 2

NOT_A_REPORT = "not a lintrain report; `lintrain check --output-format json` writes one"


@dataclass(frozen=True, slots=True)
class MergeOptions:
    """The command line of `lintrain report merge`."""

    files: tuple[Path, ...]
    output_format: str | None = None
    output_file: Path | None = None
    hide_suppressed: bool = False
    exit_zero: bool = False
    quiet: bool = False


def merge_reports(options: MergeOptions) -> int:
    """Run the command and return its exit code; raises CommandError."""
    if options.hide_suppressed and options.output_format not in (None, *WITH_SUPPRESSED):
        raise CommandError("--hide-suppressed needs --output-format json or sarif")
    joined = join([read_report(file) for file in options.files])
    report = without_suppressed(joined.report) if options.hide_suppressed else joined.report
    name = options.output_format or ("full" if sys.stdout.isatty() and not options.output_file else "concise")
    if name in FOR_PEOPLE:
        write_for_people(_people_text(name, report, options), options.output_file)
    else:
        write_document(_program_text(name, report), options.output_file)
    for _, line in unjudged_files(report):
        say(f"lintrain: {line}")
    for note in joined.notes:
        say(f"lintrain: {note}")
    if report.crashes:
        return FAILED
    failed = report.problems or any(probe.exit_code == FOUND for probe in report.probes)
    return FOUND if failed and not options.exit_zero else CLEAN


def _people_text(name: str, report: CheckReport, options: MergeOptions) -> str:
    style = Style() if options.output_file else style_of(sys.stdout)
    sources = open_sources(report)
    reported = reopened(report.findings, sources)
    blocks, between = people_blocks(name, reported, sources.get, style)
    closing = [summary(reported, report.summary.files), *(f"{one.script}: {one.reason}" for one in report.probes)]
    paragraphs = [*blocks, *([] if options.quiet else ["\n".join(closing)])]
    return f"{between.join(paragraphs)}\n" if paragraphs else ""


def _program_text(name: str, report: CheckReport) -> str:
    sources = open_sources(report)
    if name == "html":
        from lintrain.report.page.findings import checked_page

        reported = reopened(report.findings, sources)
        closing = summary(reported, report.summary.files)
        unjudged = [line for _, line in unjudged_files(report)]
        return checked_page(reported, sources.get, closing, report.probes, unjudged)
    from lintrain.report.machine.choice import program_text

    try:
        documentation = load_settings(report.sources or (".",)).documentation
    except UsageError as error:
        raise CommandError(str(error)) from error
    return program_text(name, report, sources.get, load_rules(), documentation)


def read_report(file: Path) -> CheckReport:
    """The report in a file: of a check, of a probe, or of evidence that is judged again; raises CommandError."""
    try:
        found: Any = json.loads(read_plain(file, LARGEST_EVIDENCE))  # Any: whatever JSON holds
    except OSError as error:
        raise CommandError(f"{file}: {(error.strerror or str(error)).lower()}") from error
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{file}: not a lintrain report: not valid JSON ({error})") from error
    keys = cast("dict[str, object]", found) if isinstance(found, dict) else {}
    if "schema" in keys:
        from lintrain.cli._judge import judge_file
        from lintrain.report.text.judgement import check_report

        return check_report(judge_file(file))
    if "probe" in keys:
        return _validated(file, _as_check(keys))
    if "summary" in keys:
        return _validated(file, keys)
    raise CommandError(f"{file}: {NOT_A_REPORT}")


def _as_check(probe: dict[str, Any]) -> dict[str, Any]:
    """The report of a probe with the keys of a check's report."""
    findings, record = probe.get("findings", []), probe["probe"]
    script = cast("dict[str, object]", record).get("script") if isinstance(record, dict) else None
    entry = {"script": script, "exit_code": probe.get("exit_code"), "reason": probe.get("reason")}
    counts: dict[str, object] = {"files": 1, "findings": len(findings), "levels": {}, "rules": {}}
    shared = {name: probe.get(name) for name in ("format", "lintrain", "findings", "sources")}
    return {**shared, "crashes": [], "summary": counts, "probes": [entry]}


def _validated(file: Path, document: dict[str, Any]) -> CheckReport:
    from pydantic import TypeAdapter, ValidationError

    written = document.get("format")
    if not isinstance(written, int):
        raise CommandError(f"{file}: {NOT_A_REPORT}")
    if written != FORMAT:
        raise CommandError(
            f"{file}: report format {written}, but lintrain {__version__} reads format {FORMAT}; "
            "write the report again with this version"
        )
    try:
        whole = expanded(document, whys_of(load_rules()))
    except (LookupError, TypeError, AttributeError) as error:
        raise CommandError(f"{file}: {NOT_A_REPORT}") from error
    try:
        return TypeAdapter(CheckReport).validate_python(whole)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CommandError(f"{file}: `{where}`: {first['msg'].lower()}") from error


EXIT_CODES = """\b
Exit codes:
  0  no findings, except refuted ones
  1  findings, or a stage of training failed in a probe
  2  wrong usage, a file is not a report, or a rule crashed"""


@click.group(name="report", short_help="Merge reports.")
def command() -> None:
    """Work with stored reports."""


@command.command(epilog=EXIT_CODES, short_help="Merge reports of checks and probes into one.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option(
    "--output-format", type=click.Choice(FORMATS), help="Report format (default: full on a terminal, else concise)."
)
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report to this file.")
@click.option("--hide-suppressed", is_flag=True, help="Leave suppressed findings out of json and sarif reports.")
@click.option("--exit-zero", is_flag=True, help="Exit with 0 even if there are findings.")
@click.option("-q", "--quiet", is_flag=True, help="Show findings only, without a summary.")
def merge(**given: Any) -> int:  # Any: click passes the options above, MergeOptions types them
    """Merge FILES into one report, with each finding once and the verdicts of probes.

    FILES are written by `lintrain check --output-format json`, `lintrain probe --output-format json` and `lintrain
    probe --evidence`, in any number and order.
    """
    return merge_reports(MergeOptions(**given))
