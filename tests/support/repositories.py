"""Repositories for tests: one commit, one file that has changed since, and programs that leave a mark."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.attacks.commands import Ended, assert_bounded, lintrain

WHO = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always")
QUICK = 30.0
"""Seconds after which an attack counts as having made lintrain wait."""


def git(folder: Path, *words: str) -> str:
    """Let git do something as the owner of a repository, and give what it wrote."""
    done = subprocess.run(["git", *WHO, *words], cwd=folder, check=True, capture_output=True, timeout=60)
    return os.fsdecode(done.stdout).strip()


def repository(folder: Path) -> Path:
    """A repository with `train.py`, which has changed, and `same.py`, which has not but looks as if it had."""
    top = folder / "project"
    top.mkdir()
    git(top, "init", "-q")
    for name in ("train.py", "same.py"):
        (top / name).write_text("import torch\n")
    git(top, "add", "-A")
    git(top, "commit", "-qm", "all")
    (top / "train.py").write_text("import torch, os\n")
    os.utime(top / "same.py", (1, 1))
    return top


def trap(folder: Path) -> Path:
    """A program that leaves a mark."""
    program = folder / "trap.sh"
    program.write_text(f"#!/bin/sh\necho ran >> '{folder}/mark'\ncat\n")
    program.chmod(0o755)
    return program


def configure(top: Path, text: bytes) -> None:
    """Add to the configuration of a repository."""
    with (top / ".git" / "config").open("ab") as file:
        file.write(b"\n" + text + b"\n")


def changed(top: Path, revision: str = "HEAD", variables: Mapping[str, str] | None = None) -> Ended:
    """Ask for the changed files."""
    return lintrain(top, "check", "--changed-since", revision, "--show-files", seconds=QUICK, variables=variables)


def assert_nothing_ran(folder: Path, ended: Ended) -> None:
    """The changed file was found, and no program of the repository ran."""
    assert ended.code == 0, ended.text
    assert ended.out.splitlines() == [b"train.py"], ended.text
    assert not (folder / "mark").exists(), (folder / "mark").read_text()


def assert_not_held_up(ended: Ended) -> None:
    """The command ended in the promised time and memory, with an answer or a reason."""
    assert_bounded(ended, (0, 1, 2))
    if ended.code == 2:
        assert b"lintrain: --changed-since" in ended.errors, ended.text
