"""Whatever way a path is asked for, the watch hears of it."""

from __future__ import annotations

import glob
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lintrain.cache import whole_files
from lintrain.cache.watch import Watch
from lintrain.cache.whole_files import ABSENT, FILE, FOLDER, LINK, LISTED, SECOND


@pytest.fixture(autouse=True)
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    now = whole_files.NOW
    monkeypatch.setattr(whole_files, "NOW", lambda: now() + 10 * SECOND)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file.txt").write_text("text")
    (tmp_path / "link").symlink_to("file.txt")
    (tmp_path / "inner").mkdir()
    return tmp_path


ASKED: dict[str, tuple[Callable[[Path], object], str, bytes]] = {
    "open": (lambda folder: (folder / "file.txt").open().close(), "file.txt", FILE),
    "os.open": (lambda folder: os.close(os.open(folder / "file.txt", os.O_RDONLY)), "file.txt", FILE),
    "read_bytes": (lambda folder: (folder / "file.txt").read_bytes(), "file.txt", FILE),
    "stat": (lambda folder: (folder / "file.txt").stat(), "file.txt", FILE),
    "is_file": (lambda folder: (folder / "file.txt").is_file(), "file.txt", FILE),
    "os.path.isfile": (lambda folder: os.path.isfile(folder / "file.txt"), "file.txt", FILE),
    "os.path.getsize": (lambda folder: os.path.getsize(folder / "file.txt"), "file.txt", FILE),
    "os.access": (lambda folder: os.access(folder / "file.txt", os.R_OK), "file.txt", FILE),
    "a folder": (lambda folder: os.path.isdir(folder / "inner"), "inner", FOLDER),
    "nothing there": (lambda folder: (folder / "none").exists(), "none", ABSENT),
    "listdir": (lambda folder: os.listdir(folder / "inner"), "inner", LISTED),
    "scandir": (lambda folder: list(os.scandir(folder / "inner")), "inner", LISTED),
    "iterdir": (lambda folder: list((folder / "inner").iterdir()), "inner", LISTED),
    "Path.glob": (lambda folder: list((folder / "inner").glob("*")), "inner", LISTED),
    "glob.glob": (lambda folder: glob.glob(f"{folder}/inner/*"), "inner", LISTED),
    "os.walk": (lambda folder: list(os.walk(folder / "inner")), "inner", LISTED),
    "readlink": (lambda folder: (folder / "link").readlink(), "link", LINK),
    "os.lstat": (lambda folder: os.lstat(folder / "link"), "link", LINK),
    "a link itself": (lambda folder: (folder / "link").lstat(), "link", LINK),
    "resolve": (lambda folder: (folder / "link").resolve(), "link", LINK),
    "what a listed link leads to": (lambda folder: list(os.scandir(folder)), "link", FILE),
}


@pytest.mark.parametrize("way", ASKED)
def test_a_path_that_is_asked_for_is_heard_of(folder: Path, way: str) -> None:
    question, name, kind = ASKED[way]
    with Watch() as watch:
        question(folder)
    stamps_of = {stamp[:1] for (path, _), stamp in watch.seen.items() if path == os.fsencode(folder / name)}
    assert kind in stamps_of
    assert not watch.is_spoilt


def test_the_first_look_counts(folder: Path) -> None:
    file = folder / "file.txt"
    with Watch() as watch:
        file.read_text()
        before = dict(watch.seen)
        file.write_text("other text")
        file.read_text()
    assert watch.seen == before
    assert whole_files.stamp_of(os.fsencode(file), FILE) != before[os.fsencode(file), FILE]


@pytest.mark.parametrize("begin", [lambda: subprocess.run([sys.executable, "-c", ""]), lambda: os.system("")])
def test_a_process_that_begins_spoils_the_watch(begin: Callable[[], object]) -> None:
    with Watch() as watch:
        begin()
    assert watch.is_spoilt


def test_after_the_watch_everything_is_as_before(folder: Path) -> None:
    before = (os.stat, os.lstat, os.scandir, os.listdir, os.readlink, os.access)
    with Watch() as watch:
        pass
    (folder / "file.txt").read_text()
    assert (os.stat, os.lstat, os.scandir, os.listdir, os.readlink, os.access) == before
    assert watch.seen == {}


def test_a_file_that_is_opened_while_python_shuts_down_is_no_error() -> None:
    """The hook outlives the names of its module, which are None then."""
    code = (
        "from lintrain.cache import watch\n"
        "with watch.Watch(): pass\n"
        "for name in vars(watch).copy(): vars(watch)[name] = None\n"
        "open(__import__('os').devnull)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
