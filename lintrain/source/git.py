"""What git says of the files of a repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path


class GitError(Exception):
    """A question that git cannot answer; the text says why."""


def changed_files(folder: Path, revision: str) -> frozenset[str]:
    """The files (real, absolute paths) that differ from where this branch left a revision; raises GitError.

    Changes that are not committed count, files that git does not know yet, and what was renamed, under its new name.
    """
    top = _top(folder)
    start = _start(top, revision)
    changed = _names(top, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", "--diff-filter=d", start, "--")
    unknown = _names(top, "ls-files", "--others", "--exclude-standard", "-z")
    return frozenset(os.path.realpath(os.path.join(top, name)) for name in (*changed, *unknown))  # noqa: PTH118 - many


def repository_of(folder: Path) -> Path | None:
    """The top folder of the repository that a folder lies in, or None where git knows of none."""
    try:
        return Path(_top(folder))
    except GitError:
        return None


def _top(folder: Path) -> str:
    done = _git(folder, "rev-parse", "--show-toplevel")
    if done.returncode:
        raise GitError(f"`{folder}` is in no git repository")
    return _text(done.stdout).rstrip("\n")


def _start(top: str, revision: str) -> str:
    """The commit to compare with: the last one that this branch shares with the revision, else the revision itself."""
    named = _git(Path(top), "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    if named.returncode:
        shallow = _text(_git(Path(top), "rev-parse", "--is-shallow-repository").stdout).strip() == "true"
        hint = "; the clone is shallow, fetch its history first (`git fetch --unshallow`)" if shallow else ""
        raise GitError(f"git knows no revision `{revision}`{hint}")
    commit = _text(named.stdout).strip()
    shared = _git(Path(top), "merge-base", commit, "HEAD")
    return commit if shared.returncode else _text(shared.stdout).split("\n", 1)[0]


def _names(top: str, *words: str) -> Iterator[str]:
    done = _git(Path(top), *words)
    if done.returncode:
        raise GitError(f"git {words[0]} failed: {_text(done.stderr).strip()}")
    yield from filter(None, _text(done.stdout).split("\0"))


def _text(output: bytes) -> str:
    return os.fsdecode(output)


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["git", *words], cwd=folder, capture_output=True, check=False)
    except FileNotFoundError as error:
        raise GitError("git is not installed") from error
