"""The files that `--changed-since` leaves of those that would be read."""

from __future__ import annotations

import os
from collections.abc import Sequence

from lintrain.cli._options import CheckOptions
from lintrain.settings.loading import common_folder
from lintrain.settings.settings import UsageError
from lintrain.source.changed import changed_files
from lintrain.source.git import GitError
from lintrain.source.importers import Importers


def only_changed(options: CheckOptions, revision: str, files: Sequence[str]) -> list[str]:
    """The files that changed, and those that import changed ones; raises UsageError."""
    try:
        changed = changed_files(common_folder(options.named), revision)
    except GitError as error:
        raise UsageError(f"--changed-since {revision}: {error}") from error
    if not changed:
        return []
    real = {file: os.path.realpath(file) for file in files}
    reached = Importers().reaching(real.values(), changed)
    return [file for file in files if real[file] in reached]
