"""A private layer over the file system: what the script writes is stored here, what it removes is hidden here.

Everything is on disk, so that workers and Python scripts that the script starts see the same. A *key* is the absolute
path that the script means, its links followed; `upper` is where the layer has it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Any

from lintrain.runtime.sandbox.files import real

LARGEST_COPY = 4 * 2**30
"""A file that the script changes in place is copied first, up to this many bytes."""


class Overlay:
    """The layer in `root`; `is_free` says which keys are left to the script as they are."""

    def __init__(self, root: str, is_free: Callable[[str], bool]) -> None:
        self._root = root
        self._is_used = False
        self._written = os.path.join(root, "written")
        self._gone = os.path.join(root, "gone")
        self._is_free = is_free
        self._folders: dict[str, str] = {}

    # names

    @property
    def is_used(self) -> bool:
        """Whether any process of the script has written or removed anything."""
        # Once used, used for good. Before that the disk is asked each time: another process of the script, a loader's
        # worker for one, may have been the first to write.
        self._is_used = self._is_used or real.exists(self._root)
        return self._is_used

    def folder(self) -> str:
        """The working folder as the script knows it."""
        return self.meant(real.getcwd())

    def meant(self, path: str) -> str:
        """The path that the script knows a file of the layer by."""
        if path == self._written:
            return os.sep
        return path[len(self._written) :] if path.startswith(self._written + os.sep) else path

    def with_own_names(self, text: Any) -> Any:  # Any: words of an error, mostly text
        """A text with the names that the script knows its files by."""
        return text.replace(self._written, "") if isinstance(text, str) else text

    def key(self, path: str, *, follows: bool = True) -> str | None:
        """The key of a path, or None if it is free."""
        absolute = self.meant(os.path.normpath(os.path.join(self.folder(), path)))
        if self._is_free(absolute):
            return None
        above, name = os.path.split(absolute)
        key = self._followed(absolute) if follows else os.path.join(self._followed(above), name)
        return None if self._is_free(key) else key

    def _followed(self, path: str, depth: int = 0) -> str:
        """A path without the links in it that are really there."""
        # Only links that are really there are followed, and the script cannot change those: the result may be cached.
        known = self._folders.get(path)
        if known is not None:
            return known
        above, name = os.path.split(path)
        # The kernel gives up after 40 links in a path; a circle of links ends here.
        if above == path or depth > 64:
            return path
        found = os.path.join(self._followed(above, depth + 1), name)
        try:
            target = os.path.join(os.path.dirname(found), real.readlink(found))
            found = self._followed(os.path.normpath(target), depth + 1)
        except OSError:
            pass  # no link
        self._folders[path] = found
        return found

    def upper(self, key: str) -> str:
        """Where the layer has a key."""
        return self._written + os.path.splitdrive(key)[1]

    # looking

    def is_gone(self, key: str) -> bool:
        """Whether the script removed this, or a folder above it."""
        if not real.exists(self._gone):
            return False
        # A removed folder hides everything below it, with one mark: the marks of all folders above are looked up, not
        # one for each file.
        while True:
            if real.exists(self._mark(key)):
                return True
            above = os.path.dirname(key)
            if above == key:
                return False
            key = above

    def is_below(self, key: str) -> bool:
        """Whether the file that is really there is to be seen."""
        return real.exists(key) and not self.is_gone(key)

    def exists(self, key: str) -> bool:
        """Whether the script finds anything here."""
        return real.exists(self.upper(key)) or self.is_below(key)

    def is_folder(self, key: str) -> bool:
        """Whether the script finds a folder here."""
        upper = self.upper(key)
        return real.is_folder(upper) if real.exists(upper) else self.is_below(key) and real.is_folder(key)

    def seen(self, key: str) -> str:
        """The path where the script finds what it means; one of the layer that is not there if it finds nothing."""
        upper = self.upper(key)
        if real.exists(upper):
            # A folder that is in both places is seen as the real one: `names` merges them, and a path below it is
            # looked up again by its own key.
            return key if real.is_folder(upper) and self.is_below(key) and real.is_folder(key) else upper
        return upper if self.is_gone(key) else key

    def is_merged(self, key: str) -> bool:
        """Whether a folder lists otherwise than it does really."""
        return real.exists(self.upper(key)) or real.exists(self._gone)

    def names(self, key: str) -> Iterator[str]:
        """What the script finds in a folder."""
        upper = self.upper(key)
        above = set(real.listdir(upper)) if real.is_folder(upper) else set[str]()
        yield from sorted(above)
        if self.is_below(key) and real.is_folder(key):
            # Order: the layer first. A name in both places is listed once, as the layer's.
            for name in real.listdir(key):
                if name not in above and not real.exists(self._mark(os.path.join(key, name))):
                    yield name

    # changing

    def written(self, key: str, *, keeps: bool) -> str:
        """Where to write; with `keeps`, what is there now is there too. Raises PermissionError as the system would."""
        upper = self.upper(key)
        # Without a parent folder the system has to refuse: the path of the layer then has no parent either, and the
        # error names what the script gave.
        if real.exists(upper) or not self.is_folder(os.path.dirname(key)):
            return upper
        is_below = self.is_below(key)
        self._demand_rights(key if is_below else os.path.dirname(key))
        if is_below and real.exists(key) and not _is_file(key):
            # Nothing is copied through these.
            return key  # a folder, a pipe or a device is opened as such
        real.make_folders(os.path.dirname(upper))
        if is_below and keeps:
            self._copy(key, upper)
        return upper

    def _demand_rights(self, path: str) -> None:
        if real.exists(path) and not self.is_gone(path) and not real.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    def _copy(self, key: str, upper: str) -> None:
        size = real.stat(key).st_size
        if size > LARGEST_COPY:
            raise OSError(errno.EFBIG, f"lintrain does not copy a file of {size / 2**30:.1f} GiB to protect it", key)
        real.copy(key, upper)

    def made_folder(self, key: str) -> str:
        """The layer's own folder for one that the script finds."""
        real.make_folders(self.upper(key))
        return self.upper(key)

    def hide(self, key: str) -> None:
        """Let what is really there be found no longer."""
        if real.exists(key):
            real.make_folders(self._gone)
            # A file for each hidden key rather than a list: several processes of the script hide files at the same
            # time, and making a file is atomic. The name is a digest, for a path may be longer than a file's name.
            real.open_file(self._mark(key), "wb").close()

    def lift(self, key: str) -> str:
        """Have a file, or a folder with all that is in it, in the layer."""
        upper = self.upper(key)
        if self.is_folder(key):
            for name in list(self.names(key)):
                # Before the folder itself is renamed: its parts below the layer would stay behind otherwise.
                self.lift(os.path.join(key, name))
            real.make_folders(upper)
        elif not real.exists(upper):
            real.make_folders(os.path.dirname(upper))
            if real.is_link(key):
                real.symlink(self._followed(key), upper)
            else:
                self._copy(key, upper)
        return upper

    def _mark(self, key: str) -> str:
        return os.path.join(self._gone, hashlib.sha256(os.fsencode(key)).hexdigest())

    def files(self, most: int) -> Iterator[str]:
        """Keys of files that the script wrote, at most so many."""
        waiting = [self._written]
        while waiting and most > 0:
            folder = waiting.pop()
            for name in sorted(real.listdir(folder)) if real.is_folder(folder) else ():
                path = os.path.join(folder, name)
                if real.is_folder(path):
                    waiting.append(path)
                else:
                    most -= 1
                    yield self.meant(path)


def _is_file(path: str) -> bool:
    return real.stat(path).st_mode & 0o170000 == 0o100000
