"""`lintrain clean`: delete the cache."""

from __future__ import annotations

import os
from pathlib import Path

import click

from lintrain.cache.folder import FOLDER_VARIABLE, cache_folder
from lintrain.cache.removal import remove_all, remove_old
from lintrain.cli._output import CommandError, say
from lintrain.report.text.frame import count


def clean(named: Path | None) -> None:
    """Delete the cache in a folder, by default the usual one; raises CommandError if that fails."""
    folder = os.fspath(named) if named else cache_folder()
    is_default = named is None and not os.environ.get(FOLDER_VARIABLE)
    try:
        removed = remove_all(folder)
        files = removed.files + (remove_old(folder).files if is_default else 0)
    except OSError as error:
        raise CommandError(f"{error.filename or folder}: {(error.strerror or str(error)).lower()}") from error
    say(f"lintrain: removed {count(files, 'file')} from {folder}")
    if removed.left:
        say(f"lintrain: kept {count(len(removed.left), 'file')} that lintrain did not write")


@click.command(short_help="Delete the cache.")
@click.option("--cache-dir", type=click.Path(path_type=Path), help="Cache folder to delete (default: your own).")
def command(cache_dir: Path | None) -> None:
    """Delete the cached results of `check` and the verdicts of `probe`, of all projects."""
    clean(cache_dir)
