"""The warm Pythons of one test process: a server each, and the program that stands for it.

One runs the scripts of probes (`lintrain probe --python`), the other the commands of lintrain.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).parents[3]
CLIENT = Path(__file__).with_name("client.py")
SECONDS_TO_START = 120.0


class WarmPython:
    """A server in a folder of its own, and `program`, which runs what Python would run, there.

    `holds` says what is imported there: the "libraries" of training, in this process's environment with the variables
    given, or the "commands" of lintrain.
    """

    def __init__(self, folder: Path, holds: Literal["libraries", "commands"] = "libraries", **variables: str) -> None:
        self._folder = folder
        self._socket = folder / "socket"
        self.program = folder / "python"
        self.program.write_text(f"#!/bin/sh\nexec '{sys.executable}' -S -E '{CLIENT}' '{self._socket}' \"$@\"\n")
        self.program.chmod(0o755)
        with (folder / "server.txt").open("w") as printed:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "tests.support.warm.server", str(self._socket), holds],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
            )
        self._wait()

    def _wait(self) -> None:
        ends = time.monotonic() + SECONDS_TO_START
        while not self._socket.exists():
            if self._server.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"the warm Python did not start: {(self._folder / 'server.txt').read_text()}")
            time.sleep(0.05)

    def stop(self) -> None:
        """End the server, whose standard input closes, and remove its folder."""
        if self._server.stdin:
            self._server.stdin.close()
        self._server.wait(30)
        shutil.rmtree(self._folder, ignore_errors=True)
