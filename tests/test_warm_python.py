"""The warm Python of the tests outlives clients that are killed."""

from __future__ import annotations

import marshal
import os
import select
import socket
import sqlite3
import sqlite3.dbapi2
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lintrain.runtime.child import frames, own_files
from lintrain.runtime.sandbox.files import keeper, natives
from tests.support import forking
from tests.support.probing import probe

pytestmark = [pytest.mark.slow, pytest.mark.libraries]


def asked_of(program: str) -> Path:
    return Path(program).with_name("socket")


def message(folder: Path) -> bytes:
    text = marshal.dumps({"words": ["-c", "pass"], "folder": str(folder), "environment": {}})
    return len(text).to_bytes(8, "big") + text


@pytest.mark.turns(one_in=4)
@pytest.mark.parametrize("sent", [0, 4, 8, 20])
def test_a_client_that_leaves_before_it_has_asked_does_not_end_the_server(
    warm_python: str, tmp_path: Path, sent: int
) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(asked_of(warm_python)))
        if sent:
            client.sendall(message(tmp_path)[:sent])
    assert answers(warm_python)


def test_a_client_that_takes_no_answer_does_not_end_the_server(warm_python: str, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as client, (tmp_path / "output.txt").open("w") as output:
        client.connect(str(asked_of(warm_python)))
        client.shutdown(socket.SHUT_RD)  # the answer meets a broken pipe, as when the client was just killed
        asked = message(tmp_path)
        socket.send_fds(client, [asked[:8]], [output.fileno()] * 3)
        client.sendall(asked[8:])
        closed = select.poll()
        closed.register(client, 0)
        assert closed.poll(30_000)
    assert answers(warm_python)


def answers(program: str) -> bool:
    return subprocess.run([program, "-c", "print(1)"], capture_output=True, text=True, check=True).stdout == "1\n"


@pytest.mark.parametrize("words", [["--version"], ["check", "--isolated", "--no-cache", "train.py"], ["chekc"]])
def test_a_command_prints_and_ends_as_in_a_python_of_its_own(
    warm_commands: str, tmp_path: Path, words: list[str]
) -> None:
    (tmp_path / "train.py").write_text(
        "from torch import nn\nloss = nn.CrossEntropyLoss()(logits.softmax(-1), labels)\n"
    )

    def ended(python: str) -> tuple[int, str, str]:
        command = [python, "-m", "lintrain", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    assert ended(warm_commands) == ended(sys.executable)


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> forking.Searched:
    """What a process that is about to be forked knows of its modules."""
    for owner, name in (
        (keeper, "imported_before"),
        (natives, "early_holders"),
        (own_files, "modules_to_list"),
        (frames, "library_folders"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    monkeypatch.setattr("gc.freeze", lambda: None)
    fresh = forking.Searched()
    monkeypatch.setattr(forking, "searched", fresh)
    return fresh


def module_in(monkeypatch: pytest.MonkeyPatch, name: str, **values: object) -> ModuleType:
    """A module that has just been imported."""
    made = ModuleType(name)
    vars(made).update(values)
    monkeypatch.setitem(sys.modules, name, made)
    return made


def test_the_guard_of_a_fork_looks_through_what_holds_its_functions_and_what_is_new(
    searched: forking.Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder = module_in(monkeypatch, "holds_a_copy", delete=os.remove)
    module_in(monkeypatch, "holds_none")
    forking.get_ready_to_fork()
    looked_through = dict(keeper.imported_before())
    assert looked_through["holds_a_copy"] is holder
    assert "__main__" in looked_through
    assert "holds_none" not in looked_through
    assert len(looked_through) < len(sys.modules) / 2
    later = module_in(monkeypatch, "holds_none_either")
    assert dict(keeper.imported_before())["holds_none_either"] is later


def test_a_function_of_a_library_is_guarded_in_the_modules_that_had_it_before_the_fork(
    searched: forking.Searched, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = next(native for native in natives.NATIVES if native.name == "connect")
    early = module_in(monkeypatch, "sqlite3.early", connect=sqlite3.connect)
    module_in(monkeypatch, "sqlite3.other", connect=len)
    forking.get_ready_to_fork()
    later = module_in(monkeypatch, "sqlite3.later", connect=sqlite3.connect)
    found = natives.early_holders(connect, sqlite3.dbapi2.connect)
    assert all(any(each is module for each in found) for module in (sqlite3, early, later))
    assert {module.__name__ for module in found} == {"sqlite3", "sqlite3.dbapi2", "sqlite3.early", "sqlite3.later"}


def test_of_what_was_there_before_the_fork_nothing_is_the_script_s(
    searched: forking.Searched, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module_in(monkeypatch, "imported_early", __file__=str(tmp_path / "early.py"))
    forking.get_ready_to_fork()
    module_in(monkeypatch, "imported_late", __file__=str(tmp_path / "late.py"))
    files = {getattr(module, "__file__", None) for module in own_files.modules_to_list()}
    assert str(tmp_path / "late.py") in files
    assert str(tmp_path / "early.py") not in files
    assert not frames.is_users.__wrapped__(forking.__file__)
    assert not frames.is_users.__wrapped__(str(Path(forking.__file__).parents[1] / "pages" / "server.py"))


@pytest.mark.usefixtures("warm")
def test_a_copy_of_open_from_before_the_fork_writes_no_file_of_the_user(tmp_path: Path) -> None:
    probed = probe(
        tmp_path, "import bz2\nimport torch\nbz2.open('made.bz2', 'wb').close()\nraise KeyError('read on')\n"
    )
    assert probed.document["reason"] == ("the script fails before any training call: KeyError: 'read on' (train.py:4)")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
