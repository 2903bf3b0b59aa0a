"""Lines and positions as editors count them.

Lines end at `\n`, `\r\n` and `\r` alone; columns count the units of the encoding that both sides agreed on.

URIs of documents and their files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from lsprotocol import types as lsp

from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

LINE_END = lazy_pattern(r"\r\n|\n|\r")
BEYOND_UTF_16 = 0xFFFF


@dataclass(frozen=True, slots=True)
class Units:
    """How a client counts columns: bytes of UTF-8, code units of UTF-16, or characters (UTF-32)."""

    encoding: str = "utf-16"

    def count(self, text: str) -> int:
        """The columns that a text takes."""
        if self.encoding == "utf-32" or text.isascii():
            return len(text)
        if self.encoding == "utf-8":
            return len(text.encode(errors="replace"))
        return len(text) + sum(ord(character) > BEYOND_UTF_16 for character in text)

    def characters(self, line: str, columns: int) -> int:
        """The number of characters in a number of columns; a column inside a character counts as its start."""
        if self.encoding == "utf-32" or line.isascii():
            return max(0, min(columns, len(line)))
        taken = 0
        for index, character in enumerate(line):
            taken += self.count(character)
            if taken > columns:
                return index
        return len(line)


def split_lines(text: str) -> list[str]:
    """The lines of a text without their ends."""
    return LINE_END.split(text)


def position(lines: Sequence[str], line: int, column: int, units: Units) -> lsp.Position:
    """A line and column (characters), both from 1, as the client counts them."""
    index = max(0, min(line - 1, len(lines) - 1))
    return lsp.Position(line=index, character=units.count(lines[index][: max(0, column - 1)]))


def lsp_range(lines: Sequence[str], start: tuple[int, int], end: tuple[int, int], units: Units) -> lsp.Range:
    """The range from one line and column to another."""
    return lsp.Range(start=position(lines, *start, units), end=position(lines, *end, units))


def changed(text: str, change: lsp.Range | None, new: str, units: Units) -> str:
    """The text after an edit of the client; positions outside of the text mean the nearest one."""
    if change is None:
        return new
    start, end = sorted((_offset(text, change.start, units), _offset(text, change.end, units)))
    return text[:start] + new + text[end:]


def _offset(text: str, location: lsp.Position, units: Units) -> int:
    starts = [0]
    for match in LINE_END.finditer(text):
        if len(starts) > location.line:
            return starts[location.line] + units.characters(
                text[starts[location.line] : match.start()], location.character
            )
        starts.append(match.end())
    if location.line >= len(starts):
        return len(text)
    start = starts[max(0, location.line)]
    return start + units.characters(text[start:], location.character)


def line_edits(before: str, after: str, units: Units, newline: str) -> list[lsp.TextEdit]:
    """The edits of whole lines that turn one text into another; lines of `after` end with a line feed.

    In a text with mixed line ends, a carriage return and a line feed that become adjacent would end one line instead of
    two; such a text is replaced completely.
    """
    from difflib import SequenceMatcher

    old, new = split_lines(before), after.split("\n")
    top = 0
    while top < min(len(old), len(new)) and old[top] == new[top]:
        top += 1
    bottom = 0
    while bottom < min(len(old), len(new)) - top and old[-1 - bottom] == new[-1 - bottom]:
        bottom += 1
    middle_old, middle_new = old[top : len(old) - bottom], new[top : len(new) - bottom]
    blocks = SequenceMatcher(None, middle_old, middle_new, autojunk=False).get_opcodes()
    edits = [
        _lines_replaced(old, (top + first, top + last), middle_new[start:end], units, newline)
        for kind, first, last, start, end in blocks
        if kind != "equal"
    ]
    if "\r" in before and split_lines(_edited(before, edits, units)) != new:
        return [_lines_replaced(old, (0, len(old)), new, units, newline)]
    return edits


def _edited(text: str, edits: Sequence[lsp.TextEdit], units: Units) -> str:
    for edit in reversed(edits):
        text = changed(text, edit.range, edit.new_text, units)
    return text


def _lines_replaced(
    old: Sequence[str], lines: tuple[int, int], new: Sequence[str], units: Units, newline: str
) -> lsp.TextEdit:
    """The edit that replaces the lines from `first` up to, but not including, `last`."""
    first, last = lines
    if last < len(old):
        location = lsp.Range(start=lsp.Position(line=first, character=0), end=lsp.Position(line=last, character=0))
        return lsp.TextEdit(range=location, new_text="".join(line + newline for line in new))
    end = lsp.Position(line=len(old) - 1, character=units.count(old[-1]))
    if first == 0:
        return lsp.TextEdit(
            range=lsp.Range(start=lsp.Position(line=0, character=0), end=end), new_text=newline.join(new)
        )
    start = lsp.Position(line=first - 1, character=units.count(old[first - 1]))
    return lsp.TextEdit(range=lsp.Range(start=start, end=end), new_text="".join(newline + line for line in new))


DRIVE = lazy_pattern(r"^/[A-Za-z]:")

LONGEST_NAME = 60
"""The longest file name made from the URI of a document without a file."""

VIRTUAL = lazy_pattern(r"[/\\]\.virtual_documents(?=[/\\]|$)")
"""A folder that JupyterLab adds to the URI of each notebook."""


def file_of(uri: str) -> str | None:
    """The absolute path of a `file:` URI; None for other URIs (an untitled document).

    A URI with a host (`file://host/share`) is a file on Windows only.
    """
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    if parts.scheme != "file":
        return None
    path = os.fsdecode(unquote_to_bytes(parts.path))
    if DRIVE.match(path):
        path = path[1:]
    if parts.netloc and parts.netloc.lower() != "localhost":
        if os.name != "nt":
            return None
        path = f"//{parts.netloc}{path}"
    path = VIRTUAL.sub("", path)
    return os.path.abspath(path) if path and "\0" not in path else None  # noqa: PTH100 - `resolve` would follow links


def uri_of(path: str) -> str:
    """The URI of a file."""
    return Path(os.path.abspath(path)).as_uri()  # noqa: PTH100 - as above


def name_of(uri: str) -> str:
    """A file name for a document without a file."""
    return re.sub(r"\W+", "-", unquote(uri.partition(":")[2])).strip("-")[:LONGEST_NAME] or "untitled"
