"""Files of the cache: replaced as a whole, and protected by a digest.

The stamp of a path: short enough to be taken of thousands of files at every start.

What distinguishes one state of lintrain's own code from another.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Iterable, Iterator

from lintrain.cache.folder import WRITABLE, is_private

MOST_BYTES = 256 * 1024 * 1024
"""Total size of the files of a folder, in bytes; the oldest are removed first."""

SEAL = 32
"""Characters of the digest that stands before the content of a file."""

HEADS = {
    "answers": b"lintrain answer 1\n",
    "files": b"lintrain files 1\n",
    "verdicts": b"lintrain verdicts 1\n",
    "packages": b"lintrain packages 1\n",
    "pages": b"<!-- lintrain page 1: written anew whenever it is shown -->\n",
}
"""How the files in each folder of the cache begin: no other file is trusted or removed."""

TAG = "CACHEDIR.TAG"
TAGGED = b"""\
Signature: 8a477f597d28d172789f06886806bc55
# This folder is the cache of lintrain (format 1); `lintrain clean` removes it.
# Cache directory tags: https://bford.info/cachedir/
"""
"""Marks a folder as ours. Backup programs skip it because of the first line."""

IGNORED = ".gitignore", b"*\n"

NO_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


def make_folder(folder: str) -> None:
    """Create a folder for one kind of cached data, and the one around it, for this user only.

    Raises OSError, also where the folder around it is somebody else's.
    """
    own = os.path.dirname(folder)
    if not os.path.lexists(own):
        _make_own(own)
    if not is_private(os.lstat(own)) or read_kept(own, TAG) != TAGGED:
        raise FileExistsError(errno.EEXIST, f"lintrain did not make the folder {os.path.basename(own)} there", own)
    if not os.path.lexists(folder):
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            return  # another run was quicker


def _make_own(own: str) -> None:
    """Create the folder together with its tag, so that none ever exists without; raises OSError."""
    os.makedirs(os.path.dirname(own), mode=0o700, exist_ok=True)
    new = f"{own}.{os.getpid()}.new"
    os.mkdir(new, 0o700)
    try:
        for name, content in ((TAG, TAGGED), IGNORED):
            put(new, name, content)
        os.replace(new, own)
    except OSError:
        for name in os.listdir(new):
            os.unlink(os.path.join(new, name))
        os.rmdir(new)
        if not os.path.lexists(own):
            raise


def put(folder: str, name: str, content: bytes) -> None:
    """Replace a file as a whole: two runs may end at the same time."""
    new = os.path.join(folder, f"{name}.{os.getpid()}.new")
    try:
        with open(_created(new), "wb") as file:
            file.write(content)
        os.replace(new, os.path.join(folder, name))
    except OSError:
        if os.path.lexists(new):
            os.unlink(new)
        raise


def _created(new: str) -> int:
    """A new open file; one that a killed run has left is removed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | NO_LINKS
    try:
        return os.open(new, flags, 0o600)
    except FileExistsError:
        os.unlink(new)
        return os.open(new, flags, 0o600)


def read_kept(folder: str, name: str) -> bytes:
    """The content of a file of the user; raises OSError if it is a link, not a file, or too large."""
    with open(os.open(os.path.join(folder, name), os.O_RDONLY | NO_LINKS), "rb") as file:
        state = os.fstat(file.fileno())
        is_own = not hasattr(os, "geteuid") or (state.st_uid == os.geteuid() and not state.st_mode & WRITABLE)
        if not (stat.S_ISREG(state.st_mode) and is_own and state.st_size <= MOST_BYTES):
            raise OSError(errno.EINVAL, "not a file of this user", name)
        return file.read(MOST_BYTES)


def sealed(magic: bytes, content: bytes) -> bytes:
    """The content after its digest, and after the mark of its owner."""
    return magic + digest(content) + content


def unsealed(magic: bytes, kept: bytes) -> bytes | None:
    """The content; None if the file was truncated or changed, or is not ours."""
    content = kept[len(magic) + SEAL :]
    is_whole = kept.startswith(magic) and digest(content) == kept[len(magic) : len(magic) + SEAL]
    return content if is_whole else None


