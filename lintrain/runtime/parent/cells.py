"""A notebook's cells as a probe runs them: what is Python, and the magics that change the process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lintrain.source.cells import Cell, Notebook
from lintrain.source.magics import PYTHON_CELL_MAGICS
from lintrain.source.reading import UnreadableError, read_file
from lintrain.source.source import Source
from lintrain.startup.lazy_pattern import lazy_pattern

CARRIED_OUT = lazy_pattern(r"(?P<indent>\s*)%?(?P<magic>cd|env|set_env)\s+(?P<rest>\S.*)")
"""Magics that what follows depends on; every other one shows something, measures time, or sets IPython up."""

SHELL_MAGICS = "alias|cat|conda|cp|less|load|ls|mamba|mkdir|more|mv|pip|rm|rmdir|run|sx|system|uv"
SHELL = lazy_pattern(rf"(?:[\w.,\s\[\]'\"]+?=\s*)?\s*(?:!.*|%?(?:{SHELL_MAGICS})\b.*)")
MOST_CHARACTERS = 60


def cells_of(path: Path) -> tuple[dict[str, Any], tuple[str, ...]]:
    """What the probed process needs to run a notebook, and what of it is skipped; raises UnreadableError."""
    source = read_file(str(path))
    if source.notebook is None:
        raise UnreadableError("not a notebook")
    document: dict[str, Any] = {
        "path": str(path.absolute()),
        "lines": [_as_run(source, number) for number in range(1, len(source.lines) + 1)],
        "cells": [(cell.number, cell.first_line, cell.last_line) for cell in source.notebook.cells],
    }
    return document, tuple(_skipped(source.notebook))


def _as_run(source: Source, line: int) -> str:
    """A line of the joined text; a magic that is executed calls the shell that the process is given."""
    original = source.notebook.masked.get(line, "") if source.notebook else ""
    match = CARRIED_OUT.fullmatch(original)
    if match is None or not source.lines[line - 1].strip():
        return source.lines[line - 1]
    return f"{match['indent']}get_ipython().run_line_magic({match['magic']!r}, {match['rest'].strip()!r})"


def _skipped(notebook: Notebook) -> Iterator[str]:
    """What is not Python and is not executed, in the words of the report."""
    for cell in notebook.cells:
        masked = [line for line in range(cell.first_line, cell.last_line + 1) if line in notebook.masked]
        if masked and _is_other_language(notebook.masked[masked[0]]):
            yield f"cell {cell.number} was skipped: `{_clipped(notebook.masked[masked[0]])}`"
            continue
        yield from (_skipped_line(notebook, cell, line) for line in masked if SHELL.fullmatch(notebook.masked[line]))


def _skipped_line(notebook: Notebook, cell: Cell, line: int) -> str:
    return f"cell {cell.number}, line {line - cell.first_line + 1} was skipped: `{_clipped(notebook.masked[line])}`"


def _is_other_language(line: str) -> bool:
    return line.startswith("%%") and line[2:].split()[:1] not in [[magic] for magic in PYTHON_CELL_MAGICS]


def _clipped(line: str) -> str:
    text = line.strip()
    return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - 2]} …"
