"""Paths for other programs: relative to the repository, with slashes, or as URIs."""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path, PurePath
from urllib.parse import quote

STDIN = "-"


def repository_root() -> Path:
    """The root of the repository, else the current folder."""
    return _root(Path.cwd())


@lru_cache(maxsize=1)
def _root(folder: Path) -> Path:
    return next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder)


def from_root(path: str) -> str:
    """A path relative to the root of the repository, or an absolute path outside of it."""
    return path if path == STDIN else relative(Path(absolute(path)), repository_root())


def relative(path: PurePath, root: PurePath) -> str:
    """An absolute path made relative to a folder that contains it, with slashes on every system."""
    return (path.relative_to(root) if path.is_relative_to(root) else path).as_posix()


def absolute(path: str) -> str:
    """An absolute path without `..`; links are not resolved."""
    return path if path == STDIN else os.path.abspath(path)  # noqa: PTH100 - Path.absolute leaves `..` in


def uri_in(path: PurePath, root: PurePath) -> str | None:
    """The relative URI of an absolute path in a folder; None if it is elsewhere."""
    return quote(os.fsencode(relative(path, root)), safe="/") if path.is_relative_to(root) else None


def file_uri(path: PurePath) -> str:
    """The URI of an absolute path."""
    written = quote(os.fsencode(path.as_posix()), safe="/:")
    return f"file:{written}" if written.startswith("//") else f"file:///{written.removeprefix('/')}"


def folder_uri(folder: PurePath) -> str:
    """The URI of an absolute folder, with a slash at the end."""
    return file_uri(folder).removesuffix("/") + "/"
