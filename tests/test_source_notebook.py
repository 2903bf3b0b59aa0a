"""Notebooks as sources: cells, magics, and the way back."""

from __future__ import annotations

import ast
import json
from contextlib import suppress

import pytest

from lintrain.model.location import Location
from lintrain.source.reading import UnreadableError, read_bytes
from lintrain.source.source import Source
from lintrain.source.writing import editable_text, file_bytes
from tests.support.notebooks import notebook


def source_of(*cells: str, indent: int | None = 1, as_lists: bool = True) -> Source:
    return read_bytes("n.ipynb", notebook(*cells, indent=indent, as_lists=as_lists).encode())


def location_of(source: Source, code: str) -> Location:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.expr) and source.code(source.location(node)) == code:
            return source.location(node)
    raise AssertionError(f"no {code} in {source.text}")


def test_a_place_is_found_by_cell_and_line_and_markdown_cells_are_counted() -> None:
    source = source_of("#md hello", "x = 1\ny = f(x)", "z = g(y)")
    location = source.locate(location_of(source, "g(y)"))
    assert (location.cell, location.line, location.column) == (3, 1, 5)


@pytest.mark.parametrize("indent", [1, 4])
def test_the_line_of_the_file_itself_is_known(indent: int) -> None:
    source = source_of("#md hello", "x = 1\n\ny = f(x)", "z = g(y)", indent=indent)
    assert source.notebook
    file_lines = source.notebook.json.split("\n")
    for code in ("f(x)", "g(y)"):
        assert code in file_lines[source.locate(location_of(source, code)).file_line - 1]


def test_a_cell_written_as_one_string_lies_on_one_line_of_the_file() -> None:
    source = source_of("x = 1\ny = f(x)", as_lists=False)
    assert source.notebook
    line = source.locate(location_of(source, "f(x)")).file_line
    assert "f(x)" in source.notebook.json.split("\n")[line - 1]


def test_of_strings_that_share_a_line_of_a_cell_the_last_with_text_tells_the_line_of_the_file() -> None:
    cell = {"cell_type": "code", "source": ["x = 1\n", "y = ", "f(x)", ""]}
    source = read_bytes("n.ipynb", json.dumps({"cells": [cell]}, indent=1).encode())
    assert source.notebook
    line = source.locate(location_of(source, "y")).file_line
    assert "f(x)" in source.notebook.json.split("\n")[line - 1]


def test_a_notebook_on_one_line_has_everything_there() -> None:
    source = source_of("x = 1\ny = f(x)", indent=None)
    assert source.locate(location_of(source, "f(x)")).file_line == 1


@pytest.mark.parametrize(
    "line",
    [
        "%matplotlib inline",
        "!pip install 'datasets",
        "!echo (",
        "?f",
        "f?",
        "model.fit??",
        "/f 1 2",
        "  ;f 1 2",
        "%%time",
        "%%capture out",
        "%time x = 1",
        "%timeit -n 10 f(x)",
        "files = !ls",
        "here = %pwd",
        "if True:\n    !ls\n    %cd ..",
        "!pip install \\\n    datasets \\\n    peft",
        "text = '''\n%not a magic\n'''",
        "z = (7\n  % 4)",
        "z = 7 \\\n  % 4",
    ],
)
def test_code_below_a_magic_keeps_its_place(line: str) -> None:
    source = source_of(f"{line}\nfound = f(1)")
    location = source.locate(location_of(source, "f(1)"))
    assert (location.line, location.column) == (line.count("\n") + 2, 9)


def test_code_that_only_looks_like_magic_stays() -> None:
    assert "%not a magic" in source_of("text = '''\n%not a magic\n'''").text
    assert "% 4" in source_of("z = (7\n  % 4)").text


@pytest.mark.parametrize("line", ["pip install -q peft", "load_ext autoreload", "cd ..", "ls", "time train("])
def test_a_cell_of_one_line_may_leave_out_the_percent_sign(line: str) -> None:
    assert [type(node) for node in source_of(line, "x = 1").tree.body] == [ast.Pass, ast.Assign]


def test_a_cell_of_one_line_that_is_python_stays() -> None:
    assert source_of("run = f(1)", "time (1)", "env").lines[1::2] == ["run = f(1)", "time (1)", "env"]


def test_a_timed_statement_without_its_percent_sign_is_read_in_its_place() -> None:
    source = source_of("time trainer.train()")
    assert source.location(source.tree.body[1]).column == 6


def test_without_its_percent_sign_a_magic_among_other_lines_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        _ = source_of("pip install peft\nx = 1").tree


def test_prompts_of_the_interpreter_are_no_code() -> None:
    source = source_of(">>> for x in y:\n...     f(x)", "z = 1")
    location = source.locate(location_of(source, "f(x)"))
    assert (location.cell, location.line, location.column) == (1, 2, 9)


