"""Answers the kernel when a probed process connects past the guard: only the script's own servers may be reached.

The other end is `lintrain.runtime.sandbox.network.network`. Compiled code in the script's process and programs in other
languages come here. Their requests cannot be read, so they reach no other machine, and on this one no server that the
script did not start.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import socket
import struct
import sys
import threading
from contextlib import suppress
from pathlib import Path

from lintrain.runtime.parent.metadata import Metadata
from lintrain.runtime.parent.pass_request import PassRequest
from lintrain.runtime.sandbox.network.connecting import NOT_OWN, QUESTION

RECEIVE, ANSWER, IS_VALID = 0xC0502100, 0xC0182101, 0x40082102
CONTINUE = 1
LISTEN = (50, 201)
PIDFD_OPEN, PIDFD_GETFD = 434, 438
HANDSHAKE_SECONDS = 30.0
LARGEST_ADDRESS = 128
MOST_NAMED = 1_000
EVERYWHERE = ("0.0.0.0", "::ffff:0.0.0.0")
LOOPBACK = {"0.0.0.0": "127.0.0.1", "::": "::1"}
"""The target of a connection to an unspecified address."""
REFUSING = ("127.0.0.1", 9)
"""The proxy of programs that are not watched (`lintrain.runtime.sandbox.network.gate`)."""
Address = tuple[str, int]


class Wall:
    """The parent's half of the wall around one pass: a thread that answers until the pass is over.

    `stopped` holds what was refused. Nothing may leave the machine where that is asked, not even a datagram.
    """

    def __init__(self, request: PassRequest) -> None:
        self.stopped: list[str] = []
        self.metadata = Metadata(request.temporary, request.downloads, _read_memory)
        self.is_held = False
        self._is_offline = request.offline
        self._question = request.secret ^ QUESTION
        # Addresses at which the script listens, learned from its own calls of `listen`: the only servers that
        # unwatched code may reach.
        self._own: set[Address] = set()
        self._closing, self._wakes = os.pipe()
        self._listening = _listening(request.exchange) if sys.platform.startswith("linux") else None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread: the script and all that it started have ended."""
        with suppress(OSError):
            os.close(self._wakes)
        self._thread.join()

    def _run(self) -> None:
        listener = -1
        try:
            # The script's process waits in `seccomp` until it is answered, so this thread must end only when nothing
            # of the script runs.
            listener = self._agreed()
            if listener >= 0:
                self._answer_all(listener)
        except OSError:
            return  # the script has ended in between; what it still asks for is refused by the kernel
        finally:
            for opened in {listener, self._closing} - {-1}:
                os.close(opened)
            if self._listening is not None:
                self._listening.close()

    def _agreed(self) -> int:
        """The descriptor of the script's filter, or -1 if none will arrive."""
        if self._listening is None or not self._is_ready(self._listening.fileno()):
            return -1
        connection, _ = self._listening.accept()
        self._listening.close()  # the script's first process asks, and no other one
        with connection:
            # Whoever connects may send nothing, and the thread would wait for it without end.
            connection.settimeout(HANDSHAKE_SECONDS)
            hello = connection.recv(28, socket.MSG_WAITALL)
            peer = struct.unpack("=iii", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
            if len(hello) < 28 or not _can_read(peer, *struct.unpack("=Q16si", hello)):
                connection.sendall(b"n")
                return -1
            connection.sendall(b"y")
            _, found, _, _ = socket.recv_fds(connection, 1, 1)
            if not found:
                return -1
            self.is_held = True
            connection.sendall(b"y")
            return found[0]

    def _is_ready(self, descriptor: int) -> bool:
        """Wait until there is something to read; False when the pass is over, or no process is left to ask."""
        waiting = select.poll()
        waiting.register(descriptor, select.POLLIN)
        waiting.register(self._closing, select.POLLIN)
        events = dict(waiting.poll())
        return self._closing not in events and bool(events.get(descriptor, 0) & select.POLLIN)

    def _answer_all(self, listener: int) -> None:
        system = ctypes.CDLL(None, use_errno=True)
        system.ioctl.argtypes = (ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p)
        while self._is_ready(listener):
            asked = ctypes.create_string_buffer(80)
            if system.ioctl(listener, RECEIVE, asked) != 0:
                continue  # who asked has ended in between
            number, pid, _, call, _, _, *arguments = struct.unpack("=QIIiIQ6Q", asked.raw)
            try:
                code, goes_on = self._judged(pid, call, arguments)
            # Refused when in doubt: an address that cannot be read may be any.
            except (OSError, ValueError, struct.error):
                code, goes_on = errno.EACCES, False
            # The process may have been killed while its memory was read, and its pid reused: the answer then belongs
            # to another process, and is not sent.
            still = ctypes.create_string_buffer(struct.pack("=Q", number), 8)
            if system.ioctl(listener, IS_VALID, still) == 0:
                answer = struct.pack("=QqiI", number, 0, -code, CONTINUE if goes_on else 0)
                system.ioctl(listener, ANSWER, ctypes.create_string_buffer(answer, 24))

    def _judged(self, pid: int, call: int, arguments: list[int]) -> tuple[int, bool]:
        """The error of a call (0: none), and whether the kernel carries it out."""
        process = _process_of(pid)
        if self.metadata.asks(call):
            return self.metadata.judged(pid, process, call, arguments)
        if call in LISTEN:
            return self._listens(process, arguments[0], arguments[1])
        # The kernel reads the address again when it carries the call out. A library does not change it in between;
        # malicious code can (`docs/what-a-probe-changes.md`).
        raw = _read_memory(process, arguments[1], min(arguments[2], LARGEST_ADDRESS))
        address = _address(raw)
        if address is None:
            return 0, True
        with _borrowed(process, arguments[0]) as asked:
            is_stream = asked.type == socket.SOCK_STREAM
        if not is_stream and not self._is_offline:
            return 0, True
        if self._is_own_server(address) or (not is_stream and _is_own_address(address[0])):
            return 0, True
        if arguments[5] == self._question:
            return NOT_OWN, False
        if is_stream and len(self.stopped) < MOST_NAMED:
            where = "" if address == REFUSING else f" to {address[0]}:{address[1]}"
            self.stopped.append(f"a connection of {_name(process)}{where}")
        return errno.ECONNREFUSED, False

    def _listens(self, process: int, descriptor: int, backlog: int) -> tuple[int, bool]:
        """Carry out `listen` on the process's own socket, and remember its port: this server is the script's."""
        with _borrowed(process, descriptor) as asked:
            if asked.family not in (socket.AF_INET, socket.AF_INET6):
                return 0, True
            try:
                # Carried out here and not by the kernel: so the port is known before anything can connect to it.
                asked.listen(min(backlog & 0xFFFFFFFF, 2**31 - 1))
            except OSError as error:
                return error.errno or errno.EINVAL, False
            self._own.add(_listens_at(asked))
        return 0, False

    def _is_own_server(self, address: Address) -> bool:
        """Whether the script listens there, at this address or at all of the machine's."""
        host, port = _without_mapping(address[0]), address[1]
        everywhere = EVERYWHERE if ":" not in host else ("::", "::ffff:0.0.0.0")
        if any((one, port) in self._own for one in (host, LOOPBACK.get(host, host))):
            return True
        return any((one, port) in self._own for one in everywhere) and _is_own_address(host)


def _listens_at(listening: socket.socket) -> Address:
    """Where a socket listens; one of IPv6 that listens everywhere and takes IPv4 too has an address of its own here."""
    host, port = listening.getsockname()[:2]
    if host == "::" and not listening.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY):
        host = "::ffff:0.0.0.0"
    return (host if host == "::ffff:0.0.0.0" else _without_mapping(host)), int(port)


