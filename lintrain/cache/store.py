"""Cached results of single files, valid while all their dependencies are unchanged.

One file of the store covers the files of one folder. It is JSON, so reading it executes nothing. A damaged file, or one
for another environment (`key`), counts as missing. If two runs write the same file at once, the later one stays, and
the results of the other are computed again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from lintrain.cache.folder import is_ours
from lintrain.cache.noted import Noted
from lintrain.cache.removal import prune
from lintrain.cache.sights import Look, Sights, looks_of
from lintrain.cache.watch import unheard
from lintrain.cache.whole_files import HEADS, digest, make_folder, put, read_kept, sealed, unsealed

MAGIC = HEADS["files"]

MOST_KEPT = 20_000
"""Folders with cached results; those written longest ago are removed first."""

Said = Any
"""The result of a file, as JSON."""

Seen = tuple[Look, str, str]
"""An access, with the stamp and the digest that the path had."""

Shelf = Mapping[str, tuple[Said, list[Seen]]]
"""The cached results of one folder: the result of each file, and its dependencies in their state at that time."""

EMPTY: Shelf = {}


class Store:
    """The files of the store that were written in the current environment."""

    def __init__(self, folder: str, key: str) -> None:
        self.folder = folder
        self.key = key
        self.sights = Sights()
        self._shelves: dict[str, Shelf] = {}
        self._ours: bool | None = None

    def find(self, path: str) -> tuple[Said, list[Look]] | None:
        """The result of a file with its dependencies, if none of them has changed."""
        folder = os.path.dirname(path)
        if folder not in self._shelves:
            with unheard():
                self._shelves[folder] = self._read(folder)
        said, seen = self._shelves[folder].get(path, (None, []))
        if not seen or not all(self.sights.holds(*each) for each in seen):
            return None
        return said, [look for look, *_ in seen]

    def keep(self, found: Mapping[str, tuple[Said, Noted]]) -> None:
        """Cache the results of files with their dependencies; if the folder cannot be written, nothing is cached."""
        try:
            with unheard():
                self._write_all(self._by_folder(found))
        except OSError:
            return

    def _by_folder(self, found: Mapping[str, tuple[Said, Noted]]) -> dict[str, dict[str, tuple[Said, list[Look]]]]:
        """The files whose dependencies have not changed since the run began."""
        by_folder: dict[str, dict[str, tuple[Said, list[Look]]]] = {}
        for path, (said, noted) in found.items():
            looks = list(looks_of(noted))
            if all(map(self.sights.vouches, looks)):
                by_folder.setdefault(os.path.dirname(path), {})[path] = said, looks
        return by_folder

    def _write_all(self, by_folder: Mapping[str, Mapping[str, tuple[Said, list[Look]]]]) -> None:
        if not by_folder:
            return
        make_folder(self.folder)
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

    def _write(self, folder: str, files: Mapping[str, tuple[Said, list[Look]]]) -> None:
        """Add the files to those cached for the folder, as far as these still exist and are unchanged."""
        others = {
            path: (said, [look for look, *_ in seen])
            for path, (said, seen) in self._read(folder).items()
            if path not in files and os.path.exists(path) and all(self.sights.holds(*each) for each in seen)
        }
        content = json.dumps(self._document({**others, **files}), separators=(",", ":"))
        put(self.folder, self._name(folder), sealed(MAGIC, content.encode("ascii")))

    def _document(self, files: Mapping[str, tuple[Said, list[Look]]]) -> Mapping[str, Any]:
        numbers: dict[Look, int] = {}
        rows = {
            path: (said, [numbers.setdefault(look, len(numbers)) for look in looks])
            for path, (said, looks) in files.items()
        }
        looks = [(*look, self.sights.stamp(look), self.sights.content(look)) for look in numbers]
        return {"key": self.key, "looks": looks, "files": rows}

    def _name(self, folder: str) -> str:
        return digest(f"{self.key}\0{folder}".encode("utf-8", "surrogateescape")).decode("ascii")


def _shelf(content: Any, key: str) -> Shelf:
    """Raises ValueError, TypeError, KeyError, IndexError or AttributeError where the content is no shelf."""
    if content["key"] != key:
        return EMPTY
    looks = [(Look(kind, path, names), str(stamp), str(held)) for kind, path, names, stamp, held in content["looks"]]
    return {path: (said, [looks[number] for number in numbers]) for path, (said, numbers) in content["files"].items()}
