"""Connections that the guard watches: made with the mark that the kernel lets pass, refused when a probe is offline.

The system calls that change a file's mode, owner, times or attributes, and where they name the file.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import os
import select
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from lintrain.runtime.sandbox.network.gate import Gate

CONNECT = {"x86_64": 42, "aarch64": 203}
QUESTION = 1
"""Flipped in the mark: asks whether the server is one of the script's own, and connects only then."""
NOT_OWN = errno.ENOANO
"""The answer that it is not; no connection ends with it otherwise."""
IN_PROGRESS = (errno.EINPROGRESS, errno.EINTR, errno.EALREADY)


def is_here(host: str) -> bool:
    """Whether an address is this machine's loopback."""
    host = host.lower().removeprefix("::ffff:")
    return host in ("localhost", "::1", "0.0.0.0", "::", "") or host.startswith("127.")


def install(gate: Gate, begins: Callable[..., None], module: Any) -> None:
    """Stand in for the methods of `socket.socket` that connect."""
    owner, inet = module.socket, (module.AF_INET, module.AF_INET6)
    connect, connect_ex = owner.connect, owner.connect_ex

    @functools.wraps(connect)
    def connects(self: Any, address: Any) -> Any:
        if self.family not in inet:
            return connect(self, address)
        # Before the connection is made: bytes may be sent at once in another thread.
        begins(self)
        _demand_allowed(gate, self, address, module)
        if not gate.secret:
            return connect(self, address)
        packed = _packed(module, self, address)
        sys.audit("socket.connect", self, address)
        # Asked first whether the server is the script's own: what is sent to it stays on this machine, and protocols
        # without HTTP (gloo, a debugger) work.
        if gate.is_walled and _connect(module, self, packed, gate.secret ^ QUESTION):
            return begins(self, is_own=True)
        return _connect(module, self, packed, gate.secret)

    @functools.wraps(connect_ex)
    def connects_ex(self: Any, address: Any) -> int:
        try:
            connects(self, address)
        except OSError as error:
            if error.errno is None:
                raise
            return int(error.errno)
        return 0

    owner.connect, owner.connect_ex = connects, connects_ex


def is_of_internet(address: Any) -> bool:
    """Whether an address has a host and a port; that of another family is a text."""
    return isinstance(address, tuple)


def _demand_allowed(gate: Gate, connection: Any, address: Any, module: Any) -> None:
    if gate.is_offline and is_of_internet(address) and connection.type == module.SOCK_STREAM:
        host, port = address[:2]
        if not is_here(str(host)):
            error = gate.stopped(f"a connection to {host}:{port}")
            raise type(error)(errno.ENETUNREACH, str(error))


def _connect(module: Any, connection: Any, packed: bytes, secret: int) -> bool:
    """`connect(2)` with a mark as its sixth argument, which the call itself does not have; False for NOT_OWN."""
    system = ctypes.CDLL(None, use_errno=True)
    mark = ctypes.c_ulong(secret)
    number = ctypes.c_long(CONNECT[os.uname().machine])
    nothing = ctypes.c_long(0)
    status = system.syscall(
        number, ctypes.c_long(connection.fileno()), packed, ctypes.c_long(len(packed)), nothing, nothing, mark
    )
    if status == 0:
        return True
    code = ctypes.get_errno()
    timeout = connection.gettimeout()
    # A socket with a timeout is non-blocking for the system: Python's own `connect` waits for the end of the
    # handshake here.
    if code in IN_PROGRESS and timeout != 0:
        code = _finished(module, connection, timeout)
    if code and code != NOT_OWN:
        raise OSError(code, os.strerror(code))
    return code == 0


def _finished(module: Any, connection: Any, timeout: float | None) -> int:
    """Wait for a connection that is under way, and give its error."""
    waiting = select.poll()
    waiting.register(connection.fileno(), select.POLLOUT | select.POLLERR)
    ends = None if timeout is None else time.monotonic() + timeout
    if not waiting.poll(None if ends is None else max(0.0, ends - time.monotonic()) * 1000):
        raise TimeoutError("timed out")
    return int(connection.getsockopt(module.SOL_SOCKET, module.SO_ERROR))


