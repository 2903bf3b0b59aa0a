"""What `lintrain clean` does."""

from __future__ import annotations

import os
from pathlib import Path

from lintrain.cache.folder import FOLDER_VARIABLE, cache_folder
from lintrain.cache.removal import remove_all, remove_old
from lintrain.cli._output import Refusal, say
from lintrain.report.text.summary import count


def clean(named: Path | None) -> None:
    """Remove what is kept below a folder, else below the usual one; raises Refusal where it cannot be removed."""
    folder = os.fspath(named) if named else cache_folder()
    is_usual = named is None and not os.environ.get(FOLDER_VARIABLE)
    try:
        removed = remove_all(folder)
        files = removed.files + (remove_old(folder).files if is_usual else 0)
    except OSError as error:
        raise Refusal(f"{error.filename or folder}: {(error.strerror or str(error)).lower()}") from error
    say(f"lintrain: removed {count(files, 'file')} from {folder}")
    if removed.left:
        say(f"lintrain: left {count(len(removed.left), 'file')} there that lintrain did not write")
