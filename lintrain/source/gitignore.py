"""Which paths a repository's .gitignore files leave out, nested ones included."""

# ruff: noqa: PTH100, PTH110, PTH118, PTH120
# A walk makes thousands of paths, and a `Path` costs ten times a string.

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from lintrain.source.reading import read_plain_text
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec


STARS = lazy_pattern(r"\*+")
MOST_STARS_IN_NAME, MOST_STARS = 3, 6
"""A pattern with more stars leaves nothing out: six in one name take minutes on a name that does not fit."""

LARGEST_FILE = 1024 * 1024
"""Bytes of a file of patterns; a larger one is none."""


@dataclass(frozen=True, slots=True)
class Ignores:
    """The patterns that apply to a folder, each with the folder of its file, outermost first."""

    specs: tuple[tuple[str, GitIgnoreSpec], ...] = ()

    @classmethod
    def above(cls, folder: str) -> Ignores:
        """The patterns that the folders around this one give it, from the root of its repository on.

        There are none for a folder that git ignores itself: if it is named, it is read.
        """
        folder = os.path.abspath(folder)
        above = _folders_above(folder)
        if not above:
            return cls()
        ignores = cls(_read(above[0], os.path.join(above[0], ".git", "info", "exclude")))
        for parent in above:
            if parent != folder:
                ignores = ignores.within(parent, {".gitignore"})
        return cls() if ignores.leave_out(folder, is_folder=True) else ignores

    def within(self, folder: str, names: set[str]) -> Ignores:
        """The patterns that apply to a folder that contains files with these names."""
        if ".gitignore" not in names:
            return self
        return Ignores(self.specs + _read(os.path.abspath(folder), os.path.join(folder, ".gitignore")))

    def leave_out(self, absolute: str, is_folder: bool) -> bool:
        """Whether git ignores an absolute path; the innermost pattern file with a match decides."""
        for folder, spec in reversed(self.specs):
            below = _below(absolute, folder).replace(os.sep, "/")
            answer = spec.check_file(f"{below}/" if is_folder else below).include
            if answer is not None:
                return answer
        return False


def _below(path: str, folder: str) -> str:
    """A path as seen from a folder, mostly one around it; both are absolute."""
    inside = folder + os.sep
    return path[len(inside) :] if path.startswith(inside) else os.path.relpath(path, folder)


def _is_quick(pattern: str) -> bool:
    """Whether matching a pattern is fast: each star in it may match any part of the path."""
    stars = [len(STARS.findall(part)) for part in pattern.split("/")]
    return max(stars) <= MOST_STARS_IN_NAME and sum(stars) <= MOST_STARS


def _folders_above(folder: str) -> list[str]:
    """The folders from the root of the repository down to this one; empty where there is no repository."""
    folders = [folder]
    while not os.path.exists(os.path.join(folders[0], ".git")):
        parent = os.path.dirname(folders[0])
        if parent == folders[0]:
            return []
        folders.insert(0, parent)
    return folders


def _read(folder: str, path: str) -> tuple[tuple[str, GitIgnoreSpec], ...]:
    try:
        lines = [line for line in read_plain_text(path, LARGEST_FILE, "replace").split("\n") if _is_quick(line)]
    except OSError:
        return ()
    from pathspec import GitIgnoreSpec

    try:
        return ((folder, GitIgnoreSpec.from_lines(lines)),)
    except ValueError:
        return ()  # git silently skips patterns that it cannot read
