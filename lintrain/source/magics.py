"""IPython's own syntax, masked so that Python's parser reads the cell and every line and column stays the same.

The code cells of a notebook, joined into one text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field

from lintrain.source.parsing import parse
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern

PYTHON_CELL_MAGICS = {"capture", "debug", "ipytest", "memit", "prun", "pypy", "python", "python3", "time", "timeit"}
"""Cell magics whose cell is Python code of this notebook; every other cell magic reads another language."""

AUTOMAGICS = {
    *("alias", "cat", "cd", "conda", "config", "cp", "env", "less", "load", "load_ext", "ls", "mamba", "man"),
    *("matplotlib", "mkdir", "more", "mv", "notebook", "pip", "precision", "prun", "pylab", "reload_ext", "rm"),
    *("rmdir", "run", "set_env", "system", "time", "timeit", "uv", "watermark", "who", "whos"),
}
"""Magics that a cell of one line may use without its `%`."""

BARE_AUTOMAGICS = {"cd", "ls", "pwd", "who", "whos"}
"""Of these a name alone is a command too, not a variable that is displayed."""

PROMPT = lazy_pattern(r"(?:>>>|\.\.\.)(?: |$)")
SYSTEM_LINE = lazy_pattern(r"\s*(?:[%!]|\?{1,2}\s*[\w.%*]|[,;/]\w+ )")
HELP_LINE = lazy_pattern(r"\s*%{0,2}[\w.*\[\]'\"]+\?{1,2}\s*(?:#.*)?$")
ASSIGNED_LINE = lazy_pattern(r"(?P<target>[\w.,\s\[\]'\"]*[\w.,\[\]'\"]\s*=\s*)(?P<command>(?:!|%(?=[A-Za-z])).*)")
MAGIC = lazy_pattern(r"^\s*[%!?,;/]|\?\s*(?:#|$)|=\s*[!%]")
"""What every line that is masked matches."""

TIMED_LINE = lazy_pattern(r"(?P<indent>\s*)%time(?P<code>\s+[^-\s].*)")
TOKEN = lazy_pattern(r"#.*|'''|\"\"\"|'(?:\\.|[^'\\])*'?|\"(?:\\.|[^\"\\])*\"?|[\[({]|[\])}]")
ENDS = {quotes: lazy_pattern(rf"(?:\\.|(?!{quotes}).)*{quotes}") for quotes in ("'''", '"""')}


def mask_cell(lines: list[str]) -> tuple[list[str], dict[int, str]]:
    """The lines of a cell as Python reads them, and the original of each changed line by its index."""
    masked = list(lines)
    first = next((index for index, line in enumerate(lines) if line.strip()), None)
    if first is not None and lines[first].startswith("%%"):
        _mask_cell_magic(masked, first)
    elif first is not None and not any(line.strip() for line in lines[first + 1 :]):
        _mask_automagic(masked, first)
    elif first is not None and PROMPT.match(lines[first]):
        _mask_prompts(masked)
    for index in _statement_starts(masked, _behind_magics(masked)):
        _mask_statement(masked, index)
    return masked, {index: line for index, line in enumerate(lines) if masked[index] != line}


def _mask_cell_magic(lines: list[str], first: int) -> None:
    words = lines[first][2:].split()
    other_language = not words or words[0] not in PYTHON_CELL_MAGICS
    for index in range(first, len(lines) if other_language else first + 1):
        lines[index] = ""


def _mask_automagic(lines: list[str], index: int) -> None:
    """A cell of one line may leave the `%` out: `pip install peft`. What is Python is read as Python."""
    word, _, rest = lines[index].strip().partition(" ")
    if PROMPT.match(lines[index]):
        _mask_prompts(lines)
    elif rest and word in AUTOMAGICS and not _is_python(lines[index]):
        timed = f"0;   {rest}" if word == "time" else ""
        lines[index] = timed if timed and _is_python(timed) else "pass"
    elif word in BARE_AUTOMAGICS and not rest:
        lines[index] = "pass"


