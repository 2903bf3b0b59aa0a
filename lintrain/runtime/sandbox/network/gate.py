"""Decides on each request of this process, and writes down for the report what it stopped."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from typing import Any

from lintrain.runtime.sandbox.network import policy

FILE = "stopped.jsonl"
"""In the temporary folder of a pass: one JSON string for each request that was stopped, of all processes."""
MOST = 1_000
MARK = "a probe sends nothing that could change something elsewhere"
STOPPED = re.compile(MARK + ": `[^`\n]*` was stopped")
OPEN, WRITE, CLOSE = os.open, os.write, os.close
"""As they are before the script, which may put something else in their place."""


class StoppedError(ConnectionRefusedError):
    """A request that a probe does not send; to the libraries it is a connection that was refused."""


class Gate:
    """The one judge of a process: every layer that sends asks it; `is_offline` where no other machine may be reached.

    `secret` marks to the kernel the connections that this process watches; 0 if the kernel does not ask. Where it
    `is_walled` somebody answers who knows the servers of the script itself.
    """

    def __init__(self, temporary: str, *, is_offline: bool) -> None:
        self.is_offline = is_offline
        self.secret = 0
        self.is_walled = False
        self.reads_frames = False
        self._file = os.path.join(temporary, FILE)
        self._written = 0

    def demand_read(self, method: str, authority: str, target: str, headers: Iterable[str] = ()) -> None:
        """Raise StoppedError for a request that could change something; `headers` are names, in lower case."""
        names = frozenset(headers)
        # A GET with `X-HTTP-Method-Override: DELETE` is a DELETE to many servers.
        if not policy.only_reads(method, authority, target) or names & policy.OVERRIDES:
            self.stop(policy.shown(method, authority, target))
        if "upgrade" in names:
            self.stop(policy.shown("UPGRADE", authority, target))

    def stop(self, what: str) -> None:
        """Write down what is stopped, and raise StoppedError."""
        raise self.stopped(what)

    def write_down(self, what: str) -> None:
        """Name something in the report that was not sent."""
        if self._written < MOST:
            self._written += 1
            self._append(json.dumps(what).encode() + b"\n")

    def stopped(self, what: str) -> StoppedError:
        """The error for something that is stopped, which is written down."""
        self.write_down(what)
        return StoppedError(f"{MARK}: `{what}` was stopped")

    def _append(self, line: bytes) -> None:
        try:
            opened = OPEN(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        except OSError:
            return  # without room the request is stopped all the same
        try:
            WRITE(opened, line)
        finally:
            CLOSE(opened)


def refusal(error: BaseException | None) -> str | None:
    """Why an error is of lintrain's making: it comes from a request that was stopped; None for any other error."""
    seen: Any = error
    # Errors of urllib3, requests and huggingface_hub wrap each other.
    for _ in range(12):
        if seen is None:
            return None
        if found := STOPPED.search(str(seen)):
            return found[0]
        seen = seen.__cause__ or seen.__context__
    return None