def test_a_timed_statement_is_read_in_its_place() -> None:
    source = source_of("%time trainer.train()")
    assert source.location(source.tree.body[1]).column == 7
    assert source.code(location_of(source, "trainer.train()")) == "trainer.train()"


@pytest.mark.parametrize("magic", ["%%bash", "%%writefile train.py", "%%html", "%%javascript"])
def test_a_cell_of_another_language_is_not_read(magic: str) -> None:
    assert [type(node) for node in source_of(f"{magic}\nfor f in *; do\n", "x = 1").tree.body] == [ast.Assign]


def test_a_notebook_in_another_language_holds_no_code() -> None:
    assert read_bytes("n.ipynb", notebook("x <- 1", language="R").encode()).tree.body == []


def test_the_author_s_own_line_is_shown_not_the_masked_one() -> None:
    source = source_of("!pip install x\ny = 1")
    assert source.lines[1] == "pass"
    assert source.shown_line(2) == "!pip install x"


def test_the_last_expression_of_a_cell_is_displayed() -> None:
    source = source_of("f(1)\ng(2)", "h(3);", "x = i(4)", "j(5)\n# the end")
    displayed = [
        code for code in ("f(1)", "g(2)", "h(3)", "i(4)", "j(5)") if source.is_displayed(location_of(source, code))
    ]
    assert displayed == ["g(2)", "j(5)"]


def test_nothing_of_a_script_is_displayed() -> None:
    source = Source("t.py", "f(1)\n")
    assert not source.is_displayed(location_of(source, "f(1)"))


@pytest.mark.parametrize("text", ["{", "[]", '"cells"', '{"cells": {"a": 1}}', '{"cells": [1, null]}', "", "{}"])
def test_a_broken_notebook_is_named_or_empty_but_never_a_crash(text: str) -> None:
    with suppress(UnreadableError):
        assert read_bytes("n.ipynb", text.encode()).tree.body == []


def test_json_that_breaks_is_named_with_its_line() -> None:
    with pytest.raises(UnreadableError, match="not a notebook") as caught:
        read_bytes("n.ipynb", b'{\n"cells": [\n}')
    assert caught.value.line == 3


def test_a_notebook_of_the_third_format_is_read() -> None:
    old = {
        "worksheets": [{"cells": [{"cell_type": "code", "input": ["x = f(1)"], "language": "python"}]}],
        "nbformat": 3,
    }
    source = read_bytes("n.ipynb", json.dumps(old, indent=1).encode())
    location = source.locate(location_of(source, "f(1)"))
    assert (location.cell, location.line) == (1, 1)
    assert location.file_line > 5


CELLS = (
    "#md # Title",
    "%matplotlib inline\n!ls\nimport torch",
    "%%time\nx = !ls\n%time y = f(1)\n",
    "%%bash\nls",
    "z = 1",
)


@pytest.mark.parametrize("indent", [1, 2, None])
@pytest.mark.parametrize("as_lists", [True, False])
def test_a_notebook_that_is_not_edited_is_written_back_byte_by_byte(indent: int | None, as_lists: bool) -> None:
    raw = notebook(*CELLS, indent=indent, as_lists=as_lists).encode()
    source = read_bytes("n.ipynb", raw)
    assert file_bytes(source, editable_text(source), raw) == raw


@pytest.mark.parametrize("as_lists", [True, False])
def test_an_edit_changes_its_own_cell_and_keeps_the_magics(as_lists: bool) -> None:
    raw = notebook(*CELLS, as_lists=as_lists).encode()
    source = read_bytes("n.ipynb", raw)
    edited = editable_text(source).replace("f(1)", "g(2)").replace("import torch", "import torch\nimport evaluate")
    after = list(CELLS)
    after[1] = "%matplotlib inline\n!ls\nimport torch\nimport evaluate"
    after[2] = "%%time\nx = !ls\n%time y = g(2)"
    assert json.loads(file_bytes(source, edited, raw)) == json.loads(notebook(*after, as_lists=as_lists))


def test_lines_put_above_all_cells_go_into_the_first() -> None:
    raw = notebook("#md x", "y = 1").encode()
    source = read_bytes("n.ipynb", raw)
    edited = f"import evaluate\n\n{editable_text(source)}"
    assert file_bytes(source, edited, raw) == notebook("#md x", "import evaluate\ny = 1").encode()


def test_a_cell_that_starts_indented_is_read_as_a_notebook_runs_it() -> None:
    source = source_of("x = 1", "  y = f(x)\n  g(y)", "z = 2")
    location = source.locate(location_of(source, "f(x)"))
    assert (location.cell, location.line, location.column) == (2, 1, 7)
    assert source.is_displayed(location_of(source, "g(y)"))


def test_an_edit_in_a_cell_that_starts_indented_leaves_its_other_code() -> None:
    raw = notebook("  y = f(x)").encode()
    source = read_bytes("n.ipynb", raw)
    edited = editable_text(source).replace("f(x)", "f(2)")
    assert file_bytes(source, edited, raw) == notebook("  y = f(2)").encode()
