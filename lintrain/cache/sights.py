"""The current state of the paths that results depend on: each is examined once in a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import partial
from typing import NamedTuple

from lintrain.cache import stamps
from lintrain.cache.noted import Noted
from lintrain.cache.stamps import FILE, LISTED, is_fresh, stamp_of
from lintrain.cache.watch import tell_listed
from lintrain.cache.whole_files import digest

LARGEST = 16 * 1024 * 1024
"""The largest file whose content is compared, in bytes: for a larger one, which is data, the stamp must be equal."""

ASKED, READ, NAMES = "asked", "read", "names"


class Look(NamedTuple):
    """One path, the kind of access, and for a folder the names that matter."""

    kind: str
    path: str
    patterns: str = ""


def looks_of(noted: Noted) -> Iterator[Look]:
    """What was recorded, one access after the other."""
    yield from map(partial(Look, ASKED), noted.asked)
    yield from map(partial(Look, READ), noted.read)
    yield from (Look(NAMES, folder, patterns) for folder, patterns in noted.listed)


class Sights:
    """The state of paths in one run, which began at `since`; what changed after that is not trusted."""

    def __init__(self) -> None:
        self.since = stamps.NOW()
        self._stamps: dict[Look, str] = {}
        self._contents: dict[Look, str] = {}
        self._changed: dict[str, bool] = {}

    def stamp(self, look: Look) -> str:
        """The stamp of the path; for a path whose existence was checked, only whether it exists."""
        if look not in self._stamps:
            if look.kind == NAMES:
                tell_listed(look.path)
            stamp = stamp_of(os.fsencode(look.path), LISTED if look.kind == NAMES else FILE)
            self._stamps[look] = (stamp[:1] if look.kind == ASKED else stamp).decode("ascii")
        return self._stamps[look]

    def content(self, look: Look) -> str:
        """A digest of the file, or of the names; empty if it is missing or too large."""
        if look not in self._contents:
            self._contents[look] = _content(look) if self.stamp(look).startswith(("f", "l")) else ""
        return self._contents[look]

    def holds(self, look: Look, stamp: str, content: str) -> bool:
        """Whether a path is unchanged: by its stamp, otherwise by its content."""
        return self.stamp(look) == stamp or (content != "" and self.content(look) == content)

    def vouches(self, look: Look) -> bool:
        """Whether the path has not changed since the run began."""
        if look.path not in self._changed:
            self._changed[look.path] = _has_changed(look.path, self.since)
        return not self._changed[look.path]


def _content(look: Look) -> str:
    try:
        if look.kind == NAMES:
            patterns = look.patterns.split("\n")
            names = sorted(name for name in os.listdir(look.path) if any(fnmatchcase(name, each) for each in patterns))
            return digest("\0".join(names).encode("utf-8", "surrogateescape")).decode("ascii")
        if os.stat(look.path).st_size > LARGEST:
            return ""
        with open(look.path, "rb") as file:
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
        around = os.path.dirname(path)
        return around != path and _has_changed(around, since)
    return is_fresh(state, since)
