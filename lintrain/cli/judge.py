"""`lintrain judge`: read evidence again and judge it with today's rules."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from lintrain.settings.settings import FORMATS


@click.command()
@click.argument("evidence", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The whole result as JSON.")
@click.option("--output-format", type=click.Choice(FORMATS), help="The report in another form (default: full).")
@click.option("--output-file", type=click.Path(path_type=Path, dir_okay=False), help="Write the report there.")
@click.option("--html", type=click.Path(path_type=Path, dir_okay=False), help="Write the report there as one page.")
@click.option("--select", multiple=True, metavar="NAMES", help="Only these rules or stages.")
@click.option("--ignore", multiple=True, metavar="NAMES", help="Not these rules or stages.")
@click.option("--config", type=click.Path(path_type=Path), help="Read this configuration file.")
def command(**given: Any) -> int:  # Any: click hands over what the options above declare, JudgeOptions types it
    """Judge EVIDENCE, a file that `lintrain probe SCRIPT --evidence FILE` wrote; exit codes as of `lintrain probe`.

    The script's text is read again if it is still the one that was probed; else its findings of that time count.
    """
    from lintrain.cli._judge import JudgeOptions, judge

    return judge(JudgeOptions(**given))


if __name__ == "__main__":
    sys.exit(command(standalone_mode=False))
