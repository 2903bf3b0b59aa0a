"""`lintrain doctor`: what happened in a run, read from what it left."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

FORMATS = ("text", "json", "html")


@click.command(short_help="Say what happened in a run, from its logs.")
@click.argument("run", type=click.Path(path_type=Path), metavar="RUN")
@click.option(
    "--script", type=click.Path(exists=True, dir_okay=False), help="The script, whose findings are shown too."
)
@click.option("--output-format", type=click.Choice(FORMATS), default="text", help="Format of the report.")
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report into this file.")
def command(run: Path, script: str | None, output_format: str, output_file: Path | None) -> None:
    """Say what happened in RUN: a folder or file that a training run left.

    Read are `trainer_state.json` and checkpoints of transformers, `metrics.csv` of Lightning, event files of
    TensorBoard, offline folders of W&B, notebooks with their outputs, and plain logs; `-` is a log on stdin. Ends
    with 1 if something went wrong, with 0 if nothing stands out.
    """
    from lintrain.cli._output import CommandError, write_document, write_for_people
    from lintrain.doctor.curves import judge_curves
    from lintrain.doctor.logs import read_log
    from lintrain.doctor.reading import NoRunError, read_run
    from lintrain.doctor.report import as_plain, page, text_report
    from lintrain.model.level import Level
    from lintrain.report.text.style import style_of

    try:
        record = read_log(sys.stdin.read()) if str(run) == "-" else read_run(run)
    except NoRunError as error:
        raise CommandError(str(error)) from error
    judgements = judge_curves(record)
    if output_format == "json":
        write_document(json.dumps(as_plain(record, judgements), indent=2) + "\n", output_file)
    elif output_format == "html":
        write_document(page(record, judgements), output_file)
    else:
        write_for_people(
            "".join(f"{line}\n" for line in text_report(record, judgements, style_of(sys.stdout))), output_file
        )
        _show_findings(script or record.script)
    if any(judgement.level is not Level.NOTE for judgement in judgements):
        raise click.exceptions.Exit(1)


def _show_findings(script: str | None) -> None:
    """The findings of the script, below the report."""
    if script is None:
        return
    from lintrain.cli._check import check
    from lintrain.cli._options import CheckOptions
    from lintrain.cli._output import write_report

    write_report(f"\nlintrain check {script}:\n")
    check(CheckOptions(paths=(script,)))
