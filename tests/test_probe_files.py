"""Files of a script under guard: it finds what it wrote, and its folders are as before."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.runtime.sandbox.files.keeper import allow_writing_only_in
from tests.conftest import ROOT

START = """
import json, os, runpy, sys
from lintrain.runtime.sandbox.files.keeper import Keeper
from lintrain.runtime.child.hooks import AfterImport

hooks = AfterImport(lambda name, error: sys.exit(f"{name}: {error}"))
keeper = Keeper(sys.argv[2], ())
keeper.install(hooks, is_root=True)
hooks.install()
sys.path.insert(0, "")
try:
    runpy.run_path(sys.argv[1])
except Exception as error:
    print("refused:", keeper.refusal(error))
    raise
print(*keeper.summary())
"""
HELD = (
    subprocess.run(
        [
            sys.executable,
            "-c",
            "import sys; from lintrain.runtime.sandbox.files import keeper\n"
            "sys.exit(not keeper.allow_writing_only_in(['/tmp']))",
        ],
        cwd=ROOT,
        check=False,
    ).returncode
    == 0
)
"""Whether this kernel can hold a process to some folders; tried in another one, for it holds for good."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of the user, with files, a folder and a link in it."""
    users = tmp_path / "users"
    (users / "old" / "deep").mkdir(parents=True)
    (users / "old" / "deep" / "weights.bin").write_bytes(b"precious")
    (users / "notes.txt").write_text("first\n")
    (users / "link").symlink_to("notes.txt")
    return users


def state(folder: Path) -> dict[str, tuple[int, int, str]]:
    """Everything in a folder: its mode, the time of its last change, its content."""
    found = {"": folder, **{str(path.relative_to(folder)): path for path in folder.rglob("*")}}
    return {name: (path.lstat().st_mode, path.lstat().st_mtime_ns, content(path)) for name, path in found.items()}


