"""An open folder: operations stay inside it, even if its path is replaced by another folder in the meantime."""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType

from lintrain.cache.folder import is_private
from lintrain.cache.whole_files import NO_LINKS

HAS_DESCRIPTORS = os.unlink in os.supports_dir_fd and os.listdir in os.supports_fd


class Folder:
    """A folder, opened without following a link. Windows cannot open folders, so the path is used there."""

    def __init__(self, path: str, within: Folder | None = None) -> None:
        self._path: str = os.path.join(within._path, path) if within else path
        self._descriptor: int | None = None
        if HAS_DESCRIPTORS:
            flags = os.O_RDONLY | os.O_DIRECTORY | NO_LINKS
            self._descriptor = os.open(path, flags, dir_fd=within._descriptor if within else None)
        elif not stat.S_ISDIR(os.lstat(self._path).st_mode):  # a link, too; a missing folder raises as `os.open` does
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)

    def __enter__(self) -> Folder:
        """The folder itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        if self._descriptor is not None:
            os.close(self._descriptor)

    def is_private(self) -> bool:
        """Whether it belongs to this user, and only this user may write into it."""
        return is_private(os.lstat(self._path) if self._descriptor is None else os.fstat(self._descriptor))

    def names(self) -> list[str]:
        """Its entries."""
        return os.listdir(self._path if self._descriptor is None else self._descriptor)

    def state(self, name: str) -> os.stat_result:
        """The state of an entry; of a link its own."""
        return os.stat(self._at(name), dir_fd=self._descriptor, follow_symlinks=False)

    def start(self, name: str, length: int) -> bytes:
        """The first bytes of a regular file; raises OSError for anything else."""
        if not stat.S_ISREG(self.state(name).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", name)
        with open(os.open(self._at(name), os.O_RDONLY | NO_LINKS, dir_fd=self._descriptor), "rb") as file:
            return file.read(length)

    def remove(self, name: str) -> None:
        """Remove a file; a file that another run has removed is not an error."""
        try:
            os.unlink(self._at(name), dir_fd=self._descriptor)
        except FileNotFoundError:
            return

    def remove_folder(self, name: str) -> None:
        """Remove a folder, if nothing is left in it."""
        try:
            os.rmdir(self._at(name), dir_fd=self._descriptor)
        except OSError:
            return

    def _at(self, name: str) -> str:
        return os.path.join(self._path, name) if self._descriptor is None else name