def _packed(module: Any, connection: Any, address: Any) -> bytes:
    """A `sockaddr_in` or `sockaddr_in6`."""
    if not is_of_internet(address):
        raise TypeError(f"connect(): AF_INET address must be tuple, not {type(address).__name__}")
    host, port, *further = address
    if not 0 <= int(port) <= 65535:
        raise OverflowError("connect(): port must be 0-65535.")
    host = host.decode() if isinstance(host, bytes | bytearray) else str(host)
    numeric, scope = _resolved(module, connection, host, int(port))
    if connection.family == module.AF_INET:
        return struct.pack("=H", module.AF_INET) + struct.pack("!H4s8x", int(port), numeric)
    flow = int(further[0]) if further else 0
    scope = int(further[1]) if len(further) > 1 else scope
    head = struct.pack("=H", module.AF_INET6) + struct.pack("!HI16s", int(port), flow, numeric)
    return head + struct.pack("=I", scope)


def _resolved(module: Any, connection: Any, host: str, port: int) -> tuple[bytes, int]:
    """The bytes of an address, and the scope of one of IPv6."""
    family = connection.family
    try:
        return module.inet_pton(family, host or ("0.0.0.0" if family == module.AF_INET else "::")), 0
    except OSError:
        found = module.getaddrinfo(host, port, family, connection.type, connection.proto)[0][4]
    return module.inet_pton(family, found[0].partition("%")[0]), found[3] if len(found) > 3 else 0


BY_PATH, BY_LINK, BY_DESCRIPTOR, BELOW = "path", "link", "descriptor", "below"
"""The first argument is a path, a path whose last link is not followed, a descriptor; or a folder's, with a path."""

NO_FLAGS = -1

X86_64: dict[int, tuple[str, str, int]] = {
    90: ("mode", BY_PATH, NO_FLAGS),
    91: ("mode", BY_DESCRIPTOR, NO_FLAGS),
    92: ("owner", BY_PATH, NO_FLAGS),
    93: ("owner", BY_DESCRIPTOR, NO_FLAGS),
    94: ("owner", BY_LINK, NO_FLAGS),
    132: ("times", BY_PATH, NO_FLAGS),
    188: ("attributes", BY_PATH, NO_FLAGS),
    189: ("attributes", BY_LINK, NO_FLAGS),
    190: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    197: ("attributes", BY_PATH, NO_FLAGS),
    198: ("attributes", BY_LINK, NO_FLAGS),
    199: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    235: ("times", BY_PATH, NO_FLAGS),
    260: ("owner", BELOW, 4),
    261: ("times", BELOW, NO_FLAGS),
    268: ("mode", BELOW, NO_FLAGS),
    280: ("times", BELOW, 3),
    452: ("mode", BELOW, 3),
    463: ("attributes", BELOW, 2),
    466: ("attributes", BELOW, 2),
    469: ("attributes", BELOW, 4),
}
"""By its number: what a call changes, how it names the file, and which argument holds its flags."""

AARCH64: dict[int, tuple[str, str, int]] = {
    5: ("attributes", BY_PATH, NO_FLAGS),
    6: ("attributes", BY_LINK, NO_FLAGS),
    7: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    14: ("attributes", BY_PATH, NO_FLAGS),
    15: ("attributes", BY_LINK, NO_FLAGS),
    16: ("attributes", BY_DESCRIPTOR, NO_FLAGS),
    52: ("mode", BY_DESCRIPTOR, NO_FLAGS),
    53: ("mode", BELOW, NO_FLAGS),
    54: ("owner", BELOW, 4),
    55: ("owner", BY_DESCRIPTOR, NO_FLAGS),
    88: ("times", BELOW, 3),
    452: ("mode", BELOW, 3),
    463: ("attributes", BELOW, 2),
    466: ("attributes", BELOW, 2),
    469: ("attributes", BELOW, 4),
}

OF_MACHINE = {"x86_64": X86_64, "aarch64": AARCH64}

OF_32_BITS: dict[str, tuple[int, ...]] = {
    "x86_64": (
        *(15, 16, 30, 94, 95, 182, 198, 207, 212, 226, 227, 228, 235, 236, 237),
        *(271, 298, 299, 306, 320, 412, 452, 463, 466, 469),
    ),
    "aarch64": (
        *(15, 16, 30, 94, 95, 182, 198, 207, 212, 226, 227, 228, 235, 236, 237),
        *(269, 325, 326, 333, 348, 412, 452, 463, 466, 469),
    ),
}
"""Those of 32-bit programs, by the machine that runs them: they are refused."""
