"""Removing the cache: only files with our names and first bytes, in open folders.

A folder is opened once, without following a link, and everything after that happens in the open folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from lintrain.cache.folder import OWN
from lintrain.cache.open_folder import Folder
from lintrain.cache.whole_files import HEADS, IGNORED, MOST_BYTES, TAG, TAGGED

OLDEST = 30 * 24 * 3600
"""Seconds after which a file that was not written again is removed."""

HALF_WRITTEN = 3600
"""Seconds after which a temporary file that was never renamed is removed."""

ENDINGS = {"answers": "", "files": "", "verdicts": ".json", "pages": ".md"}
"""How the names of the files in each folder end."""

STORES = {store: (ending, HEADS[store]) for store, ending in ENDINGS.items()}
OLD_STORES = {**STORES, "verdicts": (".json", b'{"schema": 1, "lintrain": "')}
"""The folders of earlier versions, directly in the user's cache folder, and how their files begin."""

DIGITS = "0123456789abcdef"


class Removed(NamedTuple):
    """How many files were removed, and what was left because it is not ours."""

    files: int
    left: tuple[str, ...]


def prune(store: str, most: int) -> None:
    """Remove old files, files beyond the limit, and partial files of runs that were killed."""
    kind = os.path.basename(store)
    with Folder(os.path.dirname(store)) as own, Folder(kind, own) as folder:
        if not (own.is_private() and folder.is_private()):
            return
        for name in _spare(folder, *STORES[kind], most):
            folder.remove(name)


def _spare(folder: Folder, ending: str, head: bytes, most: int) -> Iterator[str]:
    """The files of ours to remove."""
    states = ((folder.state(name), name) for name in folder.names() if is_name_of_ours(name, ending))
    files = sorted(((state.st_mtime, state.st_size, name) for state, name in states), reverse=True)
    now, held = time.time(), 0
    for at, (changed, size, name) in enumerate(files):
        held += size
        is_half_written = name.endswith(".new") and changed < now - HALF_WRITTEN
        is_spare = at >= most or held > MOST_BYTES or changed < now - OLDEST or is_half_written
        if is_spare and begins_as_ours(folder, name, head):
            yield name


def remove_all(named: str) -> Removed:
    """Remove the whole cache below a chosen folder; raises OSError if something cannot be removed."""
    try:
        own = Folder(os.path.join(named, OWN))
    except (FileNotFoundError, NotADirectoryError):
        return Removed(0, ())
    with own:
        if not own.is_private() or _content(own, TAG, len(TAGGED) + 1) != TAGGED:
            return Removed(0, (OWN,))
        removed = _remove_stores(own, STORES)
        name, content = IGNORED
        if {*own.names()} <= {TAG, name} and _content(own, name, len(content) + 1) in (content, b""):
            own.remove(name)
            own.remove(TAG)
    if not removed.left:
        with Folder(named) as around:
            around.remove_folder(OWN)
    return removed


def remove_old(named: str) -> Removed:
    """Remove what earlier versions wrote directly into the user's cache folder."""
    try:
        folder = Folder(named)
    except OSError:
        return Removed(0, ())
    with folder:
        return _remove_stores(folder, OLD_STORES) if folder.is_private() else Removed(0, ())


def _remove_stores(own: Folder, stores: Mapping[str, tuple[str, bytes]]) -> Removed:
    files, left = 0, list[str]()
    for store, (ending, head) in stores.items():
        try:
            opened = Folder(store, own)
        except FileNotFoundError:
            continue
        except OSError:  # a link, or a file
            left.append(store)
            continue
        with opened as folder:
            for name in folder.names() if folder.is_private() else ():
                if is_name_of_ours(name, ending, any_stem=ending == ".md") and begins_as_ours(folder, name, head):
                    folder.remove(name)
                    files += 1
            left += [f"{store}/{name}" for name in folder.names()]
        own.remove_folder(store)
    return Removed(files, tuple(left))


def is_name_of_ours(name: str, ending: str, *, any_stem: bool = False) -> bool:
    """Whether a cached file may have this name, complete or partial."""
    if name.endswith(".new"):
        name, _, process = name.removesuffix(".new").rpartition(".")
        if not process.isdecimal():
            return False
    stem = name.removesuffix(ending)
    return name.endswith(ending) and (any_stem or (len(stem) == len(DIGITS) * 2 and not stem.strip(DIGITS)))


def begins_as_ours(folder: Folder, name: str, head: bytes) -> bool:
    """Whether a file begins like cached files; a partial one may be shorter."""
    start = _content(folder, name, len(head))
    return start == head or (name.endswith(".new") and start is not None and head.startswith(start))


def _content(folder: Folder, name: str, length: int) -> bytes | None:
    """The first bytes of a regular file of this user; None for anything else."""
    try:
        return folder.start(name, length)
    except OSError:
        return None
