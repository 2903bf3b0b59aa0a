"""The files of a repository at one commit, written into a folder without touching the clone."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

READ = frozenset((".py", ".ipynb", ".toml", ".cfg", ".ini", ".txt", ".yml", ".yaml", ".json", ""))
"""What a check may read: code, and files that say versions, options and settings. Images and weights are left out."""

LARGEST = 1 << 20
"""Bytes of the largest file that is written: what is larger holds data."""


class TreeError(Exception):
    """The clone is missing, or does not have the commit."""


def write_tree(clone: Path, revision: str, folder: Path) -> None:
    """Write the files of a revision that a check may read, with a mark that makes the folder the project's root."""
    (folder / ".git").mkdir(parents=True)
    names = dict(_files_of(clone, revision))
    for digest, content in _contents(clone, _small(clone, names)):
        for name in names[digest]:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _files_of(clone: Path, revision: str) -> dict[str, list[str]]:
    """The paths that hold each content, by its digest; links and submodules are left out."""
    names: dict[str, list[str]] = {}
    for entry in _git(clone, "ls-tree", "-r", "-z", revision).split(b"\0")[:-1]:
        told, _, raw = entry.partition(b"\t")
        mode, _, digest = told.decode().split(" ")
        name = raw.decode("utf-8", "surrogateescape")
        if mode.startswith("100") and PurePosixPath(name).suffix.lower() in READ:
            names.setdefault(digest, []).append(name)
    return names


def _small(clone: Path, digests: dict[str, list[str]]) -> list[str]:
    """The contents that are there and not too large: a clone may lack large ones."""
    asked = "\n".join(digests).encode()
    told = _git(clone, "cat-file", "--batch-check=%(objectname) %(objectsize)", asked=asked).decode().splitlines()
    pairs = (line.split(" ") for line in told)
    return [digest for digest, size in pairs if size.isdecimal() and int(size) <= LARGEST]


def _contents(clone: Path, digests: list[str]) -> Iterator[tuple[str, bytes]]:
    told = _git(clone, "cat-file", "--batch", asked="\n".join(digests).encode())
    start = 0
    while start < len(told):
        head, _, _ = told[start:].partition(b"\n")
        digest, _, size = head.decode().split(" ")
        start += len(head) + 1
        yield digest, told[start : start + int(size)]
        start += int(size) + 1


def _git(clone: Path, *command: str, asked: bytes = b"") -> bytes:
    if not clone.is_dir():
        raise TreeError(f"{clone}: no clone there")
    done = subprocess.run(["git", "-C", str(clone), *command], input=asked, capture_output=True, check=False)
    if done.returncode:
        raise TreeError(f"{clone}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