def _is_python(line: str) -> bool:
    try:
        parse(line)
    except (SyntaxError, ValueError):
        return False
    return True


def _mask_prompts(lines: list[str]) -> None:
    """A cell copied from a session of the interpreter: its prompts become indentation, which a cell may start with."""
    if all(PROMPT.match(line) or not line.strip() for line in lines):
        lines[:] = [f"    {line[4:]}" if line.strip() else line for line in lines]


def _behind_magics(lines: list[str]) -> int:
    """The index after the last line that may be masked: most cells have none, and are not searched."""
    for index in range(len(lines) - 1, -1, -1):
        line = lines[index]
        # For most lines the test of the signs decides, at a tenth of the pattern's cost.
        has_sign = "%" in line or "!" in line or "?" in line or line.lstrip().startswith((",", ";", "/"))
        if has_sign and MAGIC.search(line):
            return index + 1
    return 0


def _mask_statement(lines: list[str], index: int) -> None:
    line = lines[index]
    timed = TIMED_LINE.fullmatch(line)
    assigned = ASSIGNED_LINE.fullmatch(line)
    if timed:
        lines[index] = f"{timed['indent']}0;   {timed['code']}"
    elif SYSTEM_LINE.match(line) or HELP_LINE.fullmatch(line):
        _mask_lines(lines, index, f"{line[: len(line) - len(line.lstrip())]}pass")
    elif assigned:
        _mask_lines(lines, index, f"{assigned['target']}get_ipython()")


def _mask_lines(lines: list[str], index: int, replacement: str) -> None:
    """Replace a line, and empty the ones that a backslash joins to it."""
    continued = lines[index].endswith("\\")
    lines[index] = replacement
    while continued and index + 1 < len(lines):
        index += 1
        continued = lines[index].endswith("\\")
        lines[index] = ""


def _statement_starts(lines: list[str], end: int) -> Iterator[int]:
    """The indexes before `end` of lines that start outside every bracket and string; lines are masked meanwhile."""
    depth, quotes, continued = 0, "", False
    for index in range(end):
        if not depth and not quotes and not continued:
            yield index
        line = lines[index]
        depth, quotes = _scan(line, depth, quotes)
        continued = line.endswith("\\")


def _scan(line: str, depth: int, quotes: str) -> tuple[int, str]:
    """How many brackets are open after a line, and the triple quotes that are."""
    position = 0
    while position < len(line):
        if quotes:
            end = ENDS[quotes].match(line, position)
            if end is None:
                return depth, quotes
            position, quotes = end.end(), ""
            continue
        token = TOKEN.search(line, position)
        if token is None:
            break
        position = token.end()
        if token[0] in ENDS:
            quotes = token[0]
        else:
            depth = max(0, depth + (token[0] in "[({") - (token[0] in "])}"))
    return depth, quotes


MARKER = "# %% cell "
"""Each cell of the joined text begins with such a comment, with the cell's number."""


INDENTED = "if True:  "
"""Before the marker of a cell that starts indented: a notebook accepts such a cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One code cell: `number` counts every cell of the notebook from 1, Markdown too.

    Its code is in the joined text from `first_line` to `last_line`, below a comment line that lintrain adds.
    """

    number: int
    first_line: int
    last_line: int


@dataclass(frozen=True, slots=True)
class Notebook:
    """What is lost in a joined text: its cells, and the lines (by their number) that were masked for the parser.

    `json` is the text of the .ipynb file.
    """

    cells: tuple[Cell, ...]
    masked: Mapping[int, str]
    json: str = field(repr=False)

    def cell_at(self, line: int) -> Cell | None:
        """The cell that holds a line of the joined text."""
        return next((cell for cell in self.cells if cell.first_line <= line <= cell.last_line), None)


@dataclass(frozen=True, slots=True)
class CellLocation:
    """A location as people see it: in a notebook the cell and the line in it; columns count characters from 1.

    `file_line` is the line of the file itself, which in a notebook is a line of its JSON.
    """

    cell: int | None
    line: int
    column: int
    file_line: int
