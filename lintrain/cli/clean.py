"""`lintrain clean`: drop what lintrain keeps."""

from __future__ import annotations

from pathlib import Path

import click


@click.command(short_help="Drop the answers and verdicts that lintrain keeps.")
@click.option("--cache-dir", type=click.Path(path_type=Path), help="Drop those of this folder.")
def command(cache_dir: Path | None) -> None:
    """Drop what `check` answered and `probe` measured before: of all projects, from your own cache folder."""
    from lintrain.cli._clean import clean

    clean(cache_dir)
