"""From a file's bytes to its Source.

Reading files of other people: regular files only, and never more than requested.

A script, a configuration or a repository may name a pipe without a writer, or a device without an end:
reading it waits forever, or fills the memory.
"""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from io import BufferedReader

from lintrain.source.source import LARGEST_CODE, MIXED, Source, Writing
from lintrain.startup.lazy_pattern import lazy_pattern

ENCODING_LINE = lazy_pattern(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""PEP 263: a comment in one of the first two lines may name the encoding of the file."""

ENCODINGS_BY_MARK = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
"""The encodings that the first bytes of a file tell; the mark of UTF-32 begins with that of UTF-16."""


LARGEST_FILE = 256 * 1024 * 1024
"""The largest file, with the outputs of a notebook: a larger one is not a script that a person wrote."""


CONFIGURED = (".yaml", ".yml", ".json")
"""The files that may be training configurations; whether one is, its keys decide."""


class UnreadableError(Exception):
    """A file without readable text, with the line (from 1) of the problem."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def read_file(path: str, shown_as: str | None = None) -> Source:
    """The source in a file; raises UnreadableError if it is not text, or may not be read."""
    return read_bytes(shown_as or path, load_bytes(path))


def load_bytes(path: str) -> bytes:
    """The bytes of a file; raises UnreadableError if it may not be read."""
    try:
        return read_plain(path, LARGEST_FILE)
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableError(reason[:1].lower() + reason[1:]) from error


def read_bytes(path: str, raw: bytes) -> Source:
    """The source that these bytes hold under the name of a file; raises UnreadableError."""
    text, writing = _decode(raw)
    if "\0" in text:
        raise UnreadableError("null byte in the file", text.count("\n", 0, text.index("\0")) + 1)
    if path.endswith(CONFIGURED):
        from lintrain.source.configuration import Configuration

        return Configuration(path, text, writing=writing)
    if not path.endswith(".ipynb"):
        return Source(path, text, writing=writing)
    from lintrain.source.notebook import NotebookError, join_cells

    try:
        joined, notebook = join_cells(text)
    except NotebookError as error:
        raise UnreadableError(str(error), error.line) from error
    except RecursionError as error:
        raise UnreadableError("not a notebook: its JSON is nested too deeply") from error
    return Source(path, joined, notebook, writing)


def holds_too_much(path: str, raw: bytes) -> bool:
    """Whether a file has more code than is checked; raises UnreadableError if it has none."""
    # Most bytes of a notebook are outputs; separating them takes long, so a notebook may be larger.
    least = LARGEST_CODE * (4 if path.endswith(".ipynb") else 1)
    return len(raw) > least and read_bytes(path, raw).is_too_large


def _decode(raw: bytes) -> tuple[str, Writing]:
    marked = raw.startswith(codecs.BOM_UTF8)
    content = raw.removeprefix(codecs.BOM_UTF8)
    encoding = "utf-8" if marked or content.isascii() else _declared_encoding(content)
    try:
        text = content.decode(encoding)
    except LookupError as error:
        raise UnreadableError(f"the encoding `{encoding}` that it declares is unknown") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError(f"byte 0x{content[error.start]:02x} is not {encoding.upper()}", line) from error
    except ValueError as error:
        raise UnreadableError(f"it is not in the encoding `{encoding}` that it declares") from error
    if "\r" not in text:
        return text, Writing(encoding, marked)
    ends = set(re.findall(r"\r\n|\r|\n", text))
    newline = ends.pop() if len(ends) == 1 else MIXED
    return text.replace("\r\n", "\n").replace("\r", "\n"), Writing(encoding, marked, newline)


def _declared_encoding(content: bytes) -> str:
    for line in content.split(b"\n", 2)[:2]:
        match = ENCODING_LINE.match(line)
        if match:
            return match[1].decode("ascii")
        if line.strip() and not line.lstrip().startswith(b"#"):
            break
    return "utf-8"


AT_ONCE = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""Opens a pipe without waiting for its writer; Windows has no such pipes."""


def read_plain(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of a file; raises OSError also if it is not regular, or has more bytes than that."""
    with _opened(path) as file:
        # The size that a file states saves reading it; files of `/proc` state 0, and another may grow meanwhile.
        is_larger = os.fstat(file.fileno()).st_size > most
        raw = b"" if is_larger else _first_bytes(file, most + 1)
    if is_larger or len(raw) > most:
        raise OSError(errno.EFBIG, f"larger than {most / (1 << 20):g} MiB")
    return raw


def read_start(path: str | os.PathLike[str], most: int) -> bytes:
    """The first bytes of a file; raises OSError also for anything but a regular file."""
    with _opened(path) as file:
        return _first_bytes(file, most)


def _opened(path: str | os.PathLike[str]) -> BufferedReader:
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - before it is opened: that may already act on a device
        raise _not_plain(path)
    file = open(path, "rb", opener=_open_at_once)  # noqa: SIM115 - whoever asked for it closes it
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise _not_plain(path)
    return file


def _first_bytes(file: BufferedReader, most: int) -> bytes:
    # Requesting `most` at once would allocate all of it: three times as long for a script.
    size = os.fstat(file.fileno()).st_size
    start = file.read(min(most, size + 1))
    return start if len(start) <= size else start + file.read(most - len(start))


def read_plain_text(path: str | os.PathLike[str], most: int, errors: str = "strict") -> str:
    """The text of a file in UTF-8, its lines ended by a line feed; raises as `read_plain`, and UnicodeDecodeError.

    A file that begins with the mark of another encoding is read in that one, as pip reads requirements:
    `pip freeze > requirements.txt` writes UTF-16 in PowerShell.
    """
    data = read_plain(path, most)
    encoding = next((name for mark, name in ENCODINGS_BY_MARK if data.startswith(mark)), "utf-8")
    return data.decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | AT_ONCE)


def _not_plain(path: str | os.PathLike[str]) -> OSError:
    if os.path.isdir(path):  # noqa: PTH112 - as above
        return IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    return OSError(errno.EINVAL, "a pipe or a device, not a file")
