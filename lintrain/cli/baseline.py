"""`lintrain baseline`: put today's findings off, so that only new ones are heard."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


@click.command(short_help="Put today's findings off, so that only new ones are heard.")
@click.option("--prune", is_flag=True, help="Only take out what is mended; put off nothing new.")
@click.option(
    "--baseline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write (default: the configured one, else `lintrain-baseline.json`).",
)
@click.option("--preview/--no-preview", default=None, help="Rules in preview, too.")
@click.option("--config", type=click.Path(path_type=Path), help="Read this configuration file.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing of what was done.")
def command(**given: Any) -> int:  # Any: click hands over what the options above declare
    """Check the whole project and write its findings into a file; `lintrain check` hides these from then on.

    The project is the folder of the configuration, else the one that the file lies in, else this one. A finding is
    known again by its file, its rule and the code of its line, so code may move. Errors that keep a file from being
    read are never put off.
    """
    from lintrain.cli._baseline import write_baseline

    return write_baseline(**given)
