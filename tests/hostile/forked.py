"""Start probed scripts by forking, so that each finds torch imported and costs no imports."""

from __future__ import annotations

import atexit
import json
import os
import random
import runpy
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import IO, Any, NoReturn, Self

import numpy as np
import torch

from lintrain.runtime.parent import supervised, supervisor
from tests.support.forking import boot, get_ready_to_fork, pass_for_started_in

EXECUTE = os.execvpe


class Forked:
    """Stands in for `subprocess.Popen` where a probe starts the supervisor of a script."""

    def __init__(self, command: Sequence[str], *, cwd: str, stdin: int, pass_fds: Sequence[int], **_: Any) -> None:
        reading, writing = os.pipe()
        self.returncode: int | None = None
        get_ready_to_fork()
        self.pid = os.fork()
        if self.pid == 0:
            _supervise(cwd, stdin, writing, int(command[-1]))
        os.close(writing)
        self.stdout: IO[bytes] = os.fdopen(reading, "rb", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stdout.close()
        self.wait()

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """The exit status, waited for."""
        end = time.monotonic() + (timeout or 3600)
        while self.poll() is None:
            if time.monotonic() > end:
                raise subprocess.TimeoutExpired("script", timeout or 0)
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode

    def kill(self) -> None:
        """End it at once."""
        os.kill(self.pid, signal.SIGKILL)


def install_forking() -> None:
    """Have probes fork this process for the supervisors of scripts, and these for the scripts."""
    stand_in = ModuleType("subprocess")
    vars(stand_in).update(vars(subprocess), Popen=Forked)
    supervised.subprocess = stand_in  # type: ignore[attr-defined]


def _supervise(folder: str, stdin: int, output: int, control: int) -> NoReturn:
    """Live as a Python that was started on the supervisor; the script that it starts is forked too."""
    try:
        os.setsid()
        given = os.open(os.devnull, os.O_RDONLY) if stdin == subprocess.DEVNULL else stdin
        for number, descriptor in enumerate((given, output, output)):
            os.dup2(descriptor, number)
        os.closerange(3, control)
        os.closerange(control + 1, 256)
        os.chdir(folder)
        os.execvpe = _become  # type: ignore[assignment]
        supervisor.main(control)
    finally:
        os._exit(0)


def _become(_program: str, command: Sequence[str], environment: dict[str, str]) -> NoReturn:
    """Live as a Python that was started on a script with the probe's `sitecustomize`."""
    os.closerange(3, 256)
    os.execvpe = EXECUTE
    os.environ.clear()
    os.environ.update(environment)
    tempfile = sys.modules["tempfile"]
    tempfile.tempdir = None  # type: ignore[attr-defined]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)  # pyright: ignore[reportUnknownMemberType]
    sys.argv = list(command[1:])
    sys.path.insert(0, str(Path(command[1]).absolute().parent))
    pass_for_started_in(str(Path.cwd()))
    atexit._clear()  # pyright: ignore[reportPrivateUsage]
    _run(command[1])


def _run(script: str) -> NoReturn:
    status = 0
    try:
        boot.start(json.loads(Path(os.environ["LINTRAIN_PROBE_REQUEST"]).read_text(encoding="utf-8")))
        runpy.run_path(script, run_name="__main__")
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException as error:  # noqa: BLE001 - as Python does with whatever ends a script
        status, sys.last_value = 1, error  # as Python sets it before it calls the hook
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # what Python does before its exit hooks
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        os._exit(status)
