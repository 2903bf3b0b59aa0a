"""A process that forks one child per command: `python -m tests.support.warm.server SOCKET libraries|commands`.

It has the libraries of training imported, or the commands of lintrain. The child gets folder, environment, arguments
and streams of the client; with the libraries it runs the probe's `sitecustomize`, as Python would have at its start.
One command runs at a time, and ends with its client: when that is killed, so is the child. The server ends when its
standard input closes.
"""

from __future__ import annotations

import array
import atexit
import builtins
import gc
import marshal
import os
import random
import re
import runpy
import select
import signal
import socket
import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, NoReturn

from lintrain.evidence.run import Evidence
from lintrain.read import load as load_reader
from lintrain.report.machine.document import CheckReport
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import Record
from lintrain.runtime.parent.timeline import Gathered, TimelineStep
from lintrain.startup.validators import validator_of
from tests.support.forking import (
    get_ready_to_fork,
    load_libraries,
    load_package,
    pass_for_started_in,
    write_dataclasses,
)
from tests.support.warm.replacing import let_packages_follow

SLOW = (
    "accelerate",
    "keras",
    "lightning",
    "peft",
    "pytorch_lightning",
    "sentence_transformers",
    "setfit",
    "sklearn.metrics",
    "trl",
)
OF_COMMANDS = tuple(
    f"lintrain.{name}"
    for name in (
        "analysis",
        "check",
        "cli",
        "interpreter",
        "libraries",
        "pipeline",
        "report",
        "runtime.parent",
        "verdicts",
    )
)
IMPORTED = re.compile(r"^\s*(?:import|from) (\w+)", re.MULTILINE)
PACKAGE = Path(__file__).parents[3] / "lintrain"
SITE = PACKAGE / "runtime" / "child" / "site" / "sitecustomize.py"


def main() -> None:
    """Answer clients, one after the other, until the input ends."""
    if runs_commands():
        load_commands()
    else:
        load_libraries()
        let_packages_follow()
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(sys.argv[1])
        listening.listen()
        while True:
            ready, _, _ = select.select([listening, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            client, _ = listening.accept()
            with client, suppress(ConnectionError):  # a client that a time limit killed wants no answer
                answer(client)


def runs_commands() -> bool:
    """Whether commands of lintrain run here, and no scripts of a probe."""
    return sys.argv[2:] == ["commands"]


def load_commands() -> None:
    """Import and make what a command may need, rules included; nothing of it looks at folder or environment."""
    for module in walk_packages([str(PACKAGE)], "lintrain."):
        if module.name.startswith(OF_COMMANDS):
            import_module(module.name)
    for rule in load_rules():
        rule.is_preview  # noqa: B018 - its file is imported, and what a check asks of each rule is known now
    load_reader()
    for kind in (Evidence, Record, CheckReport, TimelineStep, Gathered):
        validator_of(kind)
    write_dataclasses()
    gc.collect()


def answer(client: socket.socket) -> None:
    """Run a client's command in a child, and tell its exit status."""
    asked, streams = received(client)
    if not runs_commands():
        preload(asked)
    get_ready_to_fork()
    child = os.fork()
    if child == 0:
        client.close()
        run(asked, streams)
    for stream in streams:
        os.close(stream)
    follow(client, child)


def received(client: socket.socket) -> tuple[dict[str, Any], list[int]]:  # Any: what a client wrote
    """What a client asks for, and its three streams."""
    length, ancillary, _, _ = client.recvmsg(8, socket.CMSG_SPACE(3 * array.array("i").itemsize))
    streams = array.array("i")
    for _, _, data in ancillary:
        streams.frombytes(data)
    try:
        length = more(client, length, 8)
        return marshal.loads(more(client, b"", int.from_bytes(length, "big"))), list(streams)
    except ConnectionError:
        for stream in streams:
            os.close(stream)
        raise


def more(client: socket.socket, begun: bytes, size: int) -> bytes:
    """So many bytes of a client, those that have come included."""
    while len(begun) < size:
        part = client.recv(min(size - len(begun), 2**16))
        if not part:
            raise ConnectionAbortedError("the client left before it had said what to run")
        begun += part
    return begun


def preload(asked: dict[str, Any]) -> None:
    """Import what the script names and what takes long."""
    files = [Path(asked["folder"]) / word for word in asked["words"] if word.endswith((".py", ".json"))]
    text = "\n".join(file.read_text(errors="replace") for file in files if file.is_file())
    for name in SLOW:
        if name.partition(".")[0] in IMPORTED.findall(text.replace('"', "\n").replace("\\n", "\n")):
            load_package(name)


def follow(client: socket.socket, child: int) -> None:
    """Tell a client how its child ended; kill the child when the client is gone."""
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            client.sendall(str(code if code >= 0 else 128 - code).encode())
            return
        is_gone, _, _ = select.select([client], [], [], 0.01)
        if is_gone:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return


def run(asked: dict[str, Any], streams: list[int]) -> NoReturn:
    """The child's life: as if Python had been started with these words."""
    status = 0
    try:
        prepare(asked, streams)
        start(asked["words"])
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException as error:  # noqa: BLE001 - whatever ends a script is its end
        status, sys.last_value = 1, error  # as Python sets it before it calls the hook
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(status)


def prepare(asked: dict[str, Any], streams: list[int]) -> None:
    """Give the child its session, folder, environment, streams and seeds, then the probe where scripts run."""
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    # The objects for the old streams know that those were files, or a pipe.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", 1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = os.fdopen(2, "w", 1, errors="backslashreplace", closefd=False)
    os.chdir(asked["folder"])
    pass_for_started_in(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    random.seed()
    sys.path[0] = ""
    if not runs_commands():
        runpy.run_path(str(SITE))


def start(words: list[str]) -> None:
    """Run code, a module or a script, the arguments behind it."""
    match words:
        case ["-c", code, *rest]:
            sys.argv = ["-c", *rest]
            exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
        case ["-m", module, *_]:
            sys.argv = words[1:]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case _:
            sys.argv = words
            sys.path[0] = str(Path(words[0]).resolve().parent)
            run_main(words[0])


def run_main(path: str) -> None:
    """A script as the main module, which stays so for what ends after it."""
    module = ModuleType("__main__")
    module.__dict__.update(__file__=path, __builtins__=builtins)
    sys.modules["__main__"] = module
    exec(compile(Path(path).read_bytes(), path, "exec"), module.__dict__)


if __name__ == "__main__":
    main()
