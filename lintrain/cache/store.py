"""Cached results of single files, valid while all their dependencies are unchanged.

One file of the store covers the files of one folder. It is JSON, so reading it executes nothing. A damaged file, or one
for another environment (`key`), counts as missing. If two runs write the same file at once, the later one stays, and
the results of the other are computed again.

The current state of the paths that results depend on: each is examined once in a run.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, NamedTuple

from lintrain.cache import whole_files
from lintrain.cache.folder import is_ours
from lintrain.cache.noted import Noted
from lintrain.cache.removal import prune
from lintrain.cache.watch import add_listed_folder, unrecorded
from lintrain.cache.whole_files import (
    FILE,
    HEADS,
    LISTED,
    digest,
    is_fresh,
    make_folder,
    put,
    read_kept,
    sealed,
    stamp_of,
    unsealed,
)

LARGEST = 16 * 1024 * 1024
"""The largest file whose content is compared, in bytes: for a larger one, which is data, the stamp must be equal."""

ASKED, READ, NAMES = "asked", "read", "names"


class FileAccess(NamedTuple):
    """One path, the kind of access, and for a folder the names that matter."""

    kind: str
    path: str
    patterns: str = ""


def accesses_of(noted: Noted) -> Iterator[FileAccess]:
    """What was recorded, one access after the other."""
    yield from map(partial(FileAccess, ASKED), noted.asked)
    yield from map(partial(FileAccess, READ), noted.read)
    yield from (FileAccess(NAMES, folder, patterns) for folder, patterns in noted.listed)


class FileStates:
    """The state of paths in one run, which began at `since`; what changed after that is not trusted."""

    def __init__(self) -> None:
        self.since = whole_files.NOW()
        self._stamps: dict[FileAccess, str] = {}
        self._contents: dict[FileAccess, str] = {}
        self._changed: dict[str, bool] = {}

    def stamp(self, access: FileAccess) -> str:
        """The stamp of the path; for a path whose existence was checked, only whether it exists."""
        if access not in self._stamps:
            if access.kind == NAMES:
                add_listed_folder(access.path)
            # For a path whose existence was asked, only the first letter counts: that file may change
            # without changing a report.
            stamp = stamp_of(os.fsencode(access.path), LISTED if access.kind == NAMES else FILE)
            self._stamps[access] = (stamp[:1] if access.kind == ASKED else stamp).decode("ascii")
        return self._stamps[access]

    def content(self, access: FileAccess) -> str:
        """A digest of the file, or of the names; empty if it is missing or too large."""
        if access not in self._contents:
            self._contents[access] = _content(access) if self.stamp(access).startswith(("f", "l")) else ""
        return self._contents[access]

    def holds(self, access: FileAccess, stamp: str, content: str) -> bool:
        """Whether a path is unchanged: by its stamp, otherwise by its content."""
        # A fresh clone has new times and equal contents. Without the digest every run in CI would start empty.
        return self.stamp(access) == stamp or (content != "" and self.content(access) == content)

    def is_unchanged(self, access: FileAccess) -> bool:
        """Whether the path has not changed since the run began."""
        if access.path not in self._changed:
            self._changed[access.path] = _has_changed(access.path, self.since)
        return not self._changed[access.path]


def _content(access: FileAccess) -> str:
    try:
        if access.kind == NAMES:
            patterns = access.patterns.split("\n")
            names = sorted(
                name for name in os.listdir(access.path) if any(fnmatchcase(name, each) for each in patterns)
            )
            return digest("\0".join(names).encode("utf-8", "surrogateescape")).decode("ascii")
        if os.stat(access.path).st_size > LARGEST:
            return ""
        with open(access.path, "rb") as file:
            return digest(file.read()).decode("ascii")
    except OSError:
        return ""


def _has_changed(path: str, since: int) -> bool:
    """For a missing path, its folder shows whether it existed before."""
    if "\0" in path:
        return False
    try:
        state = os.stat(path)
    except OSError:
        # A file that was removed during the run has changed its folder, whose time is newer than the run.
        around = os.path.dirname(path)
        return around != path and _has_changed(around, since)
    return is_fresh(state, since)


MAGIC = HEADS["files"]

MOST_KEPT = 20_000
"""Folders with cached results; those written longest ago are removed first."""

Result = Any
"""The result of a file, as JSON."""

Seen = tuple[FileAccess, str, str]
"""An access, with the stamp and the digest that the path had."""

Shelf = Mapping[str, tuple[Result, list[Seen]]]
"""The cached results of one folder: the result of each file, and its dependencies in their state at that time."""

EMPTY: Shelf = {}


class Store:
    """The files of the store that were written in the current environment."""

    def __init__(self, folder: str, key: str) -> None:
        self.folder = folder
        self.key = key
        self.states = FileStates()
        self._shelves: dict[str, Shelf] = {}
        self._ours: bool | None = None

    def find(self, path: str) -> tuple[Result, list[FileAccess]] | None:
        """The result of a file with its dependencies, if none of them has changed."""
        folder = os.path.dirname(path)
        if folder not in self._shelves:
            with unrecorded():
                self._shelves[folder] = self._read(folder)
        result, seen = self._shelves[folder].get(path, (None, []))
        # An empty list means that nothing is cached: each result depends at least on its own file.
        if not seen or not all(self.states.holds(*each) for each in seen):
            return None
        return result, [access for access, *_ in seen]

    def keep(self, found: Mapping[str, tuple[Result, Noted]]) -> None:
        """Cache the results of files with their dependencies; if the folder cannot be written, nothing is cached."""
        try:
            with unrecorded():
                self._write_all(self._by_folder(found))
        except OSError:
            return

    def _by_folder(
        self, found: Mapping[str, tuple[Result, Noted]]
    ) -> dict[str, dict[str, tuple[Result, list[FileAccess]]]]:
        """The files whose dependencies have not changed since the run began."""
        by_folder: dict[str, dict[str, tuple[Result, list[FileAccess]]]] = {}
        for path, (result, noted) in found.items():
            accesses = list(accesses_of(noted))
            # A file that is saved in the middle of a run may have been read before and stamped after it.
            if all(map(self.states.is_unchanged, accesses)):
                by_folder.setdefault(os.path.dirname(path), {})[path] = result, accesses
        return by_folder

    def _write_all(self, by_folder: Mapping[str, Mapping[str, tuple[Result, list[FileAccess]]]]) -> None:
        if not by_folder:
            return
        make_folder(self.folder)
        # Asked once more, since the folder may exist only now.
        self._ours = None
        if self._is_ours():
            for folder, files in by_folder.items():
                self._write(folder, files)
            prune(self.folder, MOST_KEPT)

    def _read(self, folder: str) -> Shelf:
        if not self._is_ours():
            return EMPTY
        try:
            content = unsealed(MAGIC, read_kept(self.folder, self._name(folder)))
            return _shelf(json.loads(content), self.key) if content else EMPTY
        except (OSError, ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
            return EMPTY

    def _is_ours(self) -> bool:
        """Whether the folder may be trusted: determined once in a run, and again after it was created."""
        if self._ours is None:
            self._ours = is_ours(self.folder)
        return self._ours

    def _write(self, folder: str, files: Mapping[str, tuple[Result, list[FileAccess]]]) -> None:
        """Add the files to those cached for the folder, as far as these still exist and are unchanged."""
        others = {
            path: (result, [access for access, *_ in seen])
            for path, (result, seen) in self._read(folder).items()
            if path not in files and os.path.exists(path) and all(self.states.holds(*each) for each in seen)
        }
        content = json.dumps(self._document({**others, **files}), separators=(",", ":"))
        put(self.folder, self._name(folder), sealed(MAGIC, content.encode("ascii")))

    def _document(self, files: Mapping[str, tuple[Result, list[FileAccess]]]) -> Mapping[str, Any]:
        numbers: dict[FileAccess, int] = {}
        rows = {
            path: (result, [numbers.setdefault(access, len(numbers)) for access in accesses])
            for path, (result, accesses) in files.items()
        }
        accesses = [(*access, self.states.stamp(access), self.states.content(access)) for access in numbers]
        return {"key": self.key, "looks": accesses, "files": rows}

    def _name(self, folder: str) -> str:
        return digest(f"{self.key}\0{folder}".encode("utf-8", "surrogateescape")).decode("ascii")


def _shelf(content: Any, key: str) -> Shelf:
    """Raises ValueError, TypeError, KeyError, IndexError or AttributeError where the content is no shelf."""
    if content["key"] != key:
        return EMPTY
    accesses = [
        (FileAccess(kind, path, names), str(stamp), str(held)) for kind, path, names, stamp, held in content["looks"]
    ]
    return {
        path: (result, [accesses[number] for number in numbers]) for path, (result, numbers) in content["files"].items()
    }
