"""Cached reports of `lintrain check`: output and exit code, with the state of all accessed files.

The report of an unchanged tree comes from one file, before anything else is imported. The file is
found by the command line and all that is not on the disk (working folder, environment, terminal, versions). Its report
is valid while every path that the run accessed, existing or not, is unchanged.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lintrain.cache.folder import folder_for, is_ours, store_folder
from lintrain.cache.whole_files import (
    ABSENT,
    FILE,
    FOLDER,
    HEADS,
    LISTED,
    digest,
    make_folder,
    put,
    read_kept,
    sealed,
    stamp_of,
    unsealed,
)

MAGIC = HEADS["answers"]
VARIABLES = (
    "NO_COLOR",
    "FORCE_COLOR",
    "COLUMNS",
    "TERM",
    "CI_PROJECT_DIR",
    "PATH",
    "HOME",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
)
PREFIXES = ("LINTRAIN_", "HF_", "HUGGINGFACE_", "PYTHON", "LC_", "LANG")
"""Environment variables that a report may depend on."""

MOST_KEPT = 200
"""Reports that a folder may hold; the oldest are removed first."""

Accesses = Mapping[tuple[bytes, bytes], bytes]
"""The stamp of each path, by kind of access."""

Written = tuple[bytes, bytes]
"""The output: `1` or `2` for the stream, and its bytes."""


def key_of(words: Sequence[str], version: str) -> bytes:
    """All that a report depends on besides files."""
    streams = [(stream.encoding, stream.isatty()) for stream in (sys.stdout, sys.stderr)]
    key = (version, list(words), os.getcwd(), streams, _columns(), *python_and_variables())
    return repr(key).encode("utf-8", "surrogateescape")


def python_and_variables() -> tuple[object, ...]:
    """The parts of the environment and of Python that a report may depend on."""
    variables = sorted(each for each in os.environ.items() if each[0] in VARIABLES or each[0].startswith(PREFIXES))
    return variables, (sys.executable, sys.version, sys.path, sys.flags.utf8_mode)


def _columns() -> int | None:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None


def kept_answer(words: Sequence[str], key: bytes) -> tuple[int, list[Written]] | None:
    """The exit code and the output of a cached report that is still valid; otherwise None."""
    folder = store_folder("answers", folder_for(words))
    if not is_ours(folder):
        return None
    try:
        return _answer(read_kept(folder, _name(key)), key)
    except (OSError, ValueError, IndexError):
        return None


def write_again(written: Iterable[Written]) -> None:
    """Write the cached output; a closed pipe (`| head`) is not an error."""
    for number, text in written:
        stream = sys.stdout if number == b"1" else sys.stderr
        try:
            stream.buffer.write(text)
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _answer(kept: bytes, key: bytes) -> tuple[int, list[Written]] | None:
    """Raises ValueError or IndexError if the file was truncated, or is not ours."""
    content = unsealed(MAGIC, kept)
    if content is None:
        return None
    code, size_of_key, size_of_accesses, *sizes = content.split(b"\n", 1)[0].split()
    at = content.index(b"\n") + 1
    behind = at + int(size_of_key)
    if content[at:behind] != key:
        return None
    accesses = content[behind : behind + int(size_of_accesses)].split(b"\0")
    if any(stamp_of(path, stamp[:1]) != stamp for path, stamp in zip(accesses[::2], accesses[1::2], strict=True)):
        return None
    return int(code), list(_parts(content[behind + int(size_of_accesses) :], sizes))


def _parts(written: bytes, sizes: Iterable[bytes]) -> Iterator[Written]:
    at = 0
    for size in sizes:
        stream, length = size[:1], int(size[1:])
        yield stream, written[at : at + length]
        at += length


def keep_answer(words: Sequence[str], key: bytes, seen: Accesses, code: int, written: Sequence[Written]) -> None:
    """Cache the report of a run; if the folder cannot be written or the disk is full, nothing is cached."""
    from lintrain.cache.removal import prune

    try:
        folder = store_folder("answers", folder_for(words))
        make_folder(folder)  # first, because its existence may be one of the accesses
        if is_ours(folder):
            put(folder, _name(key), sealed(MAGIC, _body(key, seen, code, written)))
            prune(folder, MOST_KEPT)
    except OSError:
        return


def _body(key: bytes, seen: Accesses, code: int, written: Sequence[Written]) -> bytes:
    accesses = b"\0".join(part for path, stamp in _needed(seen) for part in (path, stamp))
    sizes = b" ".join(b"%b%d" % (stream, len(text)) for stream, text in written)
    head = b"%d %d %d %b\n" % (code, len(key), len(accesses), sizes)
    return head + key + accesses + b"".join(text for _, text in written)


def _needed(seen: Accesses) -> Iterator[tuple[bytes, bytes]]:
    """The paths to compare again: the others follow from these.

    The names in a listed folder show which of its paths are missing, and a missing folder contains nothing.
    """
    listed = {path.rstrip(b"/") for (path, kind), stamp in seen.items() if kind == LISTED and stamp != ABSENT}
    missing = dict[bytes, bytes]()
    for (path, kind), stamp in seen.items():
        if b"\0" in path:
            continue  # no file can have such a name
        if stamp == ABSENT and kind == FILE:
            highest = path if os.path.dirname(path) in listed else _highest_missing(path)
            if os.path.dirname(highest) not in listed or b"/../" in highest:
                missing[highest] = ABSENT
        elif stamp != FOLDER or path not in listed:
            yield path, stamp
    yield from missing.items()


def _highest_missing(path: bytes) -> bytes:
    around = os.path.dirname(path)
    return path if around == path or os.path.exists(around) else _highest_missing(around)


def _name(key: bytes) -> str:
    return digest(key).decode("ascii")