def _without_mapping(host: str) -> str:
    """An address of IPv4 that is written as one of IPv6, as itself."""
    return host.removeprefix("::ffff:") if host.startswith("::ffff:") and "." in host else host


def _listening(exchange: str) -> socket.socket:
    """Where the script's first process asks for the wall; by way of a descriptor, for the path may be long."""
    opened = os.open(exchange, os.O_RDONLY | os.O_DIRECTORY)
    try:
        found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        found.bind(f"/proc/self/fd/{opened}/{WALL}")
        found.listen(1)
    finally:
        os.close(opened)
    return found


WALL = "wall"
"""In the folder of a pass: the socket at which the script's first process asks for the wall."""


def _can_read(process: int, address: int, sample: bytes, descriptor: int) -> bool:
    """Whether this process may look at the script's memory and descriptors; some systems forbid it."""
    try:
        with _borrowed(process, descriptor):
            return _read_memory(process, address, len(sample)) == sample
    except OSError:
        return False


def _borrowed(process: int, descriptor: int) -> socket.socket:
    """A socket of another process, shared with it."""
    system = ctypes.CDLL(None, use_errno=True)
    opened = system.syscall(PIDFD_OPEN, ctypes.c_long(process), ctypes.c_long(0))
    if opened < 0:
        raise OSError(ctypes.get_errno(), "pidfd_open")
    try:
        descriptor &= 0xFFFFFFFF
        found = system.syscall(PIDFD_GETFD, ctypes.c_long(opened), ctypes.c_long(descriptor), ctypes.c_long(0))
        if found < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
    finally:
        os.close(opened)
    return socket.socket(fileno=found)


def _process_of(thread: int) -> int:
    for line in Path(f"/proc/{thread}/status").read_text(errors="replace").splitlines():
        if line.startswith("Tgid:"):
            return int(line.split()[1])
    return thread


def _name(process: int) -> str:
    """The name of a program, without what a terminal would act on."""
    with suppress(OSError):
        text = Path(f"/proc/{process}/comm").read_text(errors="replace").strip()
        return "`" + "".join(one if one.isprintable() and one != "`" else "?" for one in text) + "`"
    return "a program"


def _read_memory(process: int, address: int, size: int) -> bytes:
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as opened:
        return os.pread(opened.fileno(), size, address)


def _address(raw: bytes) -> Address | None:
    """Host and port of an address of IPv4 or IPv6; None for another family, which stays on this machine."""
    family = struct.unpack_from("=H", raw)[0] if len(raw) >= 2 else 0
    if family == socket.AF_INET and len(raw) >= 8:
        return socket.inet_ntop(socket.AF_INET, raw[4:8]), int.from_bytes(raw[2:4], "big")
    if family == socket.AF_INET6 and len(raw) >= 24:
        return socket.inet_ntop(socket.AF_INET6, raw[8:24]), int.from_bytes(raw[2:4], "big")
    return None


def _is_own_address(host: str) -> bool:
    """Whether this machine has an address; `0.0.0.0` and `::` lead to it, too."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True
