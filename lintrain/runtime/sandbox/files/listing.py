"""What `os.scandir` gives for a folder that lists otherwise than it does really."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import Any

from lintrain.runtime.sandbox.files import real


class Entry:
    """One name in a folder, with the interface of `os.DirEntry`; `found` is its real path."""

    def __init__(self, name: Any, path: Any, found: str) -> None:  # Any: text or bytes, as the folder was given
        self.name = name
        self.path = path
        self._found = found

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """The status of what the name stands for."""
        return real.stat(self._found, follow_symlinks=follow_symlinks)

    def inode(self) -> int:
        """Its number in the file system."""
        return real.lstat(self._found).st_ino

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self._mode(follow_symlinks=follow_symlinks))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file."""
        return stat.S_ISREG(self._mode(follow_symlinks=follow_symlinks))

    def is_symlink(self) -> bool:
        """Whether it is a link."""
        return stat.S_ISLNK(self._mode(follow_symlinks=False))

    def is_junction(self) -> bool:
        """Whether it is a junction, which only Windows has."""
        return False

    def _mode(self, *, follow_symlinks: bool) -> int:
        try:
            return self.stat(follow_symlinks=follow_symlinks).st_mode
        except FileNotFoundError:
            return 0  # a link to nothing


class Entries:
    """An iterator over entries that can be closed, like that of `os.scandir`."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries

    def __iter__(self) -> Entries:
        return self

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give no more entries."""
        self._entries = iter(())
