"""Large notebooks are read without their outputs, and everything else of them as before."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from lintrain.source import notebook as notebook_source
from lintrain.source.notebook import NotebookError, TooManyValuesError, join_cells, without_outputs, written_sources
from lintrain.source.reading import read_file
from lintrain.source.writing import edited_text


def notebook(*cells: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"cells": list(cells), "metadata": {}, "nbformat": 4, "nbformat_minor": 5, **more}


def cell(source: Any, output: Any) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "outputs": output, "metadata": {}, "execution_count": 1}


def some_value(chance: random.Random, depth: int = 4) -> Any:
    kinds = ["", 'a"b', 'outputs": [', "\\", "]}", "é\n", 1.5, True, None]
    if depth == 0 or chance.random() < 0.3:
        return chance.choice(kinds)
    if chance.random() < 0.5:
        return [some_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {str(chance.choice(kinds)): some_value(chance, depth - 1) for _ in range(chance.randrange(4))}


@pytest.fixture
def all_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook_source, "SMALL", 0)


@pytest.mark.usefixtures("all_large")
@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("indent", [None, 1])
def test_only_outputs_are_blank_and_everything_keeps_its_place(seed: int, indent: int | None) -> None:
    chance = random.Random(seed)
    codes = ["import torch\n", ["a = '\"outputs\": ['\n", "b = {}"], "print('\\\\')"]
    written = notebook(*(cell(code, [some_value(chance)]) for code in codes))
    text = json.dumps(written, indent=indent, ensure_ascii=bool(seed % 2))
    slim = without_outputs(text)
    assert len(slim) == len(text)
    assert [at for at, sign in enumerate(slim) if sign == "\n"] == [at for at, sign in enumerate(text) if sign == "\n"]
    emptied = notebook(*(cell(code, []) for code in codes))
    assert json.loads(slim) == emptied
    locations = [(found.number, found.start, found.end) for found in written_sources(text)]
    assert [json.loads(text[start:end]) for _, start, end in locations] == codes


@pytest.mark.usefixtures("all_large")
def test_a_fix_leaves_the_outputs_in_the_file() -> None:
    text = json.dumps(notebook(cell("import torch\nx = 1", [{"data": {"image/png": "aGVsbG8="}}])))
    joined, digest = join_cells(text)
    from lintrain.source.source import Source

    edited = edited_text(Source("a.ipynb", joined, digest), joined.replace("x = 1", "x = 2"))
    assert edited == text.replace("x = 1", "x = 2")


@pytest.mark.usefixtures("all_large")
@pytest.mark.parametrize("end", ["", "]", '"', "{", "[[1, 2]"])
def test_outputs_without_an_end_are_no_notebook(end: str) -> None:
    with pytest.raises(NotebookError, match="not a notebook"):
        join_cells('{"cells": [{"cell_type": "code", "source": "x", "outputs": [{"a": ' + end)


def test_too_many_values_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(notebook_source, "SMALL", 0)
    monkeypatch.setattr(notebook_source, "MOST_VALUES", 50)
    text = json.dumps(notebook(*(cell("x", [1] * 100) for _ in range(4)), more=[[]] * 60))
    with pytest.raises(TooManyValuesError):
        without_outputs(text)
    with pytest.raises(NotebookError, match="more than 50 JSON values"):
        join_cells(text)


def test_a_small_notebook_is_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "small.ipynb"
    file.write_text(json.dumps(notebook(cell("import torch\n", [{"broken": 1}]))))
    source = read_file(str(file))
    assert source.notebook is not None
    assert without_outputs(source.notebook.json) is source.notebook.json
