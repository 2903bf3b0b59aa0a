"""Comments that `--add-ignores` writes: where they stand, and that they change nothing but what is heard."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import lintrain.cli._check
from lintrain.check.ignoring import _is_same_code
from lintrain.cli import run
from tests.support.notebooks import notebook
from tests.support.planted import ONLY_MEASURED, PLANTED

HEAD = "from transformers import mistake\n"
OURS = "# lintrain: ignore[planted] -- why"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lintrain.cli._check, "find_rules", lambda: (PLANTED, ONLY_MEASURED))
    return tmp_path


def ignored(project: Path, code: str) -> str:
    (project / "t.py").write_text(HEAD + code)
    assert run(["check", "t.py"]) == 1
    assert run(["check", "t.py", "--add-ignores", "why"]) == 0
    assert run(["check", "t.py"]) == 0
    text = (project / "t.py").read_text()
    assert run(["check", "t.py", "--add-ignores", "why"]) == 0
    assert (project / "t.py").read_text() == text
    return text.removeprefix(HEAD)


def test_code_that_is_deeper_than_python_recurses_gets_its_comment(project: Path) -> None:
    deep = "x = 1" + " + 1" * 1200 + "\n"
    (project / "t.py").write_text(f"{HEAD}nowhere()\n{deep}")
    assert run(["check", "t.py", "--add-ignores", "why"]) == 0
    assert (project / "t.py").read_text() == f"{HEAD}nowhere()  # lintrain: ignore[undefined-name] -- why\n{deep}"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1", "x = 1.0"),
        ("x = 1", "x = True"),
        ("x = [a, [b]]", "x = [[a], b]"),
        ("x = [a]", "x = [a, a]"),
        ("if a:\n    b\nelse:\n    c", "if a:\n    b\n    c"),
        ("def f(*, a=1): pass", "def f(a=1): pass"),
        ("x = ''", "x = '# lintrain: ignore'"),
        ("f(a=b)", "f(a, b)"),
    ],
)
def test_other_code_is_told_from_the_same_code_with_comments(before: str, after: str) -> None:
    assert not _is_same_code(ast.parse(before), ast.parse(after))
    assert _is_same_code(ast.parse(f"{before}  # comment"), ast.parse(f"# above\n{before}"))


@pytest.mark.parametrize(
    ("code", "after"),
    [
        ("mistake()\n", f"mistake()  {OURS}\n"),
        ("mistake()", f"mistake()  {OURS}"),
        ("mistake()  # noqa: F821\n", f"mistake()  # noqa: F821  {OURS}\n"),
        ("mistake(\n    1,\n)\n", f"mistake(  {OURS}\n    1,\n)\n"),
        ('x = mistake("""\na""")\n', f'x = mistake("""\na""")  {OURS}\n'),
        ("x = 1 + \\\n    mistake()\n", f"x = 1 + \\\n    mistake()  {OURS}\n"),
        ("if 1:\n    x = mistake() + \\\n    1\n", f"if 1:\n    {OURS}\n    x = mistake() + \\\n    1\n"),
        ('mistake(); x = """\n"""\n', f'{OURS}\nmistake(); x = """\n"""\n'),
        ("mistake(); mistake(1)\n", f"mistake(); mistake(1)  {OURS}\n"),
        ("x = mistake('# lintrain:')\n", f"{OURS}\nx = mistake('# lintrain:')\n"),
    ],
)
def test_a_comment_stands_where_it_is_heard_and_changes_no_code(project: Path, code: str, after: str) -> None:
    assert ignored(project, code) == after


def test_the_rule_is_added_to_a_comment_that_is_there(project: Path) -> None:
    code = "# lintrain: ignore[only-measured] -- ours\nmistake()\n"
    assert ignored(project, code) == "# lintrain: ignore[only-measured, planted] -- ours\nmistake()\n"
    code = "mistake()  # lintrain: ignore[only-measured]\n"
    assert ignored(project, code) == "mistake()  # lintrain: ignore[only-measured, planted]\n"


def test_line_ends_and_encoding_stay(project: Path) -> None:
    (project / "t.py").write_bytes(
        b"# coding: latin-1\r\nfrom transformers import mistake\r\nx = '\xe9'\r\nmistake()\r\n"
    )
    run(["check", "--add-ignores", "why"])
    assert (project / "t.py").read_bytes() == (
        b"# coding: latin-1\r\nfrom transformers import mistake\r\nx = '\xe9'\r\nmistake()  " + OURS.encode() + b"\r\n"
    )


def test_cells_of_a_notebook_get_theirs_and_all_else_stays(project: Path) -> None:
    text = notebook(f"%matplotlib inline\n{HEAD}x = 1", "%%time\nmistake()\n%time y = mistake()\nz = 1")
    (project / "n.ipynb").write_text(text)
    assert run(["check", "--add-ignores", "why"]) == 0
    after = (project / "n.ipynb").read_text()
    cells = ["".join(cell["source"]) for cell in json.loads(after)["cells"]]
    assert cells[1] == f"%%time\nmistake()  {OURS}\n{OURS}\n%time y = mistake()\nz = 1"
    assert [line for line in text.splitlines() if line not in after.splitlines()] == ['    "mistake()\\n",']


def test_lines_of_a_cell_that_end_with_carriage_returns_still_do(project: Path) -> None:
    text = notebook(f"{HEAD}x = 1\r\nmistake()\r\nz = 1\r\ny = 1\n")
    (project / "n.ipynb").write_text(text)
    run(["check", "--add-ignores", "why"])
    assert (project / "n.ipynb").read_text() == text.replace("mistake()\\r", f"mistake()  {OURS}\\r")


def test_what_a_comment_cannot_silence_is_reported(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text("x = (\n")
    (project / "u.py").write_text(f"{HEAD}mistake()\n")
    assert run(["check", "--add-ignores", "why"]) == 1
    written = capsys.readouterr()
    assert written.out.splitlines()[0] == "t.py:1:5: error[syntax-error] '(' was never closed"
    assert written.err == "lintrain: suppressed 1 finding in 1 file\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--add-ignores", " "], "--add-ignores: the reason must be one line of text; it is written in every comment"),
        (
            ["--add-ignores", "a\nb"],
            "--add-ignores: the reason must be one line of text; it is written in every comment",
        ),
        (["--add-ignores", "a", "--fix"], "--add-ignores and --fix cannot be combined"),
        (["--add-ignores", "a", "-"], "--add-ignores changes files and cannot be combined with standard input"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str], options: list[str], message: str) -> None:
    assert run(["check", *options]) == 2
    assert capsys.readouterr().err == f"lintrain: {message}\n"
