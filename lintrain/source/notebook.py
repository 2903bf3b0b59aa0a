"""Notebooks: their code cells joined into one text, and the way back to the lines of the .ipynb file.

A large notebook without its outputs: what only the screen needs is never decoded.

An output of one byte can take twenty-four in memory, and most of the bytes of a large notebook are outputs.

The positions of a notebook's code in its .ipynb file, after the quotes and escapes of its JSON.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import cast

from lintrain.source.magics import INDENTED, MARKER, Cell, Notebook, mask_cell
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

Json = dict[str, object]


class NotebookError(Exception):
    """The text is no notebook, for this reason; `line` is the line where its JSON breaks."""

    def __init__(self, reason: str, line: int = 1) -> None:
        super().__init__(reason)
        self.line = line


def join_cells(text: str) -> tuple[str, Notebook]:
    """The Python code of a notebook as one text, and what is needed to find the way back; raises NotebookError."""
    lines: list[str] = []
    cells: list[Cell] = []
    masked: dict[int, str] = {}
    for number, code in _code_cells(_parse(text)):
        written = code.split("\n")
        read, originals = mask_cell(written)
        lines.append(f"{INDENTED if _starts_indented(read) else ''}{MARKER}{number}")
        cells.append(Cell(number, len(lines) + 1, len(lines) + len(read)))
        masked.update({len(lines) + 1 + index: line for index, line in originals.items()})
        lines.extend(read)
    return "\n".join([*lines, ""]), Notebook(tuple(cells), masked, text)


def _starts_indented(lines: list[str]) -> bool:
    """Whether the first line of code is indented."""
    first = next((line for line in lines if line.strip() and not line.lstrip().startswith("#")), "")
    return first[:1] in {" ", "\t"}


def _parse(text: str) -> Json:
    try:
        notebook: object = json.loads(without_outputs(text)) if text.strip() else {}
    except TooManyValuesError as error:
        raise NotebookError(f"beside its outputs the notebook holds more than {MOST_VALUES:,} JSON values") from error
    except json.JSONDecodeError as error:
        raise NotebookError(f"not a notebook: {error.msg[:1].lower()}{error.msg[1:]}", error.lineno) from error
    except ValueError as error:
        raise NotebookError("not a notebook: a number in it has more digits than Python reads") from error
    if not isinstance(notebook, dict):
        raise NotebookError("not a notebook: its JSON is no object")
    return cast(Json, notebook)


def _code_cells(notebook: Json) -> Iterator[tuple[int, str]]:
    """The number and code of every code cell; of a notebook in another language than Python, none."""
    if not _is_python(notebook):
        return
    for number, cell in enumerate(_cells(notebook), start=1):
        if cell.get("cell_type") == "code":
            yield number, _code(cell).replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")


def _is_python(notebook: Json) -> bool:
    metadata = _object(notebook.get("metadata"))
    kernel, language = _object(metadata.get("kernelspec")), _object(metadata.get("language_info"))
    name = language.get("name") or kernel.get("language") or "python"
    return "python" in str(name).lower()


def _cells(notebook: Json) -> list[Json]:
    """The cells of a notebook; before version 4 of the format they are in worksheets."""
    sheets = _objects(notebook.get("worksheets"))
    return [cell for sheet in sheets for cell in _objects(sheet.get("cells"))] or _objects(notebook.get("cells"))


def _code(cell: Json) -> str:
    """A cell's code: one string or a list of strings, under `input` before version 4 of the format."""
    match cell.get("source", cell.get("input")):
        case str() as code:
            return code
        case list() as parts:  # pyright: ignore[reportUnknownVariableType] - whatever the JSON holds
            return "".join(part for part in cast(list[object], parts) if isinstance(part, str))
        case _:
            return ""


def _object(value: object) -> Json:
    return cast(Json, value) if isinstance(value, dict) else {}


def _objects(value: object) -> list[Json]:
    return [_object(item) for item in cast(list[object], value)] if isinstance(value, list) else []


CELLS_KEY = lazy_pattern(r'"cells"\s*:\s*\[')
SOURCE_KEY = lazy_pattern(r'"(?:source|input)"\s*:\s*')
GAP = lazy_pattern(r"[\s,]*")
DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class WrittenSource:
    """The source of one cell as the text of its file has it: where its value starts and ends."""

    text: str = field(repr=False)
    number: int
    start: int
    end: int

    @property
    def strings(self) -> tuple[tuple[int, str], ...]:
        """The strings that it is made of, with their offsets."""
        first = self.start + self.text.startswith("[", self.start)
        return tuple((offset, str(string)) for offset, string, _ in _values(self.text, first, '"'))


