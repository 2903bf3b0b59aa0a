"""What `lintrain clean` does."""

from __future__ import annotations

import shutil
from pathlib import Path

from lintrain.cli._output import Refusal, say
from lintrain.report.summary import count

KEPT = ("answers", "files", "verdicts", "pages")
"""The folders that lintrain makes in its own; nothing else in it is ours to remove."""


def clean(folder: Path) -> None:
    """Remove what is kept in a folder; raises Refusal where it cannot be removed."""
    kept = [folder / name for name in KEPT if (folder / name).is_dir()]
    files = sum(1 for each in kept for file in each.rglob("*") if file.is_file())
    for each in kept:
        try:
            shutil.rmtree(each)
        except OSError as error:
            raise Refusal(f"{error.filename}: {(error.strerror or str(error)).lower()}") from error
    say(f"lintrain: removed {count(files, 'file')} from {folder}")
