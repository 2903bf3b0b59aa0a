"""`lintrain schema`: the JSON schemas of reports and of the configuration."""

from __future__ import annotations

import click


@click.command(short_help="Print the JSON schema of reports, or of the configuration.")
@click.argument("of", metavar="[report|settings]", type=click.Choice(("report", "settings")), default="report")
def command(of: str) -> None:
    """Print a JSON schema: of `lintrain check --output-format json`, or of a `lintrain.toml`.

    The table `[tool.lintrain]` of a pyproject.toml has the same schema as a `lintrain.toml`.
    """
    import json

    from lintrain.cli._output import write_report
    from lintrain.report.machine.document import check_report_schema
    from lintrain.settings.table import settings_schema

    schema = settings_schema() if of == "settings" else check_report_schema()
    write_report(json.dumps(schema, indent=2) + "\n")
