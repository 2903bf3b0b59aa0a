"""What the scripts that are nearest to a file do with the last rows of their data."""

from __future__ import annotations

from lintrain.source.project_search import any_script_in, folders_around

LOADER = r"(?m)^[^#\n]*\bDataLoader\("
KEEPS_LAST = rf"{LOADER}(?:(?!\bdrop_last\s*=\s*True)(?:[^()]|\((?:[^()]|\([^()]*\))*\)))*\)"
"""A call that makes a loader, and one without `drop_last=True`."""


def drop_last_batch(path: str) -> bool:
    """Whether all loaders drop a smaller last batch, in the nearest folder around a file whose scripts make any."""
    for folder in folders_around(path):
        if any_script_in(folder, LOADER):
            return not any_script_in(folder, KEEPS_LAST)
    return False
