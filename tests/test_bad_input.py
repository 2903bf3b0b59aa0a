"""What is no script, or hardly one: a clear message, the documented exit code, and the other files go on."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from lintrain.cli import run


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str], str]:
    code = run(["check", "-q", *arguments])
    shown = capsys.readouterr()
    return code, shown.out.splitlines(), shown.err


def test_a_missing_file_is_an_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "train.py").write_text("x = 1\n")
    assert check(capsys, "trian.py", "train.py", "nowhere/at/all.py") == (
        2,
        [],
        "lintrain: `trian.py` does not exist; nearest: `train.py`\nlintrain: `nowhere/at/all.py` does not exist\n",
    )


def test_a_folder_without_python_says_so_and_is_no_error(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "docs").mkdir()
    (project / "docs" / "a.md").write_text("x")
    said = "lintrain: no Python files, notebooks or training configurations in `docs`\n"
    assert check(capsys, "docs") == (0, [], said)


@pytest.mark.parametrize(
    ("content", "line", "said"),
    [
        (b'x = 1\ny = "\xe9"\n', 2, "error[unreadable-file] byte 0xe9 is not UTF-8"),
        (b"x = 1\n\0\n", 2, "error[unreadable-file] null byte in the file"),
        (b"\xff\xfex\0=\x001\0", 1, "error[unreadable-file] byte 0xff is not UTF-8"),
        (b"# coding: klingon\n\xe9", 1, "error[unreadable-file] the encoding `klingon` that it declares is unknown"),
        (b"x = 1\ny = (1\n", 2, "error[syntax-error] '(' was never closed"),
        (b"if x:\npass\n", 2, "error[syntax-error] expected an indented block after 'if' statement on line 1"),
        (
            b"import torch\n!pip install torch\n",
            2,
            "error[syntax-error] a command of a notebook, which Python cannot read",
        ),
        (b"\tx\n  y\n", 1, "error[syntax-error] unexpected indent"),
        (b"(" * 5000, 1, "error[syntax-error] too many nested parentheses"),
        (b"x = " + b"-" * 100_000 + b"1\n", 1, "error[unreadable-file] nested too deeply to be parsed"),
    ],
)
def test_a_bad_file_is_a_finding_and_the_others_go_on(
    project: Path, capsys: pytest.CaptureFixture[str], content: bytes, line: int, said: str
) -> None:
    (project / "bad.py").write_bytes(content)
    (project / "good.py").write_text("import torch\nprint(nowhere)\n")
    code, lines, errors = check(capsys, "bad.py", "good.py")
    assert (code, errors) == (1, "")
    assert lines[0].startswith(f"bad.py:{line}:")
    assert lines[0].endswith(f": {said}")
    assert lines[1:] == ["good.py:2:7: error[undefined-name] `nowhere` is never defined or imported"]


def test_a_file_that_may_not_be_opened_is_a_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text("x = 1\n")
    (project / "t.py").chmod(0)
    if os.access("t.py", os.R_OK):
        pytest.skip("this user may read every file")
    code, lines, _ = check(capsys, "t.py")
    assert (code, lines) == (1, ["t.py:1:1: error[unreadable-file] permission denied"])


def test_a_notebook_that_is_none_is_a_finding(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "n.ipynb").write_text('{"cells": [\n')
    code, lines, _ = check(capsys, "n.ipynb")
    assert (code, lines) == (1, ["n.ipynb:2:1: error[unreadable-file] not a notebook: expecting value"])


@pytest.mark.parametrize("content", [b"", b"\n\n", b"\xef\xbb\xbf", b"# only a comment"])
def test_an_empty_file_is_fine(project: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    (project / "t.py").write_bytes(content)
    assert check(capsys, "t.py") == (0, [], "")


HEAD = "import torch\nfrom transformers import Trainer\n"
LONG = {
    "statements": HEAD + "".join(f"x{n} = f(x{n - 1}, a={n})\n" for n in range(1, 50_000)).replace("x0", "1"),
    "functions": HEAD
    + "def f0(x): return x\n"
    + "".join(f"def f{n}(x): return f{n - 1}(x)\n" for n in range(1, 50_000)),
    "one call": HEAD + "trainer = Trainer(\n" + "".join(f"    a{n}={n},\n" for n in range(50_000)) + ")\n",
}


@pytest.mark.turns(one_in=3)
@pytest.mark.parametrize("kind", LONG)
def test_a_file_of_50_000_lines_is_read_in_bounded_time(
    project: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    (project / "t.py").write_text(LONG[kind])
    started = time.process_time()
    code, _, _ = check(capsys, "t.py", "--ignore", "undefined-name")
    assert code in (0, 1)
    assert time.process_time() - started < 20


DEEP = {
    "sums": HEAD + "x = " + " + ".join(["1"] * 3000) + "\n",
    "methods": HEAD + "x = torch" + ".f()" * 900 + "\n",
    "blocks": HEAD + "".join(f"{' ' * n}if x:\n" for n in range(90)) + " " * 90 + "pass\n",
    "lists": HEAD + "x = " + "[" * 90 + "]" * 90 + "\n",
    "functions": HEAD + "".join(f"{' ' * n}def f{n}():\n" for n in range(90)) + " " * 90 + "pass\n",
    "else-ifs": HEAD + "if x: pass\n" + "elif x: pass\n" * 1500,
}


@pytest.mark.parametrize("kind", DEEP)
def test_deeply_nested_code_is_no_crash(project: Path, capsys: pytest.CaptureFixture[str], kind: str) -> None:
    (project / "t.py").write_text(DEEP[kind])
    code, _, errors = check(capsys, "t.py", "--ignore", "undefined-name")
    assert code in (0, 1)
    assert errors == ""
