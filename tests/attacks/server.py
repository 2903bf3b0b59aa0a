"""Attacks on the language server by what its client sends and by what lies in the workspace."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

from tests.attacks.attack import attack
from tests.attacks.budget import SCRIPT
from tests.attacks.commands import CPU_SECONDS, MEMORY_BYTES, ROOT
from tests.support.language_client import LanguageClient

ANSWERS_ON = "the-server-answers-on"


class Watched:
    """A server in a process of its own, whose costs are looked at."""

    def __init__(self, folder: Path, variables: dict[str, str]) -> None:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(folder / ".cache"), **variables}
        command = [sys.executable, "-P", "-m", "lintrain", "server"]
        self.process = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=environment, cwd=folder)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin = self.process.stdin
        self.client = LanguageClient(self.process.stdout, self.stdin)
        self.folder = folder

    def raw(self, content: bytes) -> None:
        """Write bytes, however they are."""
        self.stdin.write(content)
        self.stdin.flush()

    def assert_well(self) -> None:
        """It finds what it should in another document, within bounds."""
        path = self.folder / "well.py"
        path.write_text(SCRIPT)
        found = self.client.diagnostics(self.client.open(path))
        assert [each for each in found if each["code"] == "missing-zero-grad"], found
        assert self.peak() < MEMORY_BYTES, f"{self.peak() / 2**20:.0f} MiB"
        assert self.cpu_seconds() < CPU_SECONDS, f"{self.cpu_seconds():.1f} s of CPU"

    def peak(self) -> int:
        """The most memory that it has held, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def close(self) -> None:
        """End it; what it was still to be told is lost."""
        self.process.kill()
        self.process.wait()
        self.client.wait_for_the_end()
        assert self.process.stdout is not None
        self.process.stdout.close()
        with contextlib.suppress(BrokenPipeError):
            self.stdin.close()

    def cpu_seconds(self) -> float:
        """The CPU time that it has taken."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def serving(
    folder: Path, capabilities: Any = None, options: Any = None, variables: dict[str, str] | None = None
) -> Generator[Watched]:
    """A server that has been greeted."""
    server = Watched(folder, variables or {})
    try:
        server.client.start([folder], capabilities, options)
        yield server
    finally:
        server.close()


def framed(body: bytes) -> bytes:
    """A message with its header."""
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def notification(method: str, params: bytes) -> bytes:
    """A notification with its header."""
    return framed(b'{"jsonrpc": "2.0", "method": "%s", "params": %s}' % (method.encode(), params))


NOWHERE = b'{"uri": "file:///none.py", "version": 9}'
TRAFFIC = {
    "no-json": framed(b"not json"),
    "no-object": framed(b"[1, 2]"),
    "a-number": framed(b"17"),
    "empty-object": framed(b"{}"),
    "no-utf-8": framed(b'{"jsonrpc": "2.0", "method": "\xff\xfe"}'),
    "deep-lists": framed(b"[" * 200_000),
    "deep-params": notification("initialized", b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
    "unknown-method": notification("nothing/atAll", b"{}") * 200,
    "id-is-a-list": framed(b'{"jsonrpc": "2.0", "id": [1], "method": "textDocument/hover", "params": {}}'),
    "id-is-long": framed(b'{"jsonrpc": "2.0", "id": ' + b"9" * 5000 + b', "method": "shutdown"}'),
    "answers-nobody-asked": framed(b'{"jsonrpc": "2.0", "id": "x", "result": {}}') * 500,
    "negative-length": b"Content-Length: -5\r\n\r\n",
    "length-of-letters": b"Content-Length: many\r\n\r\n",
    "two-lengths": b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "no-length": b"Content-Type: text\r\n\r\n",
    "long-header": b"X: " + b"a" * 3_000_000 + b"\r\n\r\n",
    "document-is-null": notification("textDocument/didOpen", b"null"),
    "text-is-a-number": notification("textDocument/didOpen", b'{"textDocument": {"uri": "file:///a.py", "text": 5}}'),
    "edit-of-nothing": notification(
        "textDocument/didChange", b'{"textDocument": %s, "contentChanges": [{"text": "x"}]}' % NOWHERE
    ),
    "cells-of-nothing": notification("notebookDocument/didChange", b'{"notebookDocument": %s, "change": {}}' % NOWHERE),
    "cancel-of-nothing": notification("$/cancelRequest", b'{"id": 99999}') * 100,
    "too-large-by-hand": notification("lintrain/tooLarge", b'{"uri": [1], "id": {}, "length": "x"}'),
}


@attack(ANSWERS_ON, cases=TRAFFIC)
def traffic(folder: Path, content: bytes) -> None:
    """Messages that no client sends."""
    with serving(folder) as server:
        server.raw(content)
        server.assert_well()


@attack(ANSWERS_ON)
def message_of_300_megabytes(folder: Path) -> None:
    """A document larger than any: it is passed over, and a question in such a message is refused."""
    with serving(folder) as server:
        body = b'{"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": '
        body += b'{"textDocument": {"uri": "file:///huge.py", "languageId": "python", "version": 1, "text": "'
        server.raw(b"Content-Length: %d\r\n\r\n" % (len(body) + 300 * 2**20 + 4) + body)
        for _ in range(300):
            server.raw(b"a" * 2**20)
        server.raw(b'"}}}')
        number = server.client.start_asking("textDocument/hover", {"a": "b" * (17 * 2**20)})
        assert "too large" in server.client.answer(number)["error"]["message"]
        server.assert_well()


URIS = {
    "untitled": "untitled:Untitled-1",
    "other-host": "file://evil.invalid/share/train.py",
    "web": "https://evil.invalid/train.py",
    "nul": "file:///tmp/a%00b.py",
    "slashes": "file:///tmp/..%2f..%2fetc%2fpasswd.py",
    "long": "untitled:" + "a" * 100_000,
    "no-utf-8": "file:///tmp/%ff%fe.py",
    "empty": "",
    "brackets": "file://[::1",
    "device": "file:///dev/zero",
    "command": "command:workbench.action.terminal.new",
}


@attack(ANSWERS_ON, cases=URIS, slow=True)
def address_of_a_document(folder: Path, uri: str) -> None:
    """Documents that lie nowhere, or where nobody may look."""
    with serving(folder) as server:
        client = server.client
        client.open(uri, SCRIPT)
        client.change(uri, 2, {"text": SCRIPT + "# more\n"})
        client.notify("textDocument/didSave", {"textDocument": {"uri": uri}})
        at = {"textDocument": {"uri": uri}, "position": {"line": 10, "character": 4}}
        client.answer(client.start_asking("textDocument/hover", at))
        command = {"command": "lintrain.probe", "arguments": [uri]}
        client.answer(client.start_asking("workspace/executeCommand", command))
        client.close(uri)
        server.assert_well()


def storm_of_edits(server: Watched, uri: str) -> None:
    for version in range(2, 3_000):
        where = {"start": {"line": version, "character": 0}, "end": {"line": version, "character": 0}}
        server.client.change(uri, version, {"range": where, "text": "x = 1\n"})


def edits_out_of_range(server: Watched, uri: str) -> None:
    for version, (line, character) in enumerate([(10**9, 0), (0, 10**9), (2**31 - 1, 2**31 - 1)], start=2):
        where = {"start": {"line": line, "character": character}, "end": {"line": 0, "character": 0}}
        server.client.change(uri, version, {"range": where, "text": "#"})


def edit_of_many_parts(server: Watched, uri: str) -> None:
    where = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 0}}
    server.client.change(uri, 2, *({"range": where, "text": "#\n"} for _ in range(3_000)))


def halves_of_characters(server: Watched, uri: str) -> None:
    server.client.change(uri, 2, {"text": 'x = "\ud800"\n' + SCRIPT})


def versions_backwards(server: Watched, uri: str) -> None:
    for version in range(50, 0, -1):
        server.client.change(uri, version, {"text": SCRIPT})


def long_line(server: Watched, uri: str) -> None:
    server.client.change(uri, 2, {"text": "x = " + "1 + " * 20_000 + "1\n"})


def deep_nesting(server: Watched, uri: str) -> None:
    server.client.change(uri, 2, {"text": "x = " + "(" * 5_000 + ")" * 5_000 + "\n"})


def storm_of_questions(server: Watched, uri: str) -> None:
    at = {"textDocument": {"uri": uri}, "position": {"line": 10, "character": 4}}
    numbers = [server.client.start_asking("textDocument/hover", at) for _ in range(500)]
    for number in numbers:
        server.client.notify("$/cancelRequest", {"id": number})


def storm_of_settings(server: Watched, _uri: str) -> None:
    for number in range(300):
        settings = {"lintrain": {"enable": number % 2 == 0}}
        server.client.notify("workspace/didChangeConfiguration", {"settings": settings})
    server.client.notify("workspace/didChangeConfiguration", {"settings": {"lintrain": {"enable": True}}})


def commands_of_other_types(server: Watched, _uri: str) -> None:
    for arguments in ([], [1], [None], [{"a": 1}], ["../../etc/passwd"], ["a" * 10**6], [[["x"]]], ["\x1b]0;x\x07"]):
        for command in ("lintrain.probe", "lintrain.explain", "lintrain.nothing"):
            given = {"command": command, "arguments": arguments}
            server.client.answer(server.client.start_asking("workspace/executeCommand", given))


EDITS: dict[str, Callable[[Watched, str], None]] = {
    each.__name__.replace("_", "-"): each
    for each in (
        storm_of_edits,
        edits_out_of_range,
        edit_of_many_parts,
        halves_of_characters,
        versions_backwards,
        long_line,
        deep_nesting,
        storm_of_questions,
        storm_of_settings,
        commands_of_other_types,
    )
}


@attack(ANSWERS_ON, cases=EDITS)
def session_that(folder: Path, attack_on: Callable[[Watched, str], None]) -> None:
    """What a client does after it has opened a document."""
    with serving(folder) as server:
        uri = server.client.open(folder / "train.py", SCRIPT)
        server.client.diagnostics(uri)
        attack_on(server, uri)
        server.assert_well()


SETTINGS: dict[str, object] = {
    "a-list": [1, 2],
    "a-text": "yes",
    "wrong-types": {"enable": "no", "probe": {"timeout": [], "arguments": "x", "python": 7}},
    "a-device": {"configuration": "/dev/zero"},
    "unknown": {f"name{number}": number for number in range(5_000)},
    "long": {"configuration": "a" * 1_000_000},
    "escapes": {"configuration": "\x1b]0;x\x07[link](command:evil)"},
}


@attack(ANSWERS_ON, cases=SETTINGS, slow=True)
def settings_of_a_client(folder: Path, settings: object) -> None:
    """Settings that come with the first message and later; nothing in a message is a link or an escape sequence."""
    with serving(folder, options={"settings": settings, "trusted": "maybe"}) as server:
        server.client.notify("workspace/didChangeConfiguration", {"settings": {"lintrain": settings}})
        server.client.notify("workspace/didChangeConfiguration", {"settings": {"lintrain": {"configuration": ""}}})
        server.assert_well()
        for message in server.client.messages():
            assert "\x1b" not in message, message
            assert "](" not in message, message
            assert len(message) < 3_000, len(message)


CONFIGURATIONS: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "large": lambda path: path.write_text("# " + "a" * 5_000_000),
    "deep": lambda path: path.write_text("exclude = " + "[" * 20_000),
    "globs": lambda path: path.write_text(f"exclude = {json.dumps(['*' * 50 + 'a' * 20 + '**/' * 30] * 300)}"),
    "rules": lambda path: path.write_text('select = ["' + "a-" * 20_000 + '"]'),
}


@attack(ANSWERS_ON, cases=CONFIGURATIONS)
def configuration_of_a_workspace(folder: Path, make: Callable[[Path], object]) -> None:
    """The configuration file of the workspace is hostile; documents beside it are checked all the same."""
    (folder / "inner").mkdir()
    make(folder / "inner" / "lintrain.toml")
    with serving(folder) as server:
        inner = folder / "inner" / "train.py"
        inner.write_text(SCRIPT)
        server.client.diagnostics(server.client.open(inner))
        server.assert_well()


MARK = '#!/bin/sh\ntouch {mark}\nexec {python} "$@"\n'


def plant_python(folder: Path) -> Path:
    """An interpreter in the workspace that leaves a mark."""
    program = folder / ".venv" / "bin" / "python"
    program.parent.mkdir(parents=True)
    program.write_text(MARK.format(mark=folder / "ran", python=sys.executable))
    program.chmod(0o755)
    return program


SOURCES: dict[str, Callable[[Path], Any]] = {
    "initialization": lambda python: {"settings": {"probe": {"python": str(python)}}},
    "relative": lambda _: {"settings": {"probe": {"python": ".venv/bin/python"}}},
    "not-trusted": lambda python: {"settings": {"probe": {"python": str(python)}}, "trusted": False},
    "trusted-by-a-text": lambda python: {"settings": {"probe": {"python": str(python)}}, "trusted": "true"},
    "trusted-in-settings": lambda python: {"settings": {"trusted": True, "probe": {"python": str(python)}}},
}


@attack("the-server-asks-first", cases=SOURCES)
def interpreter_of_a_workspace(folder: Path, options: Callable[[Path], Any]) -> None:
    """A setting names a program of the workspace; the client answers no question about it."""
    python = plant_python(folder)
    (folder / "train.py").write_text(SCRIPT)
    with serving(folder, options=options(python)) as server:
        uri = server.client.open(folder / "train.py")
        server.client.diagnostics(uri)
        command = {"command": "lintrain.probe", "arguments": [uri]}
        server.client.ask("workspace/executeCommand", command)
        server.client.wait_for(lambda message: message["method"] == "window/showMessage")
        time.sleep(0.5)
        server.assert_well()
    assert not (folder / "ran").exists()


@attack("the-server-asks-first")
def interpreter_found_in_a_workspace(folder: Path) -> None:
    """Nothing names the `.venv`, and lintrain's own Python lacks what the script imports."""
    plant_python(folder)
    (folder / "train.py").write_text("import tensorflow\nimport lightning\n" + SCRIPT)
    with serving(folder) as server:
        uri = server.client.open(folder / "train.py")
        server.client.ask("workspace/executeCommand", {"command": "lintrain.probe", "arguments": [uri]})
        server.client.wait_for(lambda message: message["method"].startswith("window/showMessage"))
        server.assert_well()
    assert not (folder / "ran").exists()


@attack("the-server-asks-first", cases=("ruff", "git", "python", "python3", "sh"))
def program_of_a_workspace(folder: Path, name: str) -> None:
    """Programs of the workspace, by their usual names, with the workspace on the search path."""
    for inner in (folder, folder / "bin", folder / ".venv" / "bin"):
        inner.mkdir(parents=True, exist_ok=True)
        (inner / name).write_text(f"#!/bin/sh\n/usr/bin/touch {folder / 'ran'}\n")
        (inner / name).chmod(0o755)
    path = os.pathsep.join([".", "bin", "", str(folder / ".venv" / "bin"), os.environ["PATH"]])
    with serving(folder, variables={"PATH": path, "VIRTUAL_ENV": str(folder / ".venv")}) as server:
        server.assert_well()
    assert not (folder / "ran").exists() or name == "sh"
