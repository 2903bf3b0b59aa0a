"""Files of what is kept: put in their place whole, sealed against damage, bounded in number, bytes and age."""

from __future__ import annotations

import os

OLDEST = 30 * 24 * 3600
"""Seconds after which a file that nobody wrote again goes."""

MOST_BYTES = 256 * 1024 * 1024
"""What the files of a folder may hold together; the oldest go first."""

SEAL = 32
"""Characters of the digest that stands before the content of a file."""


def make_folder(folder: str) -> None:
    """Make the folder, for this user alone; a new one around it is left out by git, should it lie in a repository."""
    around = os.path.dirname(folder)
    is_new = not os.path.isdir(around)
    os.makedirs(around, mode=0o700, exist_ok=True)
    if is_new:
        put(around, ".gitignore", b"*\n")
    if not os.path.isdir(folder):
        os.makedirs(folder, 0o700, exist_ok=True)


def put(folder: str, name: str, content: bytes) -> None:
    """Put a file in its place whole: two runs may end at once."""
    new = os.path.join(folder, f"{name}.{os.getpid()}.new")
    try:
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        os.replace(new, os.path.join(folder, name))
    except OSError:
        if os.path.exists(new):
            os.unlink(new)
        raise


def sealed(magic: bytes, content: bytes) -> bytes:
    """The content behind a digest of it, and behind what says whose it is."""
    return magic + digest(content) + content


def unsealed(magic: bytes, kept: bytes) -> bytes | None:
    """The content; None where the file was cut off or changed, or is none of ours."""
    content = kept[len(magic) + SEAL :]
    is_whole = kept.startswith(magic) and digest(content) == kept[len(magic) : len(magic) + SEAL]
    return content if is_whole else None


def prune(folder: str, most: int) -> None:
    """Drop what is old, what is too much, and what a run that was killed left half written."""
    import time

    states = ((entry.stat(), entry.path) for entry in os.scandir(folder))
    files = sorted(((state.st_mtime, state.st_size, path) for state, path in states), reverse=True)
    now, held = time.time(), 0
    for at, (changed, size, path) in enumerate(files):
        held += size
        is_half_written = path.endswith(".new") and changed < now - 3600
        if at >= most or held > MOST_BYTES or changed < now - OLDEST or is_half_written:
            _unlink(path)


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return  # another run was quicker


def digest(content: bytes) -> bytes:
    """What tells one content from another, in 32 characters."""
    try:
        from _blake2 import blake2b  # hashlib loads OpenSSL, which takes longer than all the rest
    except ImportError:
        from hashlib import blake2b
    return blake2b(content, digest_size=16).hexdigest().encode("ascii")
