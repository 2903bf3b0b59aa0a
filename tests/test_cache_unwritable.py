"""Where nothing can be kept, or several keep at once, every answer is what it would be without."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from errno import EACCES, EROFS
from pathlib import Path
from typing import Any

import pytest

from lintrain.cache import whole_files
from lintrain.cache.whole_files import prune, put, sealed, unsealed
from tests.conftest import ROOT
from tests.kept_project import CHECK, Ask, afresh, ask, project, read_afresh
from tests.kept_project import put as write

__all__ = ["ask", "project", "read_afresh"]
"""The fixtures."""

CALLS = ("open", "replace", "mkdir", "unlink")
CHANGED = "import torch\n\nprint(other)\n"


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, folder: Path, error: int) -> list[str]:
    """Have the system refuse to change anything in a folder by this call; the paths that it was asked for."""
    plain: Callable[..., Any] = getattr(os, call)
    refused: list[str] = []

    def refusing(path: Any, *given: Any, **named: Any) -> Any:
        is_change = call != "open" or given[0] & (os.O_WRONLY | os.O_RDWR)
        if is_change and str(path).startswith(str(folder)):
            refused.append(path)
            raise OSError(error, os.strerror(error), path)
        return plain(path, *given, **named)

    monkeypatch.setattr(os, call, refusing)
    return refused


@pytest.mark.parametrize("error", [EACCES, EROFS])
@pytest.mark.parametrize("call", ["open", "replace", "mkdir"])
def test_a_folder_that_cannot_be_written_keeps_nothing_and_nothing_is_said(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    cache = project.parent / "cache"
    plain = ask(*afresh())
    refused = refuse(monkeypatch, call, cache, error)
    assert [ask(), ask()] == [plain, plain]
    assert refused
    assert [each for each in cache.rglob("*") if each.is_file()] == []


@pytest.mark.parametrize("error", [EACCES, EROFS])
def test_from_a_folder_that_can_only_be_read_what_is_kept_is_taken(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch, read_afresh: list[str], error: int
) -> None:
    first = ask()
    before = {each: each.read_bytes() for each in (project.parent / "cache").rglob("*") if each.is_file()}
    for call in CALLS:
        refuse(monkeypatch, call, project.parent / "cache", error)
    read_afresh.clear()
    assert ask() == first
    assert ask(*CHECK, "--verbose")[:2] == first[:2]
    assert read_afresh == []
    write("plain.py", CHANGED)(project)
    assert ask() == ask(*afresh())
    assert {each: each.read_bytes() for each in (project.parent / "cache").rglob("*") if each.is_file()} == before


def test_a_folder_below_a_file_keeps_nothing_and_nothing_is_said(
    project: Path, ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.parent / "file").write_text("no folder")
    monkeypatch.setenv("LINTRAIN_CACHE_DIR", str(project.parent / "file" / "cache"))
    assert ask() == ask(*afresh())
    assert (project.parent / "file").read_text() == "no folder"


HAMMER = """\
import sys
from lintrain.cache.whole_files import put, sealed

for number in range(300):
    put(sys.argv[1], "one", sealed(b"magic", sys.argv[2].encode() * (20_000 + 100 * number)))
"""


def test_processes_that_write_one_file_at_once_leave_it_whole_at_every_moment(tmp_path: Path) -> None:
    put(str(tmp_path), "one", sealed(b"magic", b"c"))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", HAMMER, str(tmp_path)]
    writers = [subprocess.Popen([*command, letter], env=environment) for letter in "ab"]
    seen = set[bytes]()
    while any(writer.poll() is None for writer in writers):
        content = unsealed(b"magic", (tmp_path / "one").read_bytes())
        assert content is not None
        seen.add(content[:1])
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen - {b"c"}
    assert [each.name for each in tmp_path.iterdir()] == ["one"]


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """A folder with five files of ten bytes, the first one written last."""
    for number in range(5):
        (tmp_path / f"{number}").write_bytes(b"0123456789")
        state = (tmp_path / f"{number}").stat()
        os.utime(tmp_path / f"{number}", ns=(state.st_atime_ns, state.st_mtime_ns - number * 10**10))
    return tmp_path


@pytest.mark.parametrize(("most", "left"), [(50, "01234"), (49, "0123"), (30, "012"), (9, "")])
def test_what_is_kept_is_bounded_in_bytes(five: Path, monkeypatch: pytest.MonkeyPatch, most: int, left: str) -> None:
    monkeypatch.setattr(whole_files, "MOST_BYTES", most)
    prune(str(five), 100)
    assert sorted(each.name for each in five.iterdir()) == list(left)


@pytest.mark.parametrize(("most", "left"), [(5, "01234"), (2, "01")])
def test_what_is_kept_is_bounded_in_number(five: Path, most: int, left: str) -> None:
    prune(str(five), most)
    assert sorted(each.name for each in five.iterdir()) == list(left)


def test_what_nobody_wrote_again_for_a_month_goes(five: Path) -> None:
    for name, seconds in (("0", whole_files.OLDEST + 100), ("1", whole_files.OLDEST - 100)):
        state = (five / name).stat()
        os.utime(five / name, ns=(state.st_atime_ns, time.time_ns() - seconds * 10**9))
    prune(str(five), 100)
    assert sorted(each.name for each in five.iterdir()) == list("1234")


def test_what_a_killed_run_left_half_written_goes_after_an_hour(five: Path) -> None:
    for name, seconds in (("old.new", 3700), ("young.new", 3500), ("whole", 3700)):
        (five / name).write_bytes(b"")
        state = (five / name).stat()
        os.utime(five / name, ns=(state.st_atime_ns, state.st_mtime_ns - seconds * 10**9))
    prune(str(five), 100)
    assert {each.name for each in five.iterdir()} == {*"01234", "young.new", "whole"}
