"""What fixes would change, as a unified diff; of a notebook, cell by cell."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import unified_diff

from lintrain.report.text.style import Style
from lintrain.source.source import Source
from lintrain.text.shown import shown

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


def diff(before: Source, after: Source, style: Style) -> Iterator[str]:
    """The lines of the difference between two states of one file."""
    old, new = _parts(before), _parts(after)
    for name in new:
        lines = unified_diff(old.get(name, []), new[name], shown(name), shown(name), lineterm="")
        for number, line in enumerate(lines):
            yield style.paint(line, bold=True) if number < 2 else style.paint(line, COLOURS.get(line[:1]))


def _parts(source: Source) -> dict[str, list[str]]:
    """The code of a script under its name, or of every cell of a notebook under its own."""
    if source.notebook is None:
        return {source.path: source.text.removesuffix("\n").split("\n")}
    return {
        f"{source.path}:cell {cell.number}": [
            source.shown_line(line) for line in range(cell.first_line, cell.last_line + 1)
        ]
        for cell in source.notebook.cells
    }
