"""Where the code of a notebook stands in its .ipynb file."""

from __future__ import annotations

import json

import pytest

from lintrain.model.location import Location
from lintrain.source.reading import read_bytes

CODE = 'a = "\\t\\\\é😀"\n!ls\nf(a)\n'


def in_file(written: str, line: int, column: int, length: int) -> str:
    """What the file has at a place of the joined code."""
    source = read_bytes("n.ipynb", written.encode())
    location = source.location_in_file(Location("n.ipynb", line, column, line, column + length))
    assert location.line == location.end_line
    return written.split("\n")[location.line - 1][location.column - 1 : location.end_column - 1]


def written(source: object, **options: object) -> str:
    markdown: dict[str, object] = {"cell_type": "markdown", "source": ["f(a)"]}
    cells = [markdown, {"cell_type": "code", "source": source, "outputs": []}]
    return json.dumps({"cells": cells, "nbformat": 4}, **options)  # type: ignore[arg-type]  # indent and the like


LAYOUTS = [
    written(CODE.splitlines(keepends=True), indent=1),
    written(CODE, indent=1),
    written(CODE),
    written([CODE[:4], CODE[4:17], CODE[17:]], indent=2),
    written(CODE, ensure_ascii=False),
    written(CODE.replace("\n", "\r\n").splitlines(keepends=True), indent=1),
]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_of_a_cell_is_found_to_the_character(layout: str) -> None:
    assert in_file(layout, 4, 1, 4) == "f(a)"
    assert in_file(layout, 2, 1, 1) == "a"
    assert json.loads(f'"{in_file(layout, 2, 5, 7)}"') == '"\\t\\\\é😀'
    assert in_file(layout, 3, 2, 2) == "ls"


def test_the_line_is_that_of_the_cell_and_not_of_the_same_text_elsewhere() -> None:
    layout = LAYOUTS[0]
    location = read_bytes("n.ipynb", layout.encode()).location_in_file(Location("n.ipynb", 4, 1, 4, 5))
    assert [number for number, line in enumerate(layout.split("\n"), start=1) if '"f(a)\\n"' in line] == [location.line]


def test_a_place_in_a_script_is_where_it_says() -> None:
    location = Location("t.py", 1, 1, 1, 2)
    assert read_bytes("t.py", b"x\n").location_in_file(location) is location
