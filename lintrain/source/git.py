"""What git says of the files of a repository."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from lintrain.source.bounds import find_program, safe_path

MOST_SECONDS = 60

HARMLESS = (("core.fsmonitor", "false"), ("core.hooksPath", os.devnull), ("safe.bareRepository", "explicit"))
"""What a repository's own configuration may not decide: programs that git starts beside a question."""

NO_REQUESTS = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
}
"""A question is answered from what lies here: a missing object would be fetched by a command of the configuration."""


class GitError(Exception):
    """A question that git cannot answer; the text says why."""


def changed_files(folder: Path, revision: str) -> frozenset[str]:
    """The files (real, absolute paths) that differ from where this branch left a revision; raises GitError.

    Changes that are not committed count, files that git does not know yet, and what was renamed, under its new name.
    """
    top = _top(folder)
    start = _start(top, revision)
    changed = _names(
        top,
        "diff",
        "--name-only",
        "-z",
        "--no-renames",
        "--no-ext-diff",
        "--ignore-submodules=all",
        "--diff-filter=d",
        start,
        "--",
    )
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
    done = _git(Path(top), *words, settings=_without_filters(top))
    if done.returncode:
        raise GitError(f"git {words[0]} failed: {_text(done.stderr).strip()}")
    yield from filter(None, _text(done.stdout).split("\0"))


def _text(output: bytes) -> str:
    return os.fsdecode(output)


def _git(
    folder: Path, *words: str, settings: Sequence[tuple[str, str]] = HARMLESS
) -> subprocess.CompletedProcess[bytes]:
    around = (os.curdir, os.fspath(folder))
    program = find_program("git", *around)
    if program is None:
        raise GitError("git is not installed")
    try:
        return subprocess.run(
            [program, *words],
            cwd=folder,
            env={**os.environ, **NO_REQUESTS, **_settings(settings), "PATH": os.pathsep.join(safe_path(*around))},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=MOST_SECONDS,
        )
    except OSError as error:
        raise GitError(f"git could not be started: {(error.strerror or str(error)).lower()}") from error
    except subprocess.TimeoutExpired as error:
        raise GitError(f"git gave no answer within {MOST_SECONDS} seconds") from error


def _without_filters(top: str) -> list[tuple[str, str]]:
    """Settings with which no program of the repository rewrites files before they are compared."""
    programs = _git(
        Path(top), "config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$"
    )
    names = dict.fromkeys(_text(programs.stdout).split("\0")[:-1])
    return [*HARMLESS, *((name, "false" if name.endswith(".required") else "") for name in names)]


def _settings(pairs: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Settings for git as variables of its environment: on its command line a name may not hold every sign."""
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdecimal() else 0
    found = {"GIT_CONFIG_COUNT": str(first + len(pairs))}
    for number, (name, value) in enumerate(pairs, first):
        found |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return found
