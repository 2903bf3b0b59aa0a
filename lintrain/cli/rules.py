"""`lintrain rules`: the list of all rules."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

UNBOUNDED = 1_000
"""Columns if the output is not a terminal: one line per rule."""


@click.command(short_help="List the rules.")
@click.option("--json", "as_json", is_flag=True, help="Print the rules as JSON.")
def command(*, as_json: bool) -> None:
    """List the rules by stage, with their level, what finds them (text, probe) and the safety of their fix."""
    import json

    from lintrain.cli._output import write_report
    from lintrain.report.text.pages import as_plain, pages, table
    from lintrain.report.text.style import style_of
    from lintrain.rulebook import load_rules

    listed = pages(load_rules())
    if as_json:
        write_report(json.dumps([as_plain(page) for page in listed], indent=2) + "\n")
    else:
        style = style_of(sys.stdout)
        if not sys.stdout.isatty():
            style = replace(style, width=UNBOUNDED)
        write_report("\n".join(table(listed, style)) + "\n")
