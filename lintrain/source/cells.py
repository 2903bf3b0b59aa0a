"""The code cells of a notebook, joined into one text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from lintrain.startup.lazy_dataclass import dataclass

MARKER = "# %% cell "
"""Each cell of the joined text begins with such a comment, with the cell's number."""


INDENTED = "if True:  "
"""Before the marker of a cell that starts indented: a notebook accepts such a cell."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One code cell: `number` counts every cell of the notebook from 1, Markdown too.

    Its code stands in the joined text from `first_line` to `last_line`, below a comment line of ours.
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
