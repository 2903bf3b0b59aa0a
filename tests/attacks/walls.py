"""Attacks on a probe whose system lacks a part of the wall, and on one that may reach no other machine."""

from __future__ import annotations

import json
import os
import platform
import socket
import sys
import tempfile
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.attacks.attack import NotPossibleError, attack
from tests.attacks.commands import ROOT, run
from tests.attacks.hub import TOKEN, hub
from tests.attacks.sending import HEAD, TRAINING, Sent, assert_nothing_sent

WITHOUT = """
import ctypes, os, struct, sys

numbers = [int(word) for word in sys.argv[1].split(",")]
steps = [(0x20, 0, 0, 0)]
for number in numbers:
    steps += [(0x15, 0, 1, number), (0x06, 0, 0, 0x00050001)]
packed = b"".join(struct.pack("=HBBI", *step) for step in [*steps, (0x06, 0, 0, 0x7FFF0000)])
kept = ctypes.create_string_buffer(packed, len(packed))

class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]

system = ctypes.CDLL(None)
assert system.prctl(38, 1, 0, 0, 0) == 0
assert system.prctl(22, 2, ctypes.byref(Program(len(packed) // 8, ctypes.cast(kept, ctypes.c_void_p)))) == 0
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Starts a program on a system that refuses some calls, as containers do."""

SECCOMP, UNSHARE, PIDFD_GETFD = 317, 272, 438
SENDS = """
attempt(lambda: urllib.request.urlopen(urllib.request.Request(HUB + "/written", b"x")))
print(unguarded("curl", "-sS", "-X", "PUT", HUB + "/written"))
import hf_xet
attempt(lambda: hf_xet.XetSession().new_upload_commit())
"""


def _probe_without(folder: Path, calls: tuple[int, ...], code: str) -> Sent:
    """A probe where these system calls are refused."""
    if platform.machine() != "x86_64":
        raise NotPossibleError("the numbers of the system calls are those of x86-64")
    (folder / "train.py").write_text(HEAD + code)
    with hub() as found, tempfile.TemporaryDirectory() as home:
        variables = {
            **os.environ,
            "HOME": home,
            "PYTHONPATH": str(ROOT),
            "LINTRAIN_CACHE_DIR": home,
            "HF_ENDPOINT": found.address,
            "HF_TOKEN": TOKEN,
            "CUDA_VISIBLE_DEVICES": "",
        }
        words = [sys.executable, "-P", "-m", "lintrain", "probe", "--json", "train.py"]
        command = [sys.executable, "-c", WITHOUT, ",".join(map(str, calls)), *words]
        ended = run(folder, command if calls else words, variables, None, 200)
        assert ended.out, ended.text[-3000:]
        return Sent(ended.code, json.loads(ended.out), found)


@attack("hub-gets-no-writes", cases={"no-seccomp": (SECCOMP,), "no-looking-in": (PIDFD_GETFD,)})
def system_without(folder: Path, calls: tuple[int, ...]) -> None:
    """A system without seccomp, or where lintrain may not look into the script: Python is watched, and that is said."""
    sent = _probe_without(folder, calls, SENDS)
    assert_nothing_sent(sent, "POST 127.0.0.1", "this system cannot keep a program off the network: `curl`")


@contextmanager
def _another_machine() -> Generator[tuple[str, list[str]]]:
    """A server on an address of this machine that is not of the loopback network, and who connected to it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        try:
            asked.connect(("203.0.113.9", 9))  # sends nothing: the address that packets would leave from
        except OSError as error:
            raise NotPossibleError("this machine has no address but loopback") from error
        own = asked.getsockname()[0]
    heard: list[str] = []
    with socket.create_server((own, 0)) as listening, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
        listening.settimeout(0.1)
        datagrams.bind(listening.getsockname())
        datagrams.setblocking(False)
        is_over = threading.Event()

        def accept() -> None:
            while not is_over.is_set():
                try:
                    connection, address = listening.accept()
                except TimeoutError:
                    continue
                heard.append(str(address))
                connection.close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"{own}:{listening.getsockname()[1]}", heard
        is_over.set()
        thread.join()
        with suppress(BlockingIOError):
            heard.append(f"a datagram of {datagrams.recvfrom(100)[1]}")


OFFLINE = """
import socket
host, port = "{address}".split(":")
attempt(lambda: socket.create_connection((host, int(port)), 2))
attempt(lambda: urllib.request.urlopen("http://{address}/", timeout=2))
attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, int(port))))
import _socket
attempt(lambda: _socket.socket().connect((host, int(port))))
def datagram():
    opened = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    opened.sendto(b"x", (host, int(port)))
attempt(datagram)
print(unguarded("curl", "-sS", "--noproxy", "*", "-m", "2", "http://{address}/"))
print(unguarded(sys.executable, "-I", "-c", "import socket; socket.create_connection((%r, %s), 2)" % (host, port)))
assert os.environ["HF_HUB_OFFLINE"] == "1"
listening = socket.create_server(("127.0.0.1", 0))
socket.create_connection(listening.getsockname(), 2).sendall(b"x")
"""


@attack("offline-reaches-no-machine", cases={"network-of-its-own": (), "no-namespaces": (UNSHARE,)})
def offline(folder: Path, calls: tuple[int, ...]) -> None:
    """`--offline`, with a namespace and without: Python, compiled code and programs reach no machine but their own."""
    with _another_machine() as (address, heard):
        code = OFFLINE.format(address=address) + TRAINING
        head = "import os, subprocess, sys, urllib.request\n" + HEAD[HEAD.index("\n\ndef ") : HEAD.index("\n\nassert ")]
        (folder / "train.py").write_text(head + "\n" + code)
        sent = _offline(folder, calls)
        assert heard == [], (heard, sent)
    ending = sent["probe"]["ending"]
    assert ending["kind"] == "measured", (sent["reason"], ending)
    assert "no other machine could be reached (`--offline`)" in ending["notes"]


def _offline(folder: Path, calls: tuple[int, ...]) -> Any:
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(folder), "CUDA_VISIBLE_DEVICES": ""}
    words = [sys.executable, "-P", "-m", "lintrain", "probe", "--json", "--offline", "train.py"]
    command = [sys.executable, "-c", WITHOUT, ",".join(map(str, calls)), *words]
    ended = run(folder, command if calls else words, variables, None, 200)
    assert ended.out, ended.text[-3000:]
    return json.loads(ended.out)


@attack("offline-reaches-no-machine")
def offline_with_nothing_to_hold_it(folder: Path) -> None:
    """Neither namespaces nor seccomp: what Python connects is stopped, and the report says that no more is."""
    with _another_machine() as (address, heard):
        host, port = address.split(":")
        connects = f"socket.create_connection(({host!r}, {port}), 2)"
        code = f"import socket\ntry:\n    {connects}\nexcept OSError:\n    pass\n"
        (folder / "train.py").write_text(code + TRAINING)
        sent = _offline(folder, (UNSHARE, SECCOMP))
        assert heard == []
    said = [*sent["probe"]["ending"]["notes"], *sent["probe"]["runs"][0]["notes"]]
    assert any("only Python's connections were stopped" in note for note in said), said
    assert any(f"a connection to {address}" in note for note in said), said
