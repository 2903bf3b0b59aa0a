"""Where a repository is: the folder that contains `.git`, and the folders of git's own files.

Only names of files decide this, and the environment of a hook. What the repository's configuration says
(`core.worktree`) does not count: it would let a repository make any folder its own.
"""

# ruff: noqa: PTH109, PTH112, PTH116, PTH118, PTH120
# Paths are strings here, as in the walk that compares them.

from __future__ import annotations

import os
from collections.abc import Iterator

from lintrain.source.bounds import is_within
from lintrain.source.reading import read_plain
from lintrain.startup.lazy_dataclass import dataclass

LONGEST_LINE = 8192
"""Bytes of a file that only names a folder or a revision."""


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository with its work tree; all paths are real ones.

    `own` holds `HEAD` and the index, `common` the refs, objects and configuration; they differ in a linked work tree.
    """

    top: str
    own: str
    common: str

    @property
    def index(self) -> str:
        """The index file: a hook of `git commit` names its own one."""
        named = os.environ.get("GIT_INDEX_FILE")
        around = repository_around(os.getcwd()) if named else None
        if named and around and around.own == self.own:
            return os.path.join(self.top, named)
        return os.path.join(self.own, "index")


def repository_around(folder: str) -> Repository | None:
    """The repository of a folder; None if there is none."""
    found = _found_upwards(os.path.realpath(folder))
    named = _named_by_environment()
    if named is None or (found and found.own == named.own) or not is_within(os.path.realpath(folder), named.top):
        return found
    return named


def own_repository(folder: str) -> str | None:
    """The top folder of the repository around a folder; None if there is none, or if it belongs to another user."""
    found = _found_upwards(os.path.realpath(folder))
    if found is None or not hasattr(os, "geteuid"):
        return found.top if found else None
    trusted = {0, os.geteuid(), os.stat(folder).st_uid}
    owners = {os.stat(found.top).st_uid, os.lstat(os.path.join(found.top, ".git")).st_uid}
    return found.top if owners <= trusted else None


def git_folder_of(top: str) -> str | None:
    """The folder that `.git` of this folder is or names; None if there is no repository."""
    marked = os.path.join(top, ".git")
    if not os.path.isdir(marked):
        target = _named_in(marked, b"gitdir: ")
        marked = os.path.join(top, target) if target else ""
    return os.path.realpath(marked) if marked and _is_git_folder(marked) else None


def _found_upwards(folder: str) -> Repository | None:
    ceilings = {os.path.realpath(each) for each in _listed("GIT_CEILING_DIRECTORIES")}
    here, above = folder, os.path.dirname(folder)
    while (own := git_folder_of(here)) is None:
        if above == here or above in ceilings:
            return None
        here, above = above, os.path.dirname(above)
    return Repository(here, own, _common(own))


def _named_by_environment() -> Repository | None:
    """The repository whose hook this is: the caller names its folders."""
    named = os.environ.get("GIT_DIR")
    if not named or not _is_git_folder(named):
        return None
    own = os.path.realpath(named)
    common = os.environ.get("GIT_COMMON_DIR")
    top = os.path.realpath(os.environ.get("GIT_WORK_TREE") or os.getcwd())
    return Repository(top, own, os.path.realpath(common) if common else _common(own))


def _listed(variable: str) -> Iterator[str]:
    return filter(os.path.isabs, os.environ.get(variable, "").split(os.pathsep))


def _is_git_folder(folder: str) -> bool:
    """Whether a folder contains what git requires of a repository."""
    common = _common(os.path.realpath(folder))
    has_head = os.path.lexists(os.path.join(folder, "HEAD"))
    return has_head and all(os.path.isdir(os.path.join(common, name)) for name in ("objects", "refs"))


def _common(own: str) -> str:
    named = _named_in(os.path.join(own, "commondir"), b"")
    return os.path.realpath(os.path.join(own, named)) if named else own


def _named_in(file: str, before: bytes) -> str | None:
    """The path that a file names; None if it is no such file."""
    try:
        text = read_plain(file, LONGEST_LINE)
    except (OSError, ValueError):
        return None
    named = text.removeprefix(before).rstrip(b"\r\n")
    return os.fsdecode(named) if text.startswith(before) and named and b"\0" not in named else None
