"""Whole answers of `lintrain check`: what it wrote and its exit code, kept with the state of all that it looked at.

An unchanged tree is answered from one file, before anything else is imported. The file is found by the words of the
command line and all that is not on the disk (working folder, environment, terminal, versions), and its answer holds
while every path that the run asked for, there or not, is as it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lintrain.cache.folder import folder_for, is_ours, store_folder
from lintrain.cache.stamps import ABSENT, FILE, FOLDER, LISTED, stamp_of
from lintrain.cache.whole_files import HEADS, digest, make_folder, put, read_kept, sealed, unsealed

MAGIC = HEADS["answers"]
VARIABLES = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "TERM", "CI_PROJECT_DIR", "PATH", "HOME", "XDG_CACHE_HOME")
PREFIXES = ("LINTRAIN_", "HF_", "HUGGINGFACE_", "PYTHON", "LC_", "LANG")
"""Of the environment, what an answer may depend on."""

MOST_KEPT = 200
"""Answers that a folder holds; the oldest go first."""

Looks = Mapping[tuple[bytes, bytes], bytes]
"""The stamp of each path, under how it was looked at."""

Written = tuple[bytes, bytes]
"""What was written: `1` or `2` for the stream, and its bytes."""


def key_of(words: Sequence[str], version: str) -> bytes:
    """All that an answer depends on besides files."""
    streams = [(stream.encoding, stream.isatty()) for stream in (sys.stdout, sys.stderr)]
    key = (version, list(words), os.getcwd(), streams, _columns(), *python_and_variables())
    return repr(key).encode("utf-8", "surrogateescape")


def python_and_variables() -> tuple[object, ...]:
    """What an answer may depend on of the environment and of the Python that gives it."""
    variables = sorted(each for each in os.environ.items() if each[0] in VARIABLES or each[0].startswith(PREFIXES))
    return variables, (sys.executable, sys.version, sys.path, sys.flags.utf8_mode)


def _columns() -> int | None:
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError):
        return None


def kept_answer(words: Sequence[str], key: bytes) -> tuple[int, list[Written]] | None:
    """The exit code and what was written, where an answer is kept that still holds."""
    folder = store_folder("answers", folder_for(words))
    if not is_ours(folder):
        return None
    try:
        return _answer(read_kept(folder, _name(key)), key)
    except (OSError, ValueError, IndexError):
        return None


def write_again(written: Iterable[Written]) -> None:
    """Write what a run wrote; a reader that has gone (`| head`) is no error."""
    for number, text in written:
        stream = sys.stdout if number == b"1" else sys.stderr
        try:
            stream.buffer.write(text)
            stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _answer(kept: bytes, key: bytes) -> tuple[int, list[Written]] | None:
    """Raises ValueError or IndexError where the file was cut off, or is none of ours."""
    content = unsealed(MAGIC, kept)
    if content is None:
        return None
    code, size_of_key, size_of_looks, *sizes = content.split(b"\n", 1)[0].split()
    at = content.index(b"\n") + 1
    behind = at + int(size_of_key)
    if content[at:behind] != key:
        return None
    looks = content[behind : behind + int(size_of_looks)].split(b"\0")
    if any(stamp_of(path, stamp[:1]) != stamp for path, stamp in zip(looks[::2], looks[1::2], strict=True)):
        return None
    return int(code), list(_parts(content[behind + int(size_of_looks) :], sizes))


def _parts(written: bytes, sizes: Iterable[bytes]) -> Iterator[Written]:
    at = 0
    for size in sizes:
        stream, length = size[:1], int(size[1:])
        yield stream, written[at : at + length]
        at += length


def keep_answer(words: Sequence[str], key: bytes, seen: Looks, code: int, written: Sequence[Written]) -> None:
    """Keep what a run answered; a folder that cannot be written, or a full disk, keeps nothing."""
    from lintrain.cache.removal import prune

    try:
        folder = store_folder("answers", folder_for(words))
        make_folder(folder)  # first, for whether it is there may be one of the looks
        if is_ours(folder):
            put(folder, _name(key), sealed(MAGIC, _body(key, seen, code, written)))
            prune(folder, MOST_KEPT)
    except OSError:
        return


def _body(key: bytes, seen: Looks, code: int, written: Sequence[Written]) -> bytes:
    looks = b"\0".join(part for path, stamp in _needed(seen) for part in (path, stamp))
    sizes = b" ".join(b"%b%d" % (stream, len(text)) for stream, text in written)
    head = b"%d %d %d %b\n" % (code, len(key), len(looks), sizes)
    return head + key + looks + b"".join(text for _, text in written)


def _needed(seen: Looks) -> Iterator[tuple[bytes, bytes]]:
    """What has to be asked again: other paths follow from these.

    The names of a folder that was listed tell of each path in it that is not there, and in a folder that is not there
    lies nothing.
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
