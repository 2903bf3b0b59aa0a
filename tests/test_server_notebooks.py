"""Notebooks in an editor: cells are texts of their own, and findings stand in the cell."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.language_client import PULLS, Json, LanguageClient, applied, span
from tests.support.notebooks import notebook
from tests.test_server import LOOP, Connect, connect, rules, written

__all__ = ["connect"]

SETUP, TRAIN = LOOP.split("for step")
CELLS = (SETUP, "#md A title", f"for step{TRAIN}")
LISTENS: Json = {"notebookDocument": {"synchronization": {}}}


def cell_uri(path: Path, number: int) -> str:
    return f"vscode-notebook-cell:{path.as_posix()}#{number}"


def open_notebook(client: LanguageClient, path: Path, cells: tuple[str, ...]) -> list[str]:
    """Open a notebook as VS Code does; gives the addresses of its code cells."""
    uris = [cell_uri(path, number) for number in range(len(cells))]
    kinds = [1 if cell.startswith("#md") else 2 for cell in cells]
    texts = [
        {"uri": uri, "languageId": "python", "version": 1, "text": cell}
        for uri, kind, cell in zip(uris, kinds, cells, strict=True)
        if kind == 2
    ]
    listed = [{"kind": kind, "document": uri} for uri, kind in zip(uris, kinds, strict=True)]
    document = {"uri": path.as_uri(), "notebookType": "jupyter-notebook", "version": 1, "cells": listed}
    client.notify("notebookDocument/didOpen", {"notebookDocument": document, "cellTextDocuments": texts})
    return uris


def change(client: LanguageClient, path: Path, version: int, cells: Json) -> None:
    document = {"uri": path.as_uri(), "version": version}
    client.notify("notebookDocument/didChange", {"notebookDocument": document, "change": {"cells": cells}})


def edit(uri: str, version: int, *changes: Json) -> Json:
    return {"textContent": [{"document": {"uri": uri, "version": version}, "changes": list(changes)}]}


def test_a_finding_stands_in_its_cell(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    first, _, last = open_notebook(client, tmp_path / "train.ipynb", CELLS)
    (found,) = client.diagnostics(last)
    assert (found["code"], found["range"]) == ("missing-zero-grad", span(2, 4, 19))
    assert client.diagnostics(first) == []


def test_a_cell_is_asked_about_by_a_client_that_pulls(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS | PULLS)
    first, _, last = open_notebook(client, tmp_path / "train.ipynb", CELLS)
    found = [client.ask("textDocument/diagnostic", {"textDocument": {"uri": uri}})["items"] for uri in (first, last)]
    assert list(map(rules, found)) == [[], ["missing-zero-grad"]]
    assert client.told == []


def test_an_edit_of_a_cell_is_taken_in(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    path = tmp_path / "train.ipynb"
    *_, last = open_notebook(client, path, CELLS)
    client.diagnostics(last, 1)
    change(client, path, 2, edit(last, 2, {"range": span(2, 0, 0), "text": "    optimizer.zero_grad()\n"}))
    assert client.diagnostics(last, 2) == []


def test_cells_that_come_and_go_are_taken_in(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    path = tmp_path / "train.ipynb"
    *_, last = open_notebook(client, path, CELLS)
    assert rules(client.diagnostics(last)) == ["missing-zero-grad"]
    new = cell_uri(path, 9)
    opened = {"uri": new, "languageId": "python", "version": 1, "text": "net = undefined()\n"}
    array = {"start": 1, "deleteCount": 2, "cells": [{"kind": 2, "document": new}]}
    change(client, path, 2, {"structure": {"array": array, "didOpen": [opened], "didClose": [{"uri": last}]}})
    assert client.diagnostics(last) == []
    assert rules(client.diagnostics(new)) == ["undefined-name"]


def test_a_fix_edits_the_cell(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    *_, last = open_notebook(client, tmp_path / "train.ipynb", CELLS)
    for action in client.actions(last, span(2, 0, 5))[::3]:
        assert set(action["edit"]["changes"]) == {last}
        assert "    optimizer.zero_grad()\n    loss.backward()" in applied(CELLS[2], action["edit"]["changes"][last])


def test_a_lens_and_a_hover_stand_in_the_cell(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    first, _, last = open_notebook(client, tmp_path / "train.ipynb", CELLS)
    (lens,) = client.ask("textDocument/codeLens", {"textDocument": {"uri": last}})
    assert (lens["range"]["start"]["line"], lens["command"]["arguments"]) == (0, [(tmp_path / "train.ipynb").as_uri()])
    assert client.ask("textDocument/codeLens", {"textDocument": {"uri": first}}) == []
    here = {"textDocument": {"uri": last}, "position": {"line": 2, "character": 6}}
    assert "missing-zero-grad" in client.ask("textDocument/hover", here)["contents"]["value"]


def test_a_magic_is_no_error(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    first, *_ = open_notebook(client, tmp_path / "train.ipynb", ("%pip install torch\n" + SETUP,))
    assert client.diagnostics(first) == []


def test_a_closed_notebook_has_no_diagnostics(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    path = tmp_path / "train.ipynb"
    first, _, last = open_notebook(client, path, CELLS)
    assert rules(client.diagnostics(last)) == ["missing-zero-grad"]
    closed = [{"uri": first}, {"uri": last}]
    client.notify(
        "notebookDocument/didClose", {"notebookDocument": {"uri": path.as_uri()}, "cellTextDocuments": closed}
    )
    assert client.diagnostics(last) == []


def test_a_notebook_that_is_open_as_json_has_its_findings_in_the_json(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(*CELLS))
    uri = client.open(path, language="json")
    (found,) = client.diagnostics(uri)
    line = path.read_text().split("\n")[found["range"]["start"]["line"]]
    assert line[found["range"]["start"]["character"] : found["range"]["end"]["character"]] == "loss.backward()"
    (action,) = client.actions(uri, found["range"], ["source.fixAll"])
    after = json.loads(applied(path.read_text(), action["edit"]["changes"][uri]))
    assert "    optimizer.zero_grad()\n" in after["cells"][2]["source"]


def test_broken_json_is_a_finding_and_the_server_goes_on(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    path = tmp_path / "train.ipynb"
    path.write_text(notebook(*CELLS)[:-60] + "}")
    uri = client.open(path, language="json")
    (found,) = client.diagnostics(uri, 1)
    assert found["code"] == "unreadable-file"
    client.change(uri, 2, {"text": notebook(*CELLS)})
    assert rules(client.diagnostics(uri, 2)) == ["missing-zero-grad"]


def test_a_broken_file_below_an_open_notebook_does_not_matter(connect: Connect, tmp_path: Path) -> None:
    client = connect(LISTENS)
    (tmp_path / "train.ipynb").write_text("{ broken")
    *_, last = open_notebook(client, tmp_path / "train.ipynb", CELLS)
    assert rules(client.diagnostics(last)) == ["missing-zero-grad"]


def test_cells_as_one_text_are_python(connect: Connect, tmp_path: Path) -> None:
    client = connect()
    uri = client.open((tmp_path / "train.ipynb").as_uri(), LOOP)
    assert rules(client.diagnostics(uri)) == ["missing-zero-grad"]


def test_a_notebook_of_jupyterlab_imports_what_lies_beside_it(connect: Connect, tmp_path: Path) -> None:
    virtual = tmp_path / ".virtual_documents"
    setup, loop = LOOP.split("for step")
    written(tmp_path, f"{setup}\ndef log(loss):\n    print(float(loss))\n", "below/model.py")
    text = f"import torch\nfrom model import log, net, optimizer\n\nfor step{loop}    log(optimizer)\n"
    client = connect(folders=[virtual])
    uri = client.open((virtual / "below" / "train.ipynb").as_uri(), text)
    assert rules(client.diagnostics(uri, 1)) == ["missing-zero-grad"]
    (tmp_path / "lintrain.toml").write_text('[per-file-ignores]\n"below/*" = ["missing-zero-grad"]\n')
    client.change(uri, 2, {"text": text})
    assert client.diagnostics(uri, 2) == []