def content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def run(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    """Run a script in the folder under guard, and see that the folder is as before."""
    file, private = folder.parent / "script.py", folder.parent / "private"
    file.write_text(script)
    private.mkdir(exist_ok=True)
    before = state(folder)
    done = subprocess.run(
        [sys.executable, "-c", START, str(file), str(private)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert state(folder) == before
    return done


def passes(folder: Path, script: str) -> None:
    done = run(folder, script)
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_written_is_read_again(folder: Path) -> None:
    passes(
        folder,
        """
import os, pathlib
open("new.txt", "w").write("mine")
assert open("new.txt").read() == pathlib.Path("new.txt").read_text() == "mine"
open("notes.txt", "a").write("second\\n")
assert open("link").read() == "first\\nsecond\\n"
with open("notes.txt", "r+") as opened:
    opened.write("F")
assert open(os.path.abspath("notes.txt")).read() == "First\\nsecond\\n"
descriptor = os.open("notes.txt", os.O_WRONLY | os.O_TRUNC)
os.write(descriptor, b"x")
assert os.stat("notes.txt").st_size == os.path.getsize("link") == 1
""",
    )


def test_what_is_removed_is_gone(folder: Path) -> None:
    passes(
        folder,
        """
import os, shutil
os.remove("notes.txt")
assert not os.path.exists("notes.txt") and not os.path.exists("link") and os.path.islink("link")
try:
    open("notes.txt")
except FileNotFoundError as error:
    assert error.filename == "notes.txt"
else:
    raise AssertionError
shutil.rmtree("old")
assert os.listdir() == ["link"], os.listdir()
os.makedirs("old/deep")
assert os.listdir("old/deep") == []
""",
    )


def test_folders_list_what_was_written_beside_what_was_there(folder: Path) -> None:
    passes(
        folder,
        """
import glob, os, pathlib
os.makedirs("old/deep/new")
open("old/deep/a.bin", "w").close()
assert sorted(os.listdir("old/deep")) == ["a.bin", "new", "weights.bin"]
assert sorted(glob.glob("old/**/*.bin", recursive=True)) == ["old/deep/a.bin", "old/deep/weights.bin"]
assert sorted(map(str, pathlib.Path("old").rglob("*.bin"))) == ["old/deep/a.bin", "old/deep/weights.bin"]
assert [names for _, _, names in os.walk("old/deep")][0] == ["a.bin", "weights.bin"]
with os.scandir(b"old/deep") as entries:
    assert {entry.name: entry.is_dir() for entry in entries} == {b"a.bin": False, b"new": True, b"weights.bin": False}
try:
    os.rmdir("old/deep")
except OSError:
    pass
else:
    raise AssertionError
""",
    )


def test_renaming_copying_and_linking_leave_the_originals(folder: Path) -> None:
    passes(
        folder,
        """
import os, shutil
os.rename("old", "moved")
assert os.listdir("moved/deep") == ["weights.bin"] and not os.path.exists("old")
shutil.copytree("moved", "copy")
shutil.move("copy/deep/weights.bin", "notes.txt")
assert open("notes.txt").read() == "precious"
os.link("moved/deep/weights.bin", "hard")
open("hard", "w").write("x")
os.symlink("moved/deep/weights.bin", "soft")
os.replace("soft", "link")
os.chmod("notes.txt", 0o600)
os.utime("moved/deep/weights.bin")
os.truncate("notes.txt", 3)
assert open("notes.txt").read() == "pre"
""",
    )


def test_errors_are_those_that_the_system_gives(folder: Path) -> None:
    passes(
        folder,
        """
import os
for call, error in (
    (lambda: open("notes.txt", "x"), FileExistsError),
    (lambda: open("missing/new.txt", "w"), FileNotFoundError),
    (lambda: open("old", "w"), IsADirectoryError),
    (lambda: os.mkdir("old"), FileExistsError),
    (lambda: os.remove("old"), IsADirectoryError),
    (lambda: os.rmdir("notes.txt"), NotADirectoryError),
    (lambda: os.remove("missing"), FileNotFoundError),
    (lambda: os.rename("missing", "other"), FileNotFoundError),
    (lambda: os.listdir("notes.txt"), NotADirectoryError),
):
    try:
        call()
    except error:
        continue
    raise AssertionError(error)
""",
    )


def test_a_folder_of_the_layer_can_be_worked_in(folder: Path) -> None:
    passes(
        folder,
        """
import os
here = os.getcwd()
os.mkdir("run")
os.chdir("run")
assert os.getcwd() == os.path.join(here, "run")
open("a.txt", "w").close()
assert os.path.exists(os.path.join(here, "run", "a.txt")) and open("../notes.txt").read() == "first\\n"
""",
    )


def test_workers_and_scripts_that_are_started_see_the_same_files(folder: Path) -> None:
    passes(
        folder,
        """
import multiprocessing, os, sys
open("notes.txt", "w").write("changed")

def work():
    assert open("notes.txt").read() == "changed"
    open("from_worker.txt", "w").close()
    os.remove("link")

worker = multiprocessing.get_context("fork").Process(target=work)
worker.start()
worker.join()
assert worker.exitcode == 0 and os.path.exists("from_worker.txt") and not os.path.lexists("link")
open("made.py", "w").write("VALUE = 3")
import made
assert made.VALUE == 3
""",
    )


def test_libraries_that_open_files_by_themselves_find_them(folder: Path) -> None:
    passes(
        folder,
        """
import sqlite3
import numpy, pandas, torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models

weights = {"a": torch.ones(2)}
torch.save(weights, "a.pt"), save_file(weights, "a.safetensors")
assert torch.load("a.pt")["a"].sum() == torch.load("a.pt", mmap=True)["a"].sum() == 2
assert load_file("a.safetensors")["a"].sum() == 2
numpy.save("a.npy", [1]), numpy.ones(2).tofile("a.bin")
numpy.memmap("a.map", "f4", "w+", shape=(2,))[:] = 1
assert numpy.load("a.npy")[0] == numpy.fromfile("a.bin")[0] == numpy.memmap("a.map", "f4", "r")[0] == 1
pandas.DataFrame({"a": [1]}).to_parquet("a.parquet")
assert pandas.read_parquet("a.parquet").a[0] == 1
Tokenizer(models.WordLevel({"a": 0})).save("a.json")
assert Tokenizer.from_file("a.json").get_vocab() == {"a": 0}
with sqlite3.connect("a.sqlite") as connection:
    connection.execute("create table t(a)")
torch.jit.save(torch.jit.script(torch.nn.Linear(1, 1)), "a.jit")
torch.jit.load("a.jit")
""",
    )


def test_the_report_names_what_was_written(folder: Path) -> None:
    done = run(folder, "open('a.txt', 'w').close(); open('old/b.txt', 'w').close()\n")
    assert done.stdout.strip() == "2 files written by the script went to a temporary folder: `a.txt`, `old/b.txt`"


@pytest.mark.skipif(not HELD, reason="this kernel holds no process to its folders")
def test_what_gets_past_the_guard_is_refused_and_not_blamed_on_the_script(folder: Path) -> None:
    native = "import _io\n_io.FileIO('notes.txt', 'w')\n"
    done = run(folder, native)
    assert "refused: the script wrote to `notes.txt` past the guard of its files" in done.stdout
    program = "import subprocess\nsubprocess.run(['rm', 'notes.txt'], check=True)\n"
    assert (
        "refused: the script started `rm`, which a probe allows neither to write files" in run(folder, program).stdout
    )


@pytest.mark.skipif(not HELD, reason="this kernel holds no process to its folders")
def test_an_error_of_the_script_is_not_taken_for_one_of_the_guard(folder: Path) -> None:
    for mistake in ("open('missing.txt')", "raise PermissionError('no entry')"):
        assert "refused: None" in run(folder, mistake).stdout


@pytest.mark.skipif(not HELD, reason="this kernel holds no process to its folders")
def test_a_program_that_a_library_started_is_not_blamed_for_a_file_that_is_missing(folder: Path) -> None:
    of_library = "import ctypes.util\nctypes.util.find_library('nothing-of-this-name')\nopen('missing.txt')\n"
    assert "refused: None" in run(folder, of_library).stdout
    of_script = "import subprocess\nsubprocess.run(['true'])\nopen('missing.txt')\n"
    assert "refused: the script started `true`" in run(folder, of_script).stdout


def test_a_kernel_that_cannot_hold_a_process_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert not allow_writing_only_in([])
