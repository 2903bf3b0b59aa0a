"""`lintrain rules`: everything that lintrain looks for."""

from __future__ import annotations

import sys
from dataclasses import replace

import click

UNBOUNDED = 1_000
"""Columns for what is read by a program: one line for each rule."""


@click.command(short_help="List the rules.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(*, as_json: bool) -> None:
    """List the rules by stage: their level, what finds them (text, probe), how safe their fixes are."""
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
