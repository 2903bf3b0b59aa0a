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

from lintrain.cache import removal
from lintrain.cache.removal import prune
from lintrain.cache.whole_files import HEADS, make_folder, put, sealed, unsealed
from tests.conftest import ROOT
from tests.support.kept_project import CHECK, Ask, afresh, ask, project, read_afresh
from tests.support.kept_project import put as write

__all__ = ["ask", "project", "read_afresh"]
"""The fixtures."""

CALLS = ("open", "replace", "mkdir", "unlink")
CHANGED = "import torch\n\nprint(other)\n"


def refuse(monkeypatch: pytest.MonkeyPatch, call: str, folder: Path, error: int) -> list[str]:
    """Have the system refuse to change anything in a folder by this call; the paths that it was asked for."""
    plain: Callable[..., Any] = getattr(os, call)
    refused: list[str] = []

    def as_command_errors(path: Any, *given: Any, **named: Any) -> Any:
        is_change = call != "open" or given[0] & (os.O_WRONLY | os.O_RDWR)
        if is_change and str(path).startswith(str(folder)):
            refused.append(path)
            raise OSError(error, os.strerror(error), path)
        return plain(path, *given, **named)

    monkeypatch.setattr(os, call, as_command_errors)
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


def name_of(number: int) -> str:
    return f"{number:032x}"


def left_in(folder: Path) -> list[int]:
    return sorted(int(each.name, 16) for each in folder.iterdir())


@pytest.fixture
def five(tmp_path: Path) -> Path:
    """A folder with five answers of a hundred bytes, the first one written last."""
    folder = tmp_path / ".lintrain_cache" / "answers"
    make_folder(str(folder))
    for number in range(5):
        file = folder / name_of(number)
        file.write_bytes(HEADS["answers"].ljust(100))
        state = file.stat()
        os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns - number * 10**10))
    return folder


@pytest.mark.parametrize(("most", "left"), [(500, 5), (499, 4), (300, 3), (99, 0)])
def test_what_is_kept_is_bounded_in_bytes(five: Path, monkeypatch: pytest.MonkeyPatch, most: int, left: int) -> None:
    monkeypatch.setattr(removal, "MOST_BYTES", most)
    prune(str(five), 100)
    assert left_in(five) == list(range(left))


@pytest.mark.parametrize(("most", "left"), [(5, 5), (2, 2)])
def test_what_is_kept_is_bounded_in_number(five: Path, most: int, left: int) -> None:
    prune(str(five), most)
    assert left_in(five) == list(range(left))


def test_what_nobody_wrote_again_for_a_month_goes(five: Path) -> None:
    for number, seconds in ((0, removal.OLDEST + 100), (1, removal.OLDEST - 100)):
        state = (five / name_of(number)).stat()
        os.utime(five / name_of(number), ns=(state.st_atime_ns, time.time_ns() - seconds * 10**9))
    prune(str(five), 100)
    assert left_in(five) == [1, 2, 3, 4]


def test_what_a_killed_run_left_half_written_goes_after_an_hour(five: Path) -> None:
    old, fresh, whole = f"{name_of(7)}.12.new", f"{name_of(8)}.12.new", name_of(9)
    for name, seconds, content in ((old, 3700, b"lintrain"), (fresh, 3500, b""), (whole, 3700, HEADS["answers"])):
        (five / name).write_bytes(content)
        state = (five / name).stat()
        os.utime(five / name, ns=(state.st_atime_ns, state.st_mtime_ns - seconds * 10**9))
    prune(str(five), 100)
    assert {each.name for each in five.iterdir()} == {*map(name_of, range(5)), fresh, whole}


@pytest.mark.parametrize("name", ["notes.txt", f"{7:032x}", f"{7:032x}.new", f"{7:032X}.1.new", f"{7:032x}.1.new"])
def test_a_file_that_does_not_begin_as_ours_stays(five: Path, name: str) -> None:
    (five / name).write_bytes(b"a diary\n")
    os.utime(five / name, (0, 0))
    prune(str(five), 0)
    assert [each.name for each in five.iterdir()] == [name]
