"""`lintrain schema`: the JSON schema of reports."""

from __future__ import annotations

import click


@click.command(short_help="Print the JSON schema of reports.")
def command() -> None:
    """Print the JSON schema of `lintrain check --output-format json`."""
    import json

    from lintrain.cli._output import write_report
    from lintrain.report.machine.document import check_report_schema

    write_report(json.dumps(check_report_schema(), indent=2) + "\n")
