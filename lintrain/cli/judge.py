"""`lintrain judge`: judge the evidence of a probe again."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from lintrain.settings.settings import FORMATS


@click.command(short_help="Judge the evidence of a probe again.")
@click.argument("evidence", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Same as --output-format json.")
@click.option("--output-format", type=click.Choice(FORMATS), help="Report format (default: full).")
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report to this file.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Also write the report as an HTML page.")
@click.option("--select", multiple=True, metavar="NAMES", help="Rules or stages to judge.")
@click.option("--ignore", multiple=True, metavar="NAMES", help="Rules or stages to skip.")
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file to use.")
def command(**given: Any) -> int:  # Any: click passes the options above, JudgeOptions types them
    """Judge EVIDENCE, a file written by `lintrain probe SCRIPT --evidence FILE`, with the current rules.

    The script is checked again if it is unchanged; otherwise the recorded findings are used. The exit codes are those
    of `lintrain probe`.
    """
    from lintrain.cli._judge import JudgeOptions, judge

    return judge(JudgeOptions(**given))


if __name__ == "__main__":
    sys.exit(command(standalone_mode=False))
