"""What the scripts that are nearest to a file do with the last rows of their data."""

from __future__ import annotations

from lintrain.source.project_search import any_script_in, folders_around
from lintrain.source.source import Source

LOADER = r"(?m)^[^#\n]*\bDataLoader\("
KEEPS_LAST = rf"{LOADER}(?:(?!\bdrop_last\s*=\s*True)(?:[^()]|\((?:[^()]|\([^()]*\))*\)))*\)"
"""A call that makes a loader, and one without `drop_last=True`."""

BY_OTHERS = r"(?m)^[^#\n]*(?:Trainer\(|\.fit\(|\bin\b[^:\n]*(?:loader|_dl\b|\bbatch(?!_size)))"
"""Code that gets its batches from a loader that is made elsewhere, or by a Trainer."""

TRAINS = r"\.backward\("


def may_give_one_row(source: Source) -> bool:
    """Whether a batch of the project may have a single row: the last one of a loader that keeps it.

    The nearest folder around a file whose scripts make loaders decides. Scripts that train without any choose the
    rows of a batch themselves, so that each batch has as many as the others.
    """
    if source.is_partial:
        return True
    folders = folders_around(source.path)
    for folder in folders:
        if any_script_in(folder, LOADER):
            return any_script_in(folder, KEEPS_LAST)
    return any_script_in(folders[-1], BY_OTHERS) or not any_script_in(folders[-1], TRAINS, if_unread=False)
