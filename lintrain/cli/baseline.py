"""`lintrain baseline`: record the current findings, so that only new ones are reported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command(short_help="Record the current findings, so that only new ones are reported.")
@click.option("--prune", is_flag=True, help="Remove fixed findings; record no new ones.")
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write (default: the configured one, else `lintrain-baseline.json`).",
)
@click.option("--preview/--no-preview", default=None, help="Also run preview rules.")
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file to use.")
@click.option("-q", "--quiet", is_flag=True, help="Do not print a summary.")
def command(**given: Any) -> int:  # Any: click passes the options above
    """Check the whole project and record its findings in a file; `lintrain check` hides them from then on.

    The project is the folder of the configuration, else the folder of the baseline, else the current folder. A finding
    is matched by its file, its rule and the code of its line, so code may move. Files that cannot be read or parsed are
    always reported.
    """
    from lintrain.cli._baseline import write_baseline

    return write_baseline(**given)
