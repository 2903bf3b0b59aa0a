"""Attacks on where lintrain writes: work trees elsewhere, second names of files, pipes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.commands import assert_bounded, lintrain
from tests.support.repositories import configure, git

BAD = "from transformers import TrainingArguments\nTrainingArguments('out', lerning_rate=1)\n"
NOBODY = 65534


def contents(folder: Path) -> dict[Path, bytes]:
    """What every file of a folder holds."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def project(folder: Path) -> Path:
    """A repository with one script, beside a folder that is not its own."""
    top = folder / "project"
    top.mkdir()
    git(top, "init", "-q")
    (top / "train.py").write_text(BAD)
    (folder / "outside").mkdir()
    return top


WAYS = {
    "set": "[core]\n\tworktree = {outside}",
    "relative": "[core]\n\tworktree = ../../outside",
    "included": "[include]\n\tpath = ../../outside/included",
    "of-the-work-tree": "[extensions]\n\tworktreeConfig = true\n[core]\n\trepositoryformatversion = 1",
}


@attack("writes-stay-in-the-project", cases=WAYS)
def work_tree_elsewhere(folder: Path, text: str) -> None:
    """A configuration that calls a folder elsewhere the top of the repository, into which `init` would write."""
    top, outside = project(folder), folder / "outside"
    worktree = f"[core]\n\tworktree = {outside}\n"
    (outside / "included").write_text(worktree)
    (top / ".git" / "config.worktree").write_text(worktree)
    configure(top, text.format(outside=outside).encode())
    before = contents(outside)
    ended = lintrain(top, "init")
    assert ended.code == 0, ended.text
    assert contents(outside) == before
    assert (top / ".pre-commit-config.yaml").is_file()


@attack("writes-stay-in-the-project")
def git_file_that_names_another_repository(folder: Path) -> None:
    """A `.git` file that names the repository of another project: its folder gets no hook."""
    top, outside = project(folder), folder / "outside"
    git(outside, "init", "-q")
    configure(outside, f"[core]\n\tworktree = {outside}".encode())
    inner = top / "inner"
    inner.mkdir()
    (inner / ".git").write_text(f"gitdir: {outside / '.git'}\n")
    (inner / "train.py").write_text(BAD)
    before = contents(outside)
    assert lintrain(inner, "init").code == 0
    assert contents(outside) == before
    assert (inner / ".pre-commit-config.yaml").is_file()


@attack("writes-stay-in-the-project")
def repository_of_another_user_above(folder: Path) -> None:
    """A repository that another user put into a folder above, as anybody can in `/tmp`."""
    if os.geteuid() != 0:
        raise NotPossibleError("only root can give a folder to another user")
    git(folder, "init", "-q")
    os.chown(folder / ".git", NOBODY, NOBODY)
    inner = folder / "mine"
    inner.mkdir()
    (inner / "train.py").write_text(BAD)
    assert lintrain(inner, "init").code == 0
    assert not (folder / ".pre-commit-config.yaml").exists()


COMMANDS: dict[str, tuple[str, Sequence[str]]] = {
    "fix": ("train.py", ("check", "--fix", "--unsafe-fixes")),
    "ignores": ("train.py", ("check", "--add-ignores", "why")),
    "baseline": ("lintrain-baseline.json", ("baseline",)),
    "named-baseline": ("known.json", ("baseline", "--baseline", "known.json")),
    "configuration": ("pyproject.toml", ("init",)),
    "hook": (".pre-commit-config.yaml", ("init",)),
    "report": ("report.txt", ("check", "--output-file", "report.txt")),
}


@attack("writes-stay-in-the-project", cases=COMMANDS)
def second_name_outside(folder: Path, what: tuple[str, Sequence[str]]) -> None:
    """A file of the project that is a second name of a file elsewhere: only the one in the project changes."""
    name, words = what
    top, outside = project(folder), folder / "outside" / "theirs"
    texts = {"train.py": BAD, "pyproject.toml": "[project]\nname = 'x'\n", ".pre-commit-config.yaml": "repos:\n"}
    outside.write_text(texts.get(name, '{\n  "format": 1,\n  "findings": {}\n}\n'))
    outside.chmod(0o640)
    before = outside.read_bytes()
    (top / name).unlink(missing_ok=True)
    (top / name).hardlink_to(outside)
    ended = lintrain(top, *words)
    assert ended.code in (0, 1), ended.text
    assert outside.read_bytes() == before
    assert (top / name).read_bytes() != before, ended.text
    assert (top / name).stat().st_mode & 0o777 == 0o640
    assert [each for each in top.iterdir() if each.suffix == ".new"] == []


@attack("writes-stay-in-the-project")
def second_name_of_another_owner(folder: Path) -> None:
    """The same with a file of another user: owner and rights of the new file are those of the old one."""
    if os.geteuid() != 0:
        raise NotPossibleError("only root can give a file to another user")
    top, outside = project(folder), folder / "outside" / "theirs.py"
    outside.write_text(BAD)
    os.chown(outside, NOBODY, NOBODY)
    (top / "train.py").unlink()
    (top / "train.py").hardlink_to(outside)
    assert lintrain(top, "check", "--fix", "--unsafe-fixes").code == 0
    state = (top / "train.py").stat()
    assert (state.st_uid, state.st_gid, outside.read_text()) == (NOBODY, NOBODY, BAD)


@attack("writes-wait-for-nothing", cases=("pyproject.toml", ".pre-commit-config.yaml", "lintrain.toml", "train.py"))
def pipe_where_it_writes(folder: Path, name: str) -> None:
    """A pipe in the place of a file that a command writes."""
    top = project(folder)
    (top / name).unlink(missing_ok=True)
    os.mkfifo(top / name)
    for words in (("init",), ("check", "--fix", name)):
        assert_bounded(lintrain(top, *words, seconds=30), (0, 1, 2))
