"""What distinguishes one state of lintrain's own code from another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from lintrain.cache.whole_files import digest

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