def digest(content: bytes) -> bytes:
    """A digest of the content, in 32 characters."""
    try:
        from _blake2 import blake2b  # hashlib loads OpenSSL, which takes longer than all the rest
    except ImportError:
        from hashlib import blake2b
    return blake2b(content, digest_size=16).hexdigest().encode("ascii")


ABSENT = b"-"
FOLDER = b"d"
"""A folder whose existence was checked: its content does not matter."""
FILE = b"f"
OTHER = b"o"
"""A device or a pipe: what is read from it cannot be cached."""
LISTED = b"l"
"""A folder whose names were read: they are unchanged while its modification time is."""
LINK = b"k"
"""A symbolic link itself; its target is recorded under the same path."""

SECOND = 1_000_000_000
NOW = time.time_ns

FRESH = SECOND // 10
"""Nanoseconds within which a second change may leave the same time: file systems tick ten times faster."""


def stamp_of(path: bytes, kind: bytes) -> bytes:
    """The current state of a path, as a stamp of the same kind."""
    try:
        state = os.lstat(path) if kind == LINK else os.stat(path)
    except (OSError, ValueError):
        return ABSENT
    return written(state, kind)


def written(state: os.stat_result, kind: bytes = FILE) -> bytes:
    """A state in a few bytes, its kind first: two equal ones mean the same file with the same content."""
    if kind in (LISTED, LINK):
        return b"%b%d %d %d %d" % (kind, state.st_mtime_ns, state.st_ino, state.st_dev, state.st_mode)
    if stat.S_ISDIR(state.st_mode):
        return FOLDER
    if not stat.S_ISREG(state.st_mode):
        return OTHER
    return b"f%d %d %d %d %d" % (state.st_mtime_ns, state.st_ctime_ns, state.st_size, state.st_ino, state.st_dev)


def is_fresh(state: os.stat_result, since: int | None = None) -> bool:
    """Whether another change, now or since a moment, could leave the same stamp: then it is not trusted.

    Some file systems store whole seconds, or multiples of two.
    """
    latest = max(state.st_mtime_ns, state.st_ctime_ns)
    tick = 2 * SECOND + FRESH if state.st_mtime_ns % SECOND == 0 else FRESH
    return (NOW() if since is None else since) - latest < tick


ENOUGH = 256 * 1024
"""Bytes of a program that are compared: its first ones name its build."""


def digest_of_code(package: str, rules: str, version: str) -> str:
    """For an installed lintrain the hashes in its list of files, otherwise the stamps of all code."""
    record = os.path.join(os.path.dirname(package), f"lintrain-{version}.dist-info", "RECORD")
    try:
        with open(record, "rb") as file:
            lines = [line for line in file.read().split(b"\n") if line.startswith(b"lintrain/") and b".pyc" not in line]
        return _text_of(digest(b"\n".join(sorted(lines))))
    except OSError:
        return _text_of(digest(repr(sorted(_stamps([package, rules]))).encode("utf-8", "surrogateescape")))


def digest_of_program(program: str) -> str:
    """What distinguishes one build of a program from another."""
    with open(program, "rb", buffering=0) as file:
        return f"{_text_of(digest(file.read(ENOUGH)))} {os.fstat(file.fileno()).st_size}"


def _text_of(digested: bytes) -> str:
    return digested.decode("ascii")


def _stamps(folders: Iterable[str]) -> Iterator[tuple[str, int, int]]:
    """The files that decide the result of a script: code, and the tables of knowledge."""
    for folder in folders:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".py", ".json")):
                    state = entry.stat()
                    yield entry.path, state.st_mtime_ns, state.st_size
                elif entry.name not in NOT_ASKED and "." not in entry.name and entry.is_dir():
                    yield from _stamps([entry.path])


NOT_ASKED = frozenset({"__pycache__", "callbacks", "cli", "fix", "inside", "probe", "report", "server", "settings"})
"""Folders of code that does not affect the result of a single file."""
