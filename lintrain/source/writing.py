"""From edited code back to the bytes of its file: what was not edited does not change."""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import cast

from lintrain.source.magics import INDENTED, MARKER, Notebook
from lintrain.source.notebook import WrittenSource, written_sources
from lintrain.source.source import MIXED, Source, Writing
from lintrain.startup.lazy_pattern import lazy_pattern

TAG = "# lintrain line "
TAGGED = lazy_pattern(rf"(?P<code>.*?) *{TAG}(?P<line>\d+)$")
TIMED = lazy_pattern(r"(?P<indent>\s*)0;   (?P<code>.*)")


class CellsBrokenError(Exception):
    """An edit that does not keep the cells of a notebook separate."""


def editable_text(source: Source) -> str:
    """The code to edit; of a notebook, each masked line carries a comment by which it is found again."""
    if source.notebook is None:
        return source.text
    lines = list(source.lines)
    for line in source.notebook.masked:
        code = lines[line - 1]
        lines[line - 1] = f"{code}  {TAG}{line}" if code.strip() else f"{TAG}{line}"
    return "\n".join(lines)


def file_bytes(source: Source, edited: str, original: bytes) -> bytes:
    """The whole file with its code edited; raises CellsBrokenError."""
    return _encode(edited_text(source, edited), source.writing, original)


def edited_text(source: Source, edited: str) -> str:
    """The text of the whole file with its code edited, its lines ended by a line feed; raises CellsBrokenError."""
    if source.notebook is None:
        return edited
    codes = _codes_by_cell(source.notebook, edited)
    before = _codes_by_cell(source.notebook, editable_text(source))
    changed = {number: code for number, code in codes.items() if code != before[number]}
    return _with_sources(source.notebook.json, changed)


def _codes_by_cell(notebook: Notebook, edited: str) -> dict[int, str]:
    """The code of every cell by its number; what an edit put above the first cell belongs to it."""
    markers = [f"{MARKER}{cell.number}" for cell in notebook.cells]
    codes: list[list[str]] = [[]]
    for line in edited.removesuffix("\n").split("\n"):
        if len(codes) <= len(markers) and line.removeprefix(INDENTED) == markers[len(codes) - 1]:
            codes.append([])
        else:
            codes[-1].append(_unmasked(notebook, line))
    if len(codes) != len(markers) + 1:
        raise CellsBrokenError("the edit does not keep the cells of the notebook separate")
    above, *rest = codes
    if rest:
        rest[0][:0] = [line for line in above if line.strip()]
    return {cell.number: "\n".join(lines) for cell, lines in zip(notebook.cells, rest, strict=True)}


def _unmasked(notebook: Notebook, line: str) -> str:
    tagged = TAGGED.fullmatch(line)
    if tagged is None:
        return line
    timed = TIMED.fullmatch(tagged["code"])
    return f"{timed['indent']}%time{timed['code']}" if timed else notebook.masked[int(tagged["line"])]


def _with_sources(text: str, codes: Mapping[int, str]) -> str:
    for written in reversed(list(written_sources(text))):
        if written.number in codes:
            before = _joined(json.loads(text[written.start : written.end]))
            code = codes[written.number]
            # A cell that was pasted from elsewhere may end its lines with a carriage return of its own.
            code = _with_line_ends_of(before, code) if "\r" in before else code
            text = text[: written.start] + _rewritten(text, written, code) + text[written.end :]
    return text


def _joined(source: object) -> str:
    """The code of a cell's source; raises CellsBrokenError where it holds what is no text, for that has no place."""
    parts = cast(list[object], source) if isinstance(source, list) else [source]
    texts = [part for part in parts if isinstance(part, str)]
    if len(texts) < len(parts):
        raise CellsBrokenError("a cell of the notebook holds more than text")
    return "".join(texts)


def _rewritten(text: str, written: WrittenSource, code: str) -> str:
    """The JSON value of a cell's source, laid out as the one that it replaces."""
    ascii_only = text.isascii()
    if not text.startswith("[", written.start):
        return json.dumps(code, ensure_ascii=ascii_only)
    first = written.strings[0][0] if written.strings else written.end - 1
    opening = text[written.start + 1 : first]
    held = text[first : written.end - 1]
    closing = held[len(held.rstrip()) :]
    lines = [json.dumps(line, ensure_ascii=ascii_only) for line in _lines_with_ends(code)]
    return f"[{opening}{f',{opening or chr(32)}'.join(lines)}{closing}]"


def _encode(text: str, writing: Writing, original: bytes) -> bytes:
    if writing.newline == MIXED:
        text = _with_line_ends_of(original.decode(writing.encoding), text)
    elif writing.newline != "\n":
        text = text.replace("\n", writing.newline)
    return (codecs.BOM_UTF8 if writing.marked else b"") + text.encode(writing.encoding)


def _lines_with_ends(code: str) -> list[str]:
    return [line for line in re.split(r"(?<=\n)", code) if line]


def _with_line_ends_of(original: str, text: str) -> str:
    """A text whose lines end as they did in the original; new lines end as most of that one's do."""
    parts = re.split(r"(\r\n|\r|\n)", original)
    before, ends = parts[::2], parts[1::2]
    after = text.split("\n")
    usual = max(ends, key=ends.count)
    result = dict.fromkeys(range(len(after) - 1), usual)
    for old, new, size in SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
        result.update((new + step, ends[old + step]) for step in range(size) if old + step < len(ends))
    return "".join(_kept_apart([line + result.get(index, "") for index, line in enumerate(after)]))


def _kept_apart(lines: Sequence[str]) -> Iterator[str]:
    """Lines with their ends; a line feed alone would be a part of the end before it where that is a carriage return."""
    for above, line in pairwise(("", *lines)):
        yield "\r\n" if line == "\n" and above.endswith("\r") else line
