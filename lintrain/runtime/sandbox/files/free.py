"""Which places a script may write to under a probe: what is temporary, devices, and what the libraries download."""

from __future__ import annotations

import os
from collections.abc import Iterable

DEVICES = ("/dev", "/proc", "/sys")
LOCAL_BUILDERS = frozenset(
    {"arrow", "audiofolder", "csv", "generator", "imagefolder", "json", "pandas", "parquet", "spark", "sql", "text"}
)
"""Folders in the cache of `datasets` that hold data made from the user's own files, not from the hub's."""


class Free:
    """Places that the guard leaves alone: the temporary folder, devices, and the given folders of downloads."""

    def __init__(self, temporary: str, downloads: Iterable[str]) -> None:
        self.folders = tuple(dict.fromkeys((*_both(temporary), *(one for path in downloads for one in _both(path)))))
        self._datasets = tuple(one + os.sep for one in self.folders if os.path.basename(one) == "datasets")
        self._prefixes = tuple(folder + os.sep for folder in (*self.folders, *DEVICES))
        self._names = frozenset((*self.folders, *DEVICES))
        self._layer = os.path.join(os.path.realpath(temporary), "layer") + os.sep

    def has(self, key: str) -> bool:
        """Whether the guard leaves this path alone."""
        if not key.startswith(self._prefixes):
            return key in self._names
        # The cache of `datasets` is free for downloads, which a second run needs, but not for what is computed from
        # the user's own files: a shortened `map` must not be found there by the user's next real run.
        return not any(key.startswith(folder) and _is_made_here(key[len(folder) :]) for folder in self._datasets)


def _both(path: str) -> tuple[str, str]:
    absolute = os.path.abspath(os.path.expanduser(path))
    return absolute, os.path.realpath(absolute)


def _is_made_here(inside: str) -> bool:
    """Results of `map`, and data made from local files, in the cache of `datasets`."""
    first, name = inside.partition(os.sep)[0], os.path.basename(inside)
    is_lock = first.endswith(".lock") and any(f"_{builder}_" in first for builder in LOCAL_BUILDERS)
    return is_lock or first in LOCAL_BUILDERS or name.startswith(("cache-", "tmp"))
