"""`--changed-since` in every kind of repository, and by which signs a file counts as changed."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.source.changed import changed_files
from lintrain.source.git import GitError
from tests.conftest import ROOT
from tests.support.repositories import git, repository

ASK = """\
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
from lintrain.source.changed import changed_files
print(*sorted(Path(each).name for each in changed_files(Path.cwd(), "HEAD")))
"""


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = repository(tmp_path)
    monkeypatch.chdir(folder)
    return folder


def changed(folder: Path, revision: str = "HEAD") -> list[str]:
    return sorted(os.path.relpath(path, folder) for path in changed_files(folder, revision))


def test_a_file_with_another_time_and_the_same_content_has_not_changed(top: Path) -> None:
    assert changed(top) == ["train.py"]


def test_what_is_staged_and_then_undone_has_not_changed(top: Path) -> None:
    git(top, "add", "-A")
    git(top, "show", "HEAD:train.py")
    (top / "train.py").write_text("import torch\n")
    assert changed(top) == []


def test_an_edit_that_keeps_size_and_time_has_changed(top: Path) -> None:
    git(top, "add", "same.py")
    state = (top / "same.py").stat()
    (top / "same.py").write_text("import touch\n"[: state.st_size])
    os.utime(top / "same.py", ns=(state.st_atime_ns, state.st_mtime_ns))
    assert changed(top) == ["same.py", "train.py"]


def test_line_ends_of_the_work_tree_are_no_change(top: Path) -> None:
    (top / "same.py").write_bytes(b"import torch\r\n")
    assert changed(top) == ["train.py"]


def test_a_file_that_git_lfs_keeps_is_compared_with_its_pointer(top: Path) -> None:
    content = b"0,1\n" * 1000
    digest = hashlib.sha256(content).hexdigest()
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize {len(content)}\n"
    (top / "rows.csv").write_text(pointer)
    git(top, "add", "rows.csv")
    git(top, "commit", "-qm", "rows", "rows.csv")
    (top / "rows.csv").write_bytes(content)
    assert changed(top) == ["train.py"]
    (top / "rows.csv").write_bytes(content + b"0,1\n")
    assert changed(top) == ["rows.csv", "train.py"]


def test_a_large_file_with_another_time_counts_as_changed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lintrain.source.changed.LARGEST_COMPARED", 5)
    assert changed(top) == ["same.py", "train.py"]


def test_what_is_left_when_much_was_compared_counts_as_changed(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(top, "commit", "-qam", "more")
    for name in ("same.py", "train.py"):
        os.utime(top / name, (2, 2))
    monkeypatch.setattr("lintrain.source.changed.MOST_COMPARED", 15)
    assert changed(top) == ["train.py"]


def test_a_linked_work_tree_has_its_own_head_and_index(top: Path, tmp_path: Path) -> None:
    git(top, "worktree", "add", "-q", "../linked", "-b", "other")
    linked = tmp_path / "linked"
    assert changed(linked) == []
    (linked / "same.py").write_text("x = 1\n")
    assert changed(linked) == ["same.py"]
    git(linked, "commit", "-qam", "there")
    assert changed(linked) == []
    assert changed(linked, "HEAD~1") == ["same.py"]
    assert changed(top) == ["train.py"]


def test_a_submodule_is_a_repository_of_its_own(top: Path, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    git(top, "submodule", "add", "-q", str(repository(tmp_path / "second")), "inner")
    git(top, "commit", "-qm", "inner", ".gitmodules", "inner")
    (top / "inner" / "same.py").write_text("x = 1\n")
    assert changed(top) == ["train.py"]
    assert changed(top / "inner") == ["same.py"]


def test_a_branch_is_compared_with_its_upstream(top: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "-q", str(top), "clone")
    clone = tmp_path / "clone"
    (clone / "same.py").write_text("x = 1\n")
    git(clone, "commit", "-qam", "mine")
    for revision in ("@{upstream}", "main@{u}", "origin/main", "origin", "HEAD@{1}"):
        assert changed(clone, revision) == ["same.py"], revision


def test_a_repository_with_names_of_64_digits(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q", "--object-format=sha256")
    (tmp_path / "a.py").write_text("x = 1\n")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-qm", "all")
    os.utime(tmp_path / "a.py", (1, 1))
    assert changed(tmp_path) == []
    (tmp_path / "a.py").write_text("x = 2\n")
    assert changed(tmp_path) == ["a.py"]


def test_an_index_in_two_parts_is_read_and_left_alone(top: Path) -> None:
    git(top, "update-index", "--split-index")
    (part,) = (top / ".git").glob("sharedindex.*")
    os.utime(part, (1, 1))
    assert changed(top) == ["train.py"]
    assert part.stat().st_mtime == 1


def test_files_in_conflict_have_changed(top: Path) -> None:
    git(top, "commit", "-qam", "ours")
    git(top, "switch", "-qc", "other", "HEAD~1")
    (top / "train.py").write_text("theirs\n")
    git(top, "commit", "-qam", "theirs")
    with pytest.raises(subprocess.CalledProcessError):
        git(top, "merge", "main")
    assert changed(top) == ["train.py"]


def test_a_hook_names_its_index(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / ".git" / "next").write_bytes((top / ".git" / "index").read_bytes())
    monkeypatch.setenv("GIT_INDEX_FILE", ".git/next")
    (top / "new.py").write_text("x = 1\n")
    git(top, "add", "new.py")
    monkeypatch.setenv("GIT_INDEX_FILE", str(top / ".git" / "next"))
    (top / ".gitignore").write_text("new.py\n")
    assert changed(top) == [".gitignore", "new.py", "train.py"]
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert changed(top) == [".gitignore", "train.py"]


def test_a_hook_names_its_repository(top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (top / ".git").rename(tmp_path / "stored")
    with pytest.raises(GitError, match="is in no git repository"):
        changed(top)
    monkeypatch.setenv("GIT_DIR", "../stored")
    assert changed(top) == ["train.py"]
    monkeypatch.setenv("GIT_WORK_TREE", str(top))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "stored"))
    assert changed(top) == ["train.py"]


def test_a_hook_of_git_itself_gets_the_changed_files(top: Path) -> None:
    hook = top / ".git" / "hooks" / "pre-commit"
    program = top / "ask.py"
    program.write_text(ASK.format(folder=str(ROOT)))
    hook.write_text(f"#!/bin/sh\nexec '{sys.executable}' -P ask.py > hooked\n")
    hook.chmod(0o755)
    (top / ".git" / "info" / "exclude").write_text("hooked\nask.py\n")
    git(top, "commit", "-qm", "partly", "--only", "train.py")
    assert (top / "hooked").read_text() == "train.py\n"


def test_patterns_that_leave_files_out_count_and_other_repositories_are_not_entered(top: Path) -> None:
    (top / ".git" / "info" / "exclude").write_text("mine.py\n")
    (top / "mine.py").touch()
    (top / "build").mkdir()
    (top / "build" / ".gitignore").write_text("*\n!kept.py\n")
    for name in ("kept.py", "left.py"):
        (top / "build" / name).touch()
    (top / "other").mkdir()
    git(top / "other", "init", "-q")
    (top / "other" / "a.py").touch()
    assert changed(top) == ["build/kept.py", "train.py"]
