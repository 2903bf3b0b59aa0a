"""`--changed-since`: the files that git calls changed, and those that depend on them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lintrain.cli import run
from tests.support.notebooks import notebook

FILES = {
    "pyproject.toml": "",
    "main.py": "from pk import trainer as t\n",
    "other.py": "import torch\n",
    "src/pk/__init__.py": "",
    "src/pk/data.py": "RATE = 1\n",
    "src/pk/trainer.py": "from .data import (\n    RATE,  # used\n)\n",
    "n.ipynb": notebook("import os\nfrom pk.data import RATE"),
    "reads.py": 'settings = open("settings.yaml")\n',
    "settings.yaml": "rate: 1\n",
}


def git(*words: str) -> None:
    options = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]
    subprocess.run(["git", *options, *words], check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git("init")
    git("add", ".")
    git("commit", "-m", "all")
    return tmp_path


def files(capsys: pytest.CaptureFixture[str], *options: str) -> list[str]:
    capsys.readouterr()
    assert run(["check", "--changed-since", *(options or ("HEAD",)), "--show-files"]) == 0
    return capsys.readouterr().out.splitlines()


def test_what_imports_a_changed_module_is_checked_too(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "src/pk/data.py").write_text("RATE = 2\n")
    assert files(capsys) == ["main.py", "n.ipynb", "src/pk/data.py", "src/pk/trainer.py"]
    assert files(capsys, "HEAD", "src") == ["src/pk/data.py", "src/pk/trainer.py"]
    assert files(capsys, "HEAD", "main.py", "other.py") == ["main.py"]


def test_a_package_is_imported_with_its_modules(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "src/pk/__init__.py").write_text("x = 1\n")
    assert files(capsys) == ["main.py", "n.ipynb", "src/pk/__init__.py"]


def test_what_names_changed_settings_is_checked_too(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (repository / "settings.yaml").write_text("rate: 2\n")
    assert files(capsys) == ["reads.py"]


def test_renamed_staged_and_unknown_files_count_and_removed_ones_do_not(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    git("mv", "other.py", "renamed é.py")
    git("mv", "n.ipynb", "m.ipynb")
    (repository / "staged.py").write_text("x = 1\n")
    git("add", "staged.py")
    (repository / "unknown.py").write_text("x = 1\n")
    (repository / "ignored.py").write_text("x = 1\n")
    (repository / ".gitignore").write_text("ignored.py\n")
    (repository / "main.py").unlink()
    assert files(capsys) == ["m.ipynb", "renamed é.py", "staged.py", "unknown.py"]


def test_a_branch_is_compared_with_where_it_left(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    git("switch", "-c", "mine")
    (repository / "reads.py").write_text("x = 1\n")
    git("commit", "-am", "mine")
    git("switch", "main")
    (repository / "other.py").write_text("import torch, os\n")
    git("commit", "-am", "theirs")
    git("switch", "mine")
    assert files(capsys, "main") == ["reads.py"]


def test_nothing_changed_is_clean_and_said(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--changed-since", "HEAD"]) == 0
    nothing = "no Python files, notebooks or training configurations changed since HEAD in `.`"
    assert capsys.readouterr().err == f"lintrain: {nothing}\n"


def test_an_unknown_revision_is_refused(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for revision in ("nowhere", "--all"):
        assert run(["check", "--changed-since", revision]) == 2
        said = f"lintrain: --changed-since {revision}: git knows no revision `{revision}`\n"
        assert capsys.readouterr().err == said


def test_a_shallow_clone_is_told_how_to_learn_the_revision(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    git("clone", "--depth", "1", f"file://{repository}", "shallow")
    monkeypatch.chdir(repository / "shallow")
    assert run(["check", "--changed-since", "HEAD~1"]) == 2
    assert "the clone is shallow, fetch its history first (`git fetch --unshallow`)" in capsys.readouterr().err


def test_outside_a_repository_it_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert run(["check", "--changed-since", "HEAD"]) == 2
    assert capsys.readouterr().err == f"lintrain: --changed-since HEAD: `{tmp_path}` is in no git repository\n"


def test_without_git_it_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", "")
    assert run(["check", "--changed-since", "HEAD"]) == 2
    assert capsys.readouterr().err == "lintrain: --changed-since HEAD: git is not installed\n"
