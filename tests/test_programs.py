"""The programs that a check starts are those of the machine, whatever lies in the project under check."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import lintrain.check.names.ruff
from lintrain.check.names.ruff import find_ruff
from lintrain.cli import run
from lintrain.source.bounds import find_program

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the traps are scripts of a Unix shell")

RUFF = str(Path(sys.executable).parent / "ruff")
CODE = "import torch\nprint(nowhere)\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a `git` and a `ruff` of its own, in its folder and in `bin`."""
    folder = tmp_path / "project"
    (folder / "bin").mkdir(parents=True)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    (folder / "train.py").write_text(CODE)
    for program in (folder / each / name for each in (".", "bin") for name in ("git", "ruff")):
        program.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\necho '[]'\n")
        program.chmod(0o755)
    (tmp_path / "linked").symlink_to("project/bin")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "elsewhere" / "python"))
    return folder


@pytest.mark.parametrize("entry", [".", "", "bin", "./bin", "{project}", "{project}/bin", "{project}/../linked"])
def test_nothing_of_the_project_is_started(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    entry: str,
) -> None:
    theirs = os.pathsep.join((os.path.dirname(RUFF), os.environ["PATH"]))  # noqa: PTH120 - a part of PATH
    monkeypatch.setenv("PATH", os.pathsep.join((entry.format(project=project), theirs)))
    assert run(["check", "--no-cache", "--changed-since", "HEAD"]) == 2
    assert "knows no revision `HEAD`" in capsys.readouterr().err
    assert run(["check", "--no-cache", "--output-format", "concise"]) == 1
    assert "undefined-name" in capsys.readouterr().out
    assert run(["init", "--dry-run"]) == 0
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("path", ["", ".", "{project}"])
def test_where_only_the_project_has_them_there_are_none(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    monkeypatch.setenv("PATH", path.format(project=project))
    assert find_ruff() is None
    assert run(["check", "--no-cache", "--changed-since", "HEAD"]) == 2
    assert capsys.readouterr().err == "lintrain: --changed-since HEAD: git is not installed\n"


def test_a_python_without_a_name_has_no_ruff_beside_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    monkeypatch.setenv("PATH", os.path.dirname(RUFF))  # noqa: PTH120 - a part of PATH
    assert find_ruff() == RUFF


def test_the_folders_of_the_users_home_are_not_those_of_a_project(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(project))
    monkeypatch.setenv("PATH", str(project / "bin"))
    assert find_program("git", str(project)) == str(project / "bin" / "git")


@pytest.mark.parametrize(
    "answer",
    [
        "{}",
        "[1]",
        "null",
        "nonsense",
        '[{"code": "F821"}]',
        '{"messages": [], "version": 2}',
        '[{"code": "F821", "filename": "t.py", "message": "m", "cell": null, "location": null, "end_location": null}]',
        '[{"code": "F821", "filename": "t.py", "message": "m", "cell": null,'
        ' "location": {"row": "1", "column": 1}, "end_location": {"row": 1, "column": 2}}]',
    ],
)
def test_an_answer_of_ruff_in_another_form_is_one_line(
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: str,
) -> None:
    program = tmp_path / "ruff"
    program.write_text(f"#!/bin/sh\necho '{answer}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(lintrain.check.names.ruff, "find_ruff", lambda: str(program))
    assert run(["check", "--no-cache", "train.py"]) == 0
    told = "lintrain: the output of ruff is not understood, so undefined names are not checked\n"
    assert capsys.readouterr().err == told
