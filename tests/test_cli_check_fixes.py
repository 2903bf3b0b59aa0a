"""Fixes on the command line of `lintrain check`: written, listed and shown."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from lintrain.cli import run
from tests.support.notebooks import notebook
from tests.support.planted import CLUMSY, HEAD
from tests.test_cli_check import BAD, CLEAN, project, use_rules

__all__ = ["project"]


def test_fix_writes_the_files_and_reports_the_rest(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(f"{HEAD}def right(): ...\nmistake = gamble = right\nmistake()\ngamble()\n")
    assert run(["check", "--fix"]) == 1
    assert (project / "t.py").read_text().endswith("\nright()\ngamble()\n")
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 finding fixed; 1 finding (1 error) in 1 file")
    assert run(["check", "--fix", "--unsafe-fixes"]) == 0
    assert (project / "t.py").read_text().endswith("\nright()\nright()\n")


FIXABLE = f"{HEAD}def right(): ...\nmistake = gamble = right\nmistake()\nmistake()\n"


def test_fix_only_says_nothing_of_what_is_left(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(f"{FIXABLE}gamble()\n")
    assert run(["check", "--fix-only"]) == 0
    assert (project / "t.py").read_text().endswith("\nright()\nright()\ngamble()\n")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "lintrain: fixed 2 findings in 1 file\n")


def test_exit_non_zero_on_fix_tells_that_a_file_changed(project: Path) -> None:
    (project / "t.py").write_text(FIXABLE)
    assert run(["check", "--fix", "--exit-non-zero-on-fix"]) == 1
    assert run(["check", "--fix", "--exit-non-zero-on-fix"]) == 0
    (project / "t.py").write_text(FIXABLE)
    assert run(["check", "--fix-only", "--exit-non-zero-on-fix"]) == 1
    (project / "t.py").write_text(FIXABLE)
    assert run(["check", "--fix", "--exit-non-zero-on-fix", "--exit-zero"]) == 0


@pytest.mark.parametrize("option", ["--fix", "--fix-only", "--diff"])
def test_show_fixes_lists_what_was_fixed_by_file_and_rule(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (project / "t.py").write_text(FIXABLE)
    (project / "u.py").write_text(BAD)
    run(["check", option, "--show-fixes"])
    assert capsys.readouterr().err.splitlines()[-4:] == ["t.py:", "  2  planted", "u.py:", "  1  planted"]


@pytest.mark.parametrize("option", ["--unsafe-fixes", "--show-fixes", "--exit-non-zero-on-fix"])
def test_an_option_about_fixes_alone_does_nothing_and_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (project / "t.py").write_text(BAD)
    assert run(["check", option]) == 2
    assert capsys.readouterr().err.startswith(f"lintrain: {option} ")


def test_a_fix_that_cannot_be_written_is_said_on_stderr(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_rules(monkeypatch, CLUMSY)
    (project / "t.py").write_text(f"{HEAD}def right(): ...\nmistake = gamble = right\nmistake()\ngamble()\n")
    assert run(["check", "--fix"]) == 1
    assert (project / "t.py").read_text().endswith("\nright()\ngamble()\n")
    said = capsys.readouterr()
    assert said.err.startswith("lintrain: t.py:5:1: a fix could not be written (write `right(`): ")
    assert "t.py:5:1: error[clumsy]" in said.out


def test_diff_shows_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    assert run(["check", "--diff"]) == 1
    assert (project / "t.py").read_text() == BAD
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-2:] == ["-mistake()", "+right()"]
    assert shown.err == "lintrain: `--fix` would fix 1 finding\n"
    (project / "t.py").write_text(CLEAN)
    assert run(["check", "--diff"]) == 0


def test_a_diff_of_a_notebook_goes_cell_by_cell(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "n.ipynb").write_text(notebook(BAD, "#md x", "!ls\nmistake()"))
    run(["check", "--diff"])
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "+++ n.ipynb:cell 3",
        "@@ -1,2 +1,2 @@",
        " !ls",
        "-mistake()",
        "+right()",
    ]


def test_what_comes_through_stdin_is_fixed_to_stdout(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.replace("\n", "\r\n").encode())))
    run(["check", "--fix", "-"])
    assert capfdbinary.readouterr().out == BAD.replace("\nmistake()", "\nright()").replace("\n", "\r\n").encode()
