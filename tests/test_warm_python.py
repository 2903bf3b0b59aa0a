"""The warm Python of the tests outlives clients that are killed."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from lintrain.runtime.sandbox.files import keeper
from tests.support import forking
from tests.support.probing import probe

pytestmark = [pytest.mark.slow, pytest.mark.libraries]


def asked_of(program: str) -> Path:
    return Path(program).with_name("socket")


def message(folder: Path) -> bytes:
    text = json.dumps({"words": ["-c", "pass"], "folder": str(folder), "environment": {}}).encode()
    return len(text).to_bytes(8, "big") + text


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


def test_the_guard_of_a_fork_looks_through_what_holds_its_functions_and_what_is_new(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(keeper, "imported_before", keeper.imported_before)
    monkeypatch.setattr("gc.freeze", lambda: None)
    holder, empty, replaced = (ModuleType(name) for name in ("holds_a_copy", "holds_none", "holds_none"))
    vars(holder)["delete"] = os.remove
    for module in (holder, empty):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    forking.get_ready_to_fork()
    searched = dict(keeper.imported_before())
    assert searched["holds_a_copy"] is holder
    assert "holds_none" not in searched
    assert len(searched) < len(sys.modules) / 2
    monkeypatch.setitem(sys.modules, "holds_none", replaced)
    assert dict(keeper.imported_before())["holds_none"] is replaced


@pytest.mark.usefixtures("warm")
def test_a_copy_of_open_from_before_the_fork_writes_no_file_of_the_user(tmp_path: Path) -> None:
    probed = probe(
        tmp_path, "import bz2\nimport torch\nbz2.open('made.bz2', 'wb').close()\nraise KeyError('read on')\n"
    )
    assert probed.document["reason"] == ("the script fails before any training call: KeyError: 'read on' (train.py:4)")
    assert [path.name for path in tmp_path.iterdir()] == ["train.py"]
