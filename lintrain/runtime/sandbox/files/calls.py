"""The functions of `os` and `io` that take a path, under guard: each works on the layer as the script means it.

An error of the system is raised here as the script would have got it, with the name that the script gave.

What `os.scandir` gives for a folder that lists otherwise than it does really.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from typing import Any

from lintrain.runtime.sandbox.files import real
from lintrain.runtime.sandbox.files.overlay import Overlay

FOLDER_FILE = getattr(os, "O_TMPFILE", 0)
Original = Callable[..., Any]


class Calls:
    """Guarded functions; their first argument is the original."""

    def __init__(self, overlay: Overlay) -> None:
        self.overlay = overlay

    def key(self, path: Any, folder: int | None = None, *, follows: bool = True) -> str | None:
        """The key of whatever names a file; None for descriptors, for what is no name, and where all is free."""
        try:
            text = os.fsdecode(path)
        except TypeError:
            return None
        if not text or "\0" in text:
            return None
        if folder is not None and not os.path.isabs(text):
            try:
                text = os.path.join(real.readlink(f"/proc/self/fd/{folder}"), text)
            except OSError:
                return None
        return self.overlay.key(text, follows=follows)

    # opening

    def open(self, original: Original, file: Any, mode: Any = "r", *args: Any, **kwargs: Any) -> Any:
        """`builtins.open`; with an `opener` the script's own function opens, through `os.open`."""
        # Calls that `open` itself rejects go to it unchanged: the script gets Python's own error, with its own text.
        if not isinstance(mode, str) or kwargs.get("opener") or len(args) > 5:
            return original(file, mode, *args, **kwargs)
        if not any(letter in mode for letter in "wax+"):
            return self.read(original, file, mode, *args, **kwargs)
        key = self.key(file)
        if key is None:
            return original(file, mode, *args, **kwargs)
        # `x` must fail for a file that exists only below the layer: the layer's path is free there, so `open` alone
        # would succeed.
        if "x" in mode:
            self._demand_absent(key, file)
        keeps = "w" not in mode and "x" not in mode
        return _named(original, file, self.overlay.written(key, keeps=keeps), mode, *args, **kwargs)

    def os_open(
        self, original: Original, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None
    ) -> Any:
        """`os.open`."""
        key = self.key(path, dir_fd)
        if key is None:
            return original(path, flags, mode, dir_fd=dir_fd)
        # `O_TMPFILE` names a folder and makes a file without a name in it. The flag contains the bit of O_DIRECTORY,
        # so all of its bits are compared, not one of them.
        if FOLDER_FILE and flags & FOLDER_FILE == FOLDER_FILE:
            return _named(original, path, self.overlay.made_folder(key), flags, mode)
        if not flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND):
            return _named(original, path, self.overlay.seen(key), flags, mode)
        if flags & os.O_EXCL and flags & os.O_CREAT:
            self._demand_absent(key, path)
        return _named(original, path, self.overlay.written(key, keeps=not flags & os.O_TRUNC), flags, mode)

    def _demand_absent(self, key: str, path: Any) -> None:
        if self.overlay.exists(key):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path)

    # looking

    def read(self, original: Original, path: Any = ".", *args: Any, **kwargs: Any) -> Any:
        """A function that reads what its first argument names."""
        # Until something is written the layer is empty: reading stays at the speed of the system. Importing torch
        # opens thousands of files.
        if not self.overlay.is_used:
            return original(path, *args, **kwargs)
        follows = kwargs.get("follow_symlinks", True)
        key = self.key(path, kwargs.get("dir_fd"), follows=follows)
        if key is None:
            return original(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        return _named(original, path, self._seen(path, key), *args, **kwargs)

    def _seen(self, path: Any, key: str) -> Any:
        """The path as it was given where it says the same: it shows in what the script gets."""
        found = self.overlay.seen(key)
        # A relative path is passed on only where the working folder is the real one; after `chdir` into the layer it
        # would name another file.
        return path if found == key and self.overlay.folder() == real.getcwd() else found

    def read_link(self, original: Original, path: Any, **kwargs: Any) -> Any:
        """A function that reads a name and not what a link stands for: `lstat`, `readlink`."""
        key = self.key(path, kwargs.get("dir_fd"), follows=False) if self.overlay.is_used else None
        if key is None:
            return original(path, **kwargs)
        return _named(original, path, self.overlay.seen(key))

    def listdir(self, original: Original, path: Any = ".") -> Any:
        """`os.listdir`."""
        key = self.key("." if path is None else path) if self.overlay.is_used else None
        if key is None or not self.overlay.is_merged(key) or not self.overlay.is_folder(key):
            return self.read(original, "." if path is None else path)
        names = self.overlay.names(key)
        return [os.fsencode(name) for name in names] if isinstance(path, bytes) else list(names)

    def scandir(self, original: Original, path: Any = ".") -> Any:
        """`os.scandir`."""
        given = "." if path is None else path
        key = self.key(given) if self.overlay.is_used else None
        if key is None or not self.overlay.is_folder(key):
            return self.read(original, path)
        return Entries(self._entries(key, os.fspath(given)))

    def _entries(self, key: str, folder: Any) -> Iterator[Entry]:
        for name in list(self.overlay.names(key)):
            shown: Any = os.fsencode(name) if isinstance(folder, bytes) else name
            yield Entry(shown, os.path.join(folder, shown), self.overlay.seen(os.path.join(key, name)))

    def getcwd(self, original: Original) -> str:
        """`os.getcwd`."""
        return self.overlay.meant(original())

    def getcwdb(self, _original: Original) -> bytes:
        """`os.getcwdb`."""
        return os.fsencode(self.overlay.meant(real.getcwd()))

    # changing

    def mkdir(self, original: Original, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> Any:
        """`os.mkdir`."""
        key = self.key(path, dir_fd, follows=False)
        if key is None:
            return original(path, mode, dir_fd=dir_fd)
        self._demand_absent(key, path)
        # The owner's bits are kept: a folder made with mode 0 would lock the probe out of its own layer, also when it
        # removes it.
        return _named(original, path, self.overlay.written(key, keeps=False), mode | 0o700)

    def remove(self, original: Original, path: Any, *, dir_fd: int | None = None) -> Any:
        """`os.remove` and `os.unlink`."""
        key = self.key(path, dir_fd, follows=False)
        if key is None:
            return original(path, dir_fd=dir_fd)
        if self.overlay.is_folder(key) and not real.is_link(self.overlay.seen(key)):
            # `unlink` of a folder: Linux answers EISDIR, and `shutil.rmtree` tells files and folders apart by it.
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        return self._take_away(original, path, key)

    def rmdir(self, original: Original, path: Any, *, dir_fd: int | None = None) -> Any:
        """`os.rmdir`."""
        key = self.key(path, dir_fd, follows=False)
        if key is None:
            return original(path, dir_fd=dir_fd)
        if self.overlay.exists(key) and not self.overlay.is_folder(key):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        if self.overlay.is_folder(key) and next(self.overlay.names(key), None) is not None:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)
        return self._take_away(original, path, key)

    def _take_away(self, original: Original, path: Any, key: str) -> None:
        upper, is_below = self.overlay.upper(key), self.overlay.is_below(key)
        # The system itself removes what is in the layer, and raises its own error for what is nowhere. What lies
        # below is not touched: a mark hides it.
        if real.exists(upper) or not is_below:
            _named(original, path, upper)
        if is_below:
            self.overlay.hide(key)

    def rename(
        self, original: Original, src: Any, dst: Any, *, src_dir_fd: int | None = None, dst_dir_fd: int | None = None
    ) -> Any:
        """`os.rename` and `os.replace`."""
        source, target = self.key(src, src_dir_fd, follows=False), self.key(dst, dst_dir_fd, follows=False)
        if source is None and target is None:
            return original(src, dst, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)
        found = src if source is None else self._lifted(source, src)
        if target is None:
            original(found, dst)
        else:
            _named(original, dst, found, self._target(target), swapped=True)
        # Only now: while the target is not in place, an error must leave the source where the script can find it.
        if source is not None:
            self.overlay.hide(source)
        return None

    def _lifted(self, key: str, path: Any) -> str:
        if not self.overlay.exists(key):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return self.overlay.lift(key)

    def _target(self, key: str) -> str:
        """Where a renamed file goes; a folder that is there takes the place of nothing unless it is empty."""
        if self.overlay.is_folder(key) and not real.is_link(self.overlay.seen(key)):
            if next(self.overlay.names(key), None) is not None:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), key)
            return self.overlay.made_folder(key)
        self.overlay.written(key, keeps=False)
        return self.overlay.upper(key)

    def link(self, original: Original, src: Any, dst: Any, **kwargs: Any) -> Any:
        """`os.link`: a copy where the other name is the user's file, which must not change through this one."""
        source, target = self.key(src), self.key(dst, follows=False)
        if source is None and target is None:
            return original(src, dst, **kwargs)
        found = src if source is None else self._lifted(source, src)
        if target is None:
            return original(found, dst)
        # A hard link to the user's file would let the script write to it through its second name, so the layer gets a
        # copy. The script can tell them apart only by their inode.
        self._demand_absent(target, dst)
        return _named(original, dst, found, self.overlay.written(target, keeps=False), swapped=True)

    def symlink(self, original: Original, src: Any, dst: Any, *args: Any, dir_fd: int | None = None) -> Any:
        """`os.symlink`: to where the script finds what it names."""
        key = self.key(dst, dir_fd, follows=False)
        if key is None:
            return original(src, dst, *args, dir_fd=dir_fd)
        self._demand_absent(key, dst)
        # The link lies deeper in the file system than the script believes. Its target has to be reachable from there:
        # an absolute one is replaced by the path of the layer, a relative one stays relative to what it names.
        meant = self.overlay.key(os.path.join(os.path.dirname(key), os.fsdecode(src)))
        found = self.overlay.seen(meant) if meant is not None and self.overlay.exists(meant) else None
        if found is not None and (os.path.isabs(os.fsdecode(src)) or found == meant):
            src = os.fsencode(found) if isinstance(src, bytes) else found
        return _named(original, dst, src, self.overlay.written(key, keeps=False), swapped=True)

    def modify(self, original: Original, path: Any, *args: Any, **kwargs: Any) -> Any:
        """A function that changes the file that is there: `truncate`, `chmod`, `utime`, …; folders stay as they are."""
        key = self.key(path, kwargs.get("dir_fd"), follows=kwargs.get("follow_symlinks", True))
        if key is None:
            return original(path, *args, **kwargs)
        kwargs.pop("dir_fd", None)
        # Copying a whole folder to change its mode or times could mean gigabytes; nothing that is measured depends on
        # either.
        if self.overlay.is_folder(key) and not real.exists(self.overlay.upper(key)):
            return None
        found = self.overlay.written(key, keeps=True) if self.overlay.exists(key) else self.overlay.upper(key)
        return _named(original, path, found, *args, **kwargs)

    def make(self, original: Original, path: Any, *args: Any, **kwargs: Any) -> Any:
        """A function that makes something by a new name: `mkfifo`, `mknod`."""
        key = self.key(path, kwargs.pop("dir_fd", None), follows=False)
        if key is None:
            return original(path, *args, **kwargs)
        self._demand_absent(key, path)
        return _named(original, path, self.overlay.written(key, keeps=False), *args, **kwargs)


def _named(original: Original, path: Any, found: Any, *args: Any, swapped: bool = False, **kwargs: Any) -> Any:
    """Call with the path that was found (`swapped`: the second one); an error names the one that the script gave."""
    try:
        return original(found, *args, **kwargs)
    except OSError as error:
        error.filename = path
        if swapped:
            error.filename2 = None
        raise


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
