"""Files of the cache: replaced as a whole, and protected by a digest."""

from __future__ import annotations

import errno
import os
import stat

from lintrain.cache.folder import WRITABLE, is_private

MOST_BYTES = 256 * 1024 * 1024
"""Total size of the files of a folder, in bytes; the oldest are removed first."""

SEAL = 32
"""Characters of the digest that stands before the content of a file."""

HEADS = {
    "answers": b"lintrain answer 1\n",
    "files": b"lintrain files 1\n",
    "verdicts": b"lintrain verdicts 1\n",
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
