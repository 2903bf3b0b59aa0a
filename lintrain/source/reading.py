"""From a file's bytes to its Source."""

from __future__ import annotations

import codecs
import re

from lintrain.source.plain_files import read_plain
from lintrain.source.source import LARGEST_CODE, MIXED, Source, Writing
from lintrain.startup.lazy_pattern import lazy_pattern

ENCODING_LINE = lazy_pattern(rb"[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
"""PEP 263: a comment in one of the first two lines may name the encoding of the file."""


LARGEST_FILE = 256 * 1024 * 1024
"""The largest file, with the outputs of a notebook: a larger one is not a script that a person wrote."""


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
