"""The network of one process of a script under a probe, and its result in words."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.network import clients, kernel, namespace, secrets, sockets
from lintrain.runtime.sandbox.network.gate import Gate, refusal
from lintrain.runtime.sandbox.network.programs import Programs

WALL = "wall"
"""In the folder of a pass: the socket at which the first process asks for a wall (`lintrain.runtime.parent.wall`)."""

FIRST = "LINTRAIN_PROBE_NETWORK"
"""Set by the process that asked the kernel to hold it and all that it starts."""
HELD = "held"


class Network:
    """Watches what a process sends; the first one of a script also has the kernel hold what cannot be watched."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._temporary: str = request["temporary"]
        self._wall: str = os.path.join(request.get("exchange", self._temporary), WALL)
        self._secret = int(request.get("secret") or 0)
        self._is_first = False
        self._is_held = False
        self.gate = Gate(self._temporary, is_offline=bool(request.get("offline")))

    def install(self, hooks: AfterImport, new_keys: Callable[[int], list[str]]) -> None:
        """Watch this process; its descendants inherit the kernel's part, and get new keys."""
        if kernel.is_possible() and not self.gate.is_offline:
            self.gate.secret = self._secret
        # Only the first process of the script asks: a filter is inherited, a second one would ask twice about every
        # connection.
        if FIRST not in os.environ:
            self._hold()
        self.gate.is_walled = bool(self.gate.secret) and os.environ.get(FIRST) == HELD
        streams = sockets.Streams(self.gate)
        hooks.add("socket", functools.partial(sockets.watch_sockets, self.gate, streams))
        hooks.add("ssl", functools.partial(sockets.watch_tls, streams))
        clients.install(self.gate, hooks)
        store = os.path.join(self._temporary, "no-keys")
        secrets.take_back_proxies()
        secrets.hide_secrets(store, refuses=not self.gate.is_walled)
        Programs(store, new_keys).install(hooks)

    def _hold(self) -> None:
        self._is_first = True
        if self.gate.is_offline:
            self._is_held = namespace.leave_the_network()
        is_walled = kernel.ask_for_a_wall(self._wall, self.gate.secret)
        os.environ[FIRST] = HELD if is_walled else "not held"
        self._is_held |= is_walled

    def summary(self, programs: Sequence[str]) -> list[str]:
        """What could not be held, in a line for the report; `programs` are those that the script started."""
        if self._is_held or not self._is_first or not (programs or self.gate.is_offline):
            return []
        if self.gate.is_offline:
            return ["this system cannot isolate a process from the network: only Python's connections were stopped"]
        return [
            f"this system cannot keep a program off the network: `{programs[0]}` got no credentials "
            "and a proxy that refuses every request"
        ]

    def refusal(self, error: BaseException) -> str | None:
        """Why an error is of lintrain's making and not the script's; None if it is the script's."""
        return refusal(error)
