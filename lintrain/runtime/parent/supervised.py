"""Start a script below a supervisor (Linux), or as a child of this process if the system has no subreaper."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO

from lintrain.runtime.parent import supervisor

START_SECONDS = 60.0
END_SECONDS = supervisor.LONGEST_END + 5


class ScriptProcess:
    """The script's first process: `pid` and `returncode` as `subprocess.Popen` has them; `supervisor` is its parent."""

    def __init__(self, command: Sequence[str], folder: str, environment: Mapping[str, str], stdin: int) -> None:
        self.returncode: int | None = None
        self.supervisor: int | None = None
        self._control: socket.socket | None = None
        if sys.platform.startswith("linux"):
            self._popen = self._start_supervisor(folder, stdin)
            self.supervisor = self._popen.pid
            try:
                self.pid = self._ask_to_start(list(command), dict(environment))
            except OSError:
                self.close()
                with self._popen:  # closes its output
                    raise
        else:
            self._popen = subprocess.Popen(
                list(command),
                cwd=folder,
                env=dict(environment),
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=sys.platform != "win32",
            )
            self.pid = self._popen.pid
        if self._popen.stdout is None:
            raise RuntimeError("the script's output has no pipe")
        self.stdout: IO[bytes] = self._popen.stdout

    def _start_supervisor(self, folder: str, stdin: int) -> subprocess.Popen[bytes]:
        self._control, theirs = socket.socketpair()
        with theirs:
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-B", supervisor.__file__, str(theirs.fileno())],
                cwd=folder,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )

    def _ask_to_start(self, command: list[str], environment: dict[str, str]) -> int:
        """The pid of the script; raises OSError where it cannot be started."""
        # By the socket and not by arguments: an environment may be larger than a command line, and every user can
        # read command lines.
        asked = marshal.dumps((command, environment))
        self._link.settimeout(START_SECONDS)
        self._link.sendall(len(asked).to_bytes(supervisor.LENGTH_BYTES, "big") + asked)
        number = int(self._line() or "-1")
        if number <= 0:
            raise OSError(-number, os.strerror(-number), command[0])
        self._link.settimeout(None)
        return number

    @property
    def _link(self) -> socket.socket:
        if self._control is None:
            raise RuntimeError("the script has no supervisor")
        return self._control

    def _line(self) -> bytes:
        line = b""
        while not line.endswith(b"\n") and (part := self._link.recv(1)):
            line += part
        return line

    def poll(self) -> int | None:
        """The return code, or None while the script runs."""
        if self._control is None:
            self.returncode = self._popen.poll() if self.returncode is None else self.returncode
        elif self.returncode is None:
            self._control.setblocking(False)
            with suppress(BlockingIOError):
                self.returncode = self._reported()
        return self.returncode

    def _reported(self) -> int:
        """What the supervisor reports; one that was killed has taken the script with it."""
        try:
            first = self._link.recv(1)
        except ConnectionError:
            first = b""
        # The end of the socket: the supervisor is gone, and with PR_SET_PDEATHSIG the kernel has killed the script.
        if not first:
            return -signal.SIGKILL
        self._link.setblocking(True)
        return int(first + self._line())

    def wait(self, timeout: float | None = None) -> int:
        """The return code, once the script has ended; raises TimeoutExpired."""
        if self._control is None and self.returncode is None:
            self.returncode = self._popen.wait(timeout)
            return self.returncode
        deadline = None if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if deadline is not None and time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("the script", timeout or 0)
            time.sleep(0.01)
        return code

    def close(self) -> None:
        """Have the supervisor end what is left, and end itself; one that does not is killed."""
        if self._control is None:
            return
        self.poll()
        if self.returncode is None:
            self.returncode = -signal.SIGKILL
        # Its supervisor takes this for the order to end everything.
        self._control.close()
        self._control = None
        try:
            self._popen.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            self._popen.wait()
