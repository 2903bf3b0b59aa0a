"""The network of one process of a script under a probe, and its result in words.

A network of its own for a probe that may reach no other machine: loopback and nothing else (Linux).

Have the kernel ask lintrain before this process, or anything that it starts, connects somewhere (Linux's seccomp).

A filter asks for every `connect` without the mark of the guard, for every `listen`, and for every call that changes the
mode, owner, times or attributes of a file; `lintrain.runtime.parent.wall` answers.
It needs no rights, is inherited by every program, and cannot be removed. See `seccomp_unotify(2)`.
"""

from __future__ import annotations

import ctypes
import functools
import os
import struct
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.network import clients, gate, sockets
from lintrain.runtime.sandbox.network.connecting import OF_32_BITS, OF_MACHINE
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
        if is_possible() and not self.gate.is_offline:
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
        gate.take_back_proxies()
        gate.hide_secrets(store, refuses=not self.gate.is_walled)
        Programs(store, new_keys).install(hooks)

    def _hold(self) -> None:
        self._is_first = True
        if self.gate.is_offline:
            self._is_held = leave_the_network()
        is_walled = ask_for_a_wall(self._wall, self.gate.secret)
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


NEW_USER, NEW_NETWORK = 0x10000000, 0x40000000
SET_FLAGS = 0x8914
UP_AND_RUNNING = 0x1 | 0x40


def leave_the_network() -> bool:
    """Whether this process, and what it starts, has a network without a way out from now on.

    Tried in a process of its own first: some systems allow the namespace and then not its loopback interface.
    """
    if not sys.platform.startswith("linux"):
        return False
    tried = os.fork()
    if tried == 0:
        os._exit(0 if _enter() else 1)
    _, status = os.waitpid(tried, 0)
    return status == 0 and _enter()


def _enter() -> bool:
    system = ctypes.CDLL(None, use_errno=True)
    user, group = os.getuid(), os.getgid()
    # Root, as in a container, needs no user namespace for this; a user does, and has to stay the same user in it.
    if system.unshare(NEW_NETWORK) != 0:
        if system.unshare(NEW_USER | NEW_NETWORK) != 0:
            return False
        _keep_identity(user, group)
    return _raise_loopback()


def _keep_identity(user: int, group: int) -> None:
    """Be the same user in the new namespace."""
    for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
        with suppress(OSError), open(f"/proc/self/{name}", "w", encoding="ascii") as opened:
            opened.write(text)


def _raise_loopback() -> bool:
    import _socket

    opened = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        system = ctypes.CDLL(None, use_errno=True)
        asked = struct.pack("=16sh22x", b"lo", UP_AND_RUNNING)
        return bool(system.ioctl(opened.fileno(), SET_FLAGS, asked) == 0)
    finally:
        opened.close()


MACHINES = {
    "x86_64": (
        0xC000003E,
        317,
        {"socket": 41, "connect": 42, "listen": 50, "sendto": 44, "sendmsg": 46, "sendmmsg": 307},
    ),
    "aarch64": (
        0xC00000B7,
        277,
        {"socket": 198, "connect": 203, "listen": 201, "sendto": 206, "sendmsg": 211, "sendmmsg": 269},
    ),
}
"""The architecture as the kernel names it, the number of `seccomp`, and those of the calls that the filter sees."""

OTHERS = {"x86_64": (0x40000003, (102, 362, 369, 370, 345, 425)), "aarch64": (0x40000028, (283, 290, 296, 374, 425))}
"""The 32-bit programs of each: their calls that would connect are refused."""

FLAG_OF_SENDMSG = {"sendto": 3, "sendmsg": 2, "sendmmsg": 3}
FAST_OPEN = 0x20000000
IO_URING_SETUP = 425
SECOND_NUMBERS = 0x40000000
"""From here on the numbers of x32, a second way to make the same calls."""

ALLOW, ASK, REFUSE = 0x7FFF0000, 0x7FC00000, 0x00050000
NO_NEW_PRIVILEGES, SET_MODE_FILTER = 38, 1
NEW_LISTENER, NO_SLOW_SPECULATION_GUARD = 1 << 3, 1 << 2
EPERM, ENOSYS = 1, 38

Step = tuple[int, int, int, int]
LOAD, KEEP_BITS, EQUALS, AT_LEAST, HAS_BITS, RETURN = 0x20, 0x54, 0x15, 0x35, 0x45, 0x06


