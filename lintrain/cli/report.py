"""`lintrain report`: what can be done with reports that were kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from lintrain.settings.settings import FORMATS

EXIT_CODES = """\b
Exit codes:
  0  no finding is left; those that a probe refuted do not count
  1  findings are left, or a stage of training failed in a probe
  2  a file is no report, or a rule failed"""


@click.group(name="report", short_help="Join reports.")
def command() -> None:
    """Work with reports that were written to files."""


@command.command(epilog=EXIT_CODES, short_help="Join a check's findings and probes to one report.")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--output-format", type=click.Choice(FORMATS), help="full on a terminal, concise elsewhere.")
@click.option("--output-file", type=click.Path(dir_okay=False, path_type=Path), help="Write the report there.")
@click.option("--hide-suppressed", is_flag=True, help="Leave out of json and sarif what a comment silences.")
@click.option("--exit-zero", is_flag=True, help="Leave with 0 even when findings are left.")
@click.option("-q", "--quiet", is_flag=True, help="Findings only, no summary.")
def merge(**given: Any) -> int:  # Any: click hands over what the options above declare, MergeOptions types it
    """Join FILES to one report: each finding once, with what a probe measured of it.

    FILES are those of `lintrain check --output-format json`, `lintrain probe --output-format json` and `lintrain probe
    --evidence`, in any number and order.
    """
    from lintrain.cli._merge import MergeOptions, merge

    return merge(MergeOptions(**given))
