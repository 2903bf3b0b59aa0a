"""Notebooks: their code cells joined into one text, and the way back to the lines of the .ipynb file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import field
from typing import cast

from lintrain.source.cells import INDENTED, MARKER, Cell, Notebook
from lintrain.source.magics import mask_cell
from lintrain.source.outputs import MOST_VALUES, TooManyValuesError, without_outputs
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
    """The cells of a notebook; before version 4 of the format they lie in worksheets."""
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