def filter_steps(machine: str, secret: int) -> list[Step]:
    """The program of the filter; with a `secret` of 0 no connection passes unasked, and no datagram."""
    arch, _, numbers = MACHINES[machine]
    other, others = OTHERS[machine]
    steps: list[Step] = [
        (LOAD, 0, 0, 4),
        # First the architecture: the same number means another call on another one, and a 32-bit program on a 64-bit
        # kernel uses the other's numbers.
        (EQUALS, 0, 1, arch),
        *_jump_over(_refuse_others(other, (*others, *OF_32_BITS[machine]))),
    ]
    steps += [(LOAD, 0, 0, 0)]
    if machine == "x86_64":
        # x32 offers every call under a second number; without this step a program could pass the filter by adding
        # 0x40000000.
        steps += [(AT_LEAST, 0, 1, SECOND_NUMBERS), (RETURN, 0, 0, REFUSE | ENOSYS)]
    # io_uring makes calls without the filter seeing them. ENOSYS, not EPERM: libraries then fall back to ordinary
    # calls.
    steps += [(EQUALS, 0, 1, IO_URING_SETUP), (RETURN, 0, 0, REFUSE | ENOSYS)]
    for number in (numbers["listen"], *OF_MACHINE[machine]):
        steps += [(EQUALS, 0, 1, number), (RETURN, 0, 0, ASK)]
    if not secret:
        steps += _refuse_datagrams(numbers["socket"])
    # TCP Fast Open connects and sends with one `sendto`, past `connect`; with its flag refused, programs fall back to
    # a connection that is asked about.
    for name, argument in FLAG_OF_SENDMSG.items():
        refused = [(LOAD, 0, 0, 16 + 8 * argument), (HAS_BITS, 0, 1, FAST_OPEN), (RETURN, 0, 0, REFUSE | EPERM)]
        steps += [(EQUALS, 0, 4, numbers[name]), *refused, (RETURN, 0, 0, ALLOW)]
    steps += [(EQUALS, 1, 0, numbers["connect"]), (RETURN, 0, 0, ALLOW)]
    return [*steps, *_ask_unless_marked(secret)]


def _refuse_datagrams(number: int) -> list[Step]:
    """No socket of IPv4 or IPv6 that is not one of TCP: a datagram names its receiver where no filter sees it."""
    refused = [(LOAD, 0, 0, 16 + 8), (KEEP_BITS, 0, 0, 0xF), (EQUALS, 1, 0, 1), (RETURN, 0, 0, REFUSE | EPERM)]
    families = [(LOAD, 0, 0, 16), (EQUALS, 1, 0, 2), (EQUALS, 0, 4, 10), *refused]
    return [(EQUALS, 0, len(families) + 1, number), *families, (RETURN, 0, 0, ALLOW)]


def _jump_over(steps: list[Step]) -> list[Step]:
    """The steps for another architecture, which the step before them jumps into or over."""
    return [(0x05, 0, 0, len(steps)), *steps] if steps else []


def _refuse_others(other: int, numbers: tuple[int, ...]) -> list[Step]:
    steps: list[Step] = [(EQUALS, 1, 0, other), (RETURN, 0, 0, REFUSE | ENOSYS), (LOAD, 0, 0, 0)]
    for number in numbers:
        steps += [(EQUALS, 0, 1, number), (RETURN, 0, 0, REFUSE | EPERM)]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _ask_unless_marked(secret: int) -> list[Step]:
    if not secret:
        return [(RETURN, 0, 0, ASK)]
    low, high = secret & 0xFFFFFFFF, secret >> 32
    return [
        *((LOAD, 0, 0, 16 + 8 * 5), (EQUALS, 0, 3, low), (LOAD, 0, 0, 16 + 8 * 5 + 4), (EQUALS, 0, 1, high)),
        *((RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ASK)),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def install_filter(secret: int) -> int:
    """The descriptor on which the kernel asks, or -1 where it does not; holds this thread and all that it starts."""
    machine = os.uname().machine
    packed = b"".join(struct.pack("=HBBI", *step) for step in filter_steps(machine, secret))
    kept = ctypes.create_string_buffer(packed, len(packed))
    program = _Program(len(packed) // 8, ctypes.cast(kept, ctypes.c_void_p))
    system: Any = ctypes.CDLL(None, use_errno=True)
    if system.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        return -1
    number = ctypes.c_long(MACHINES[machine][1])
    flags = ctypes.c_ulong(NEW_LISTENER | NO_SLOW_SPECULATION_GUARD)
    return int(system.syscall(number, ctypes.c_long(SET_MODE_FILTER), flags, ctypes.byref(program)))


def is_possible() -> bool:
    """Whether the system is one whose calls the filter knows."""
    return sys.platform.startswith("linux") and sys.byteorder == "little" and os.uname().machine in MACHINES


def ask_for_a_wall(path: str, secret: int) -> bool:
    """Agree with lintrain on a wall around this process; False if there is none.

    lintrain first tries whether it can read what this process would ask for. Nothing is installed where it cannot.
    """
    if not is_possible():
        return False
    import _socket

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.settimeout(5)
        connection.connect(path)
        # The parent reads addresses from this process's memory when the kernel asks. A container may forbid that:
        # with a wall whose other end can read nothing, every connection of the script would hang.
        sample = ctypes.create_string_buffer(os.urandom(16), 16)
        connection.sendall(struct.pack("=Q16si", ctypes.addressof(sample), sample.raw, connection.fileno()))
        if connection.recv(1) != b"y":
            return False
        return _hand_over(connection, install_filter(secret), _socket)
    except OSError:
        return False
    finally:
        connection.close()


def _hand_over(connection: Any, listener: int, module: Any) -> bool:
    if listener < 0:
        return False
    try:
        # The listener goes to the parent, and is closed here: a script that held it could answer its own questions.
        rights = [(module.SOL_SOCKET, module.SCM_RIGHTS, struct.pack("=i", listener))]
        connection.sendmsg([b"l"], rights)
        return bool(connection.recv(1) == b"y")
    finally:
        os.close(listener)
