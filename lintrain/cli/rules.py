"""`lintrain rules`: everything that lintrain looks for."""

from __future__ import annotations

import sys

import click


@click.command(short_help="List the rules.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def command(*, as_json: bool) -> None:
    """List the rules by stage: their level, what finds them (text, probe), whether `--fix` can mend them."""
    import json

    from lintrain.cli._output import write_report
    from lintrain.report.look import look_of
    from lintrain.report.pages import as_plain, pages, table
    from lintrain.rulebook import load_rules

    listed = pages(load_rules())
    if as_json:
        write_report(json.dumps([as_plain(page) for page in listed], indent=2) + "\n")
    else:
        write_report("\n".join(table(listed, look_of(sys.stdout))) + "\n")