def written_sources(text: str) -> Iterator[WrittenSource]:
    """The sources of all cells of a notebook, as its file has them."""
    text = without_outputs(text)
    number = position = 0
    while key := CELLS_KEY.search(text, position):
        position = key.end()
        for offset, value, end in _values(text, position, "{"):
            number += 1
            position = end
            cell = _object(value)
            wanted = cell.get("source", cell.get("input"))
            for match in SOURCE_KEY.finditer(text, offset):
                found, stop = DECODER.raw_decode(text, match.end())
                if found == wanted:
                    yield WrittenSource(text, number, match.end(), stop)
                    break


def _values(text: str, position: int, first: str) -> Iterator[tuple[int, object, int]]:
    """The JSON values from a position on that start with a character, with where each starts and ends."""
    position = _skip_gap(text, position)
    while text.startswith(first, position):
        value, end = DECODER.raw_decode(text, position)
        yield position, value, end
        position = _skip_gap(text, end)


def _skip_gap(text: str, position: int) -> int:
    gap = GAP.match(text, position)
    return gap.end() if gap else position


SMALL = 4 * 2**20
"""Characters of a notebook that is decoded whole."""

DEEPEST = 1_000
"""Values inside of one another in an output; json gives up there as well."""

MOST_VALUES = 2_000_000
"""JSON values without the outputs; decoded they take less than 300 MB."""

OUTPUT_KEY = lazy_pattern(r'"(?:outputs|attachments|widgets)"[ \t\r\n]*:[ \t\r\n]*(?=[\[{])')
"""Inside of a string, the quotes of such a key have a backslash before them."""

MANY = "*+" if sys.version_info >= (3, 11, 5) else "*"
"""Before 3.11.5, Python's re matches too little of a group that gives nothing back (gh-106052); Debian 12 has it."""

STRING = rf'"(?:[^"\\]++|\\[\s\S]){MANY}"'
UP_TO_BRACKET = lazy_pattern(
    rf"""(?:[^"\[\]{{}}]++|{STRING}|\[[^"\[\]{{}}]*+\]|\{{(?:[^"\[\]{{}}]++|{STRING}){MANY}\}}){MANY}"""
    r"(?P<bracket>[\[\]{}])"
)
"""Past strings, numbers, and the arrays and objects that hold nothing deeper."""


class TooManyValuesError(Exception):
    """A notebook with more values, outputs excluded, than are decoded."""


def is_large_notebook(path: str) -> bool:
    """Whether a path names a notebook that is not decoded whole."""
    try:
        return path.endswith(".ipynb") and os.stat(path).st_size > SMALL  # noqa: PTH116 - paths are strings here
    except (OSError, ValueError):
        return False


def without_outputs(text: str) -> str:
    """The JSON of a notebook in which blanks stand for the outputs, each character and line at its place.

    Text that is broken inside of an output goes unnoticed. Small notebooks stay as they are.
    Raises TooManyValuesError, and RecursionError as json does.
    """
    if len(text) <= SMALL:
        return text
    pieces = list[str]()
    behind = 0
    while key := OUTPUT_KEY.search(text, behind):
        end = _end_of_value(text, key.end())
        pieces += (text[behind : key.end()], _blanked(text[key.end() : end]))
        behind = end
    slim = "".join([*pieces, text[behind:]])
    if sum(map(slim.count, ",[{")) > MOST_VALUES:
        raise TooManyValuesError
    return slim


def _end_of_value(text: str, start: int) -> int:
    """Where the array or object ends that starts there; the end of the text where it has none."""
    depth, position = 1, start + 1
    while found := UP_TO_BRACKET.match(text, position):
        position = found.end()
        depth += 1 if found["bracket"] in "[{" else -1
        if depth == 0:
            return position
        if depth > DEEPEST:
            raise RecursionError("nested too deeply")
    return len(text)


def _blanked(value: str) -> str:
    """An empty value with as many characters and lines; nothing for one without an end, so that JSON refuses it."""
    if value[-1:] not in {"]", "}"}:
        return ""
    blanks = "\n".join(" " * len(line) for line in value[1:-1].split("\n"))
    return value[0] + blanks + ("]" if value[0] == "[" else "}")


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
