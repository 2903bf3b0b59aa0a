"""The public clones that are measured: which, at which commit, and in which half."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.real_code import commit_of

REPOSITORIES = Path(__file__).with_name("repositories.csv")

WORK, MEASURE = "work", "measure"


@dataclass(frozen=True, slots=True)
class Repository:
    """One public repository at the commit that is measured.

    `half` is `work` if its unknown values may be looked at while lintrain is changed, `measure` if only its shares may.
    """

    name: str
    commit: str
    half: str


def half_of(name: str) -> str:
    """The half of a repository, by the digest of its name."""
    return MEASURE if hashlib.sha256(name.encode()).digest()[-1] % 2 else WORK


def read_repositories(path: Path = REPOSITORIES) -> list[Repository]:
    """Every repository of the table."""
    with path.open(newline="", encoding="utf-8") as table:
        return [Repository(row["repository"], row["commit"], row["half"]) for row in csv.DictReader(table)]


@dataclass(frozen=True, slots=True)
class Folder:
    """One clone on this machine; `half` is empty for one that is not in the table."""

    path: Path
    name: str
    half: str = ""
    trouble: str = ""


def folders_in(path: Path, half: str = "") -> Iterator[Folder]:
    """The clones of the table that a folder holds as `owner/name`; the folder itself if it holds none."""
    held = [repository for repository in read_repositories() if (path / repository.name).is_dir()]
    if not held:
        yield Folder(path, path.name)
    for repository in held:
        if half in {"", repository.half}:
            found = commit_of(path / repository.name)
            trouble = "" if found == repository.commit else f"at {found or 'no commit'}, not {repository.commit}"
            yield Folder(path / repository.name, repository.name, repository.half, trouble)
