"""The positions of a notebook's code in its .ipynb file, after the quotes and escapes of its JSON."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lintrain.source.cells import Notebook
from lintrain.source.notebook import WrittenSource
from lintrain.startup.lazy_pattern import lazy_pattern

LINE_END = lazy_pattern(r"\r\n|\r|\n")
ESCAPE = lazy_pattern(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\\]", re.DOTALL
)
"""What stands for one character in a JSON string: those outside the basic plane may take two escapes."""


def point_in_json(notebook: Notebook, sources: Mapping[int, WrittenSource], line: int, column: int) -> tuple[int, int]:
    """Line and column of the file for those of the joined text, all from 1; the first line where none is known."""
    cell = notebook.cell_at(line)
    written = sources.get(cell.number) if cell else None
    if cell is None or written is None or not written.strings:
        return 1, 1
    code = "".join(string for _, string in written.strings)
    offset = _offset(notebook.json, written.strings, _index(code, line - cell.first_line, column - 1))
    return notebook.json.count("\n", 0, offset) + 1, offset - notebook.json.rfind("\n", 0, offset)


def line_in_json(notebook: Notebook, sources: Mapping[int, WrittenSource], line: int) -> int:
    """The line of the file for one of the joined text; the same number if none is known.

    A string that holds several lines of a cell has them all on one line of the file.
    """
    cell = notebook.cell_at(line)
    written = sources.get(cell.number) if cell else None
    if cell is None or written is None:
        return line
    offset, first = None, cell.first_line
    for start, string in written.strings:
        behind = first + string.count("\n")
        if first <= line < behind + (string[-1:] not in {"", "\n"}):
            offset = start
        first = behind
    return line if offset is None else notebook.json.count("\n", 0, offset) + 1


def _index(code: str, line: int, column: int) -> int:
    """The character of a cell's code at a line and column from 0, at most the end of that line."""
    ends = list(LINE_END.finditer(code))
    start = 0 if line == 0 else ends[line - 1].end() if line <= len(ends) else len(code)
    stop = ends[line].start() if line < len(ends) else len(code)
    return min(start + column, max(start, stop))


def _offset(text: str, strings: Sequence[tuple[int, str]], index: int) -> int:
    """The offset in the file of a character of a cell's code."""
    for number, (quote, string) in enumerate(strings):
        if index < len(string) or number == len(strings) - 1:
            return _past(text, quote + 1, min(index, len(string)))
        index -= len(string)
    return 0


def _past(text: str, offset: int, characters: int) -> int:
    """The offset after so many characters of a JSON string."""
    for _ in range(characters):
        match = ESCAPE.match(text, offset)
        offset = match.end() if match else offset + 1
    return offset
