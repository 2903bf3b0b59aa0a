"""Watches what Python sends over sockets: the line of each HTTP request, in plain text and inside of TLS.

Every client written in Python ends here: `http.client`, urllib3, requests, httpx, aiohttp, botocore, websockets,
smtplib. TLS is read before it is encrypted.
"""

from __future__ import annotations

import functools
import re
import weakref
from typing import Any

from lintrain.runtime.sandbox.network import connecting
from lintrain.runtime.sandbox.network.gate import Gate, StoppedError

REQUEST = re.compile(rb"(?:\A|\n)([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) +(\S{1,65536}) +HTTP/1\.[01]\r?\n")
UNFINISHED = re.compile(
    rb"((?:PUT|DELETE|PATCH|MKCOL|MOVE|COPY|PROPPATCH|LOCK|UNLOCK)(?= +(?:/|h|\*))|POST(?= +\S+ )) +(\S*)"
)
"""How a request begins that comes in pieces: it is stopped before its line is whole."""
HEADER = re.compile(rb"\n([!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}):[ \t]*([^\r\n]*)")
HTTP_2 = b"PRI * HTTP/2.0\r\n"
LONGEST_LINE = 2**16
STARTS = re.compile(rb"\A(?:\x16\x03|(?:GET|HEAD|OPTIONS|CONNECT|POST) |PRI \* HTTP/2)")
"""How a connection to another machine may start: with TLS, or with a request by a method that may read."""
LONGEST_START = 16
SERVERS_OF_NAMES = 53


class Stream:
    """What one connection has sent so far, as much of it as is needed to recognise a request."""

    def __init__(self, gate: Gate, peer: str, *, is_raw: bool) -> None:
        self._gate, self._peer = gate, peer
        self._starts: bytes | None = None if is_raw else b""
        self._line = b""

    def demand_read(self, content: Any) -> None:
        """Raise StoppedError if these bytes make a request that could change something."""
        # Any buffer may be sent: an array, a NumPy vector, a `memoryview` of several dimensions.
        view = memoryview(content).cast("B") if not isinstance(content, bytes) else content
        if not len(view):
            return
        data = bytes(view)
        # A request line may arrive in pieces, down to single bytes; what has no end of line yet is kept and put
        # before the next piece.
        text = self._line + data if self._line else data
        if b" HTTP/" in text:
            self._demand_reading_requests(text)
        # A client's connection to another machine has to begin with TLS or HTTP. Any other protocol could hold
        # anything, and its requests cannot be distinguished.
        if self._starts is not None:
            self._demand_known_start(self._starts + data[:LONGEST_START])
        self._line = self._rest(text)
        if found := UNFINISHED.match(self._line, self._line.rfind(b"\n") + 1):
            method, target = (part.decode("latin-1") for part in found.groups())
            self._gate.demand_read(method, self._peer, target)

    def _demand_known_start(self, start: bytes) -> None:
        if STARTS.match(start):
            self._starts = None
        elif len(start) >= LONGEST_START or not _may_become_known(start):
            self._gate.stop(f"a connection to {self._peer} that is neither HTTP nor TLS")
        else:
            self._starts = start

    def _demand_reading_requests(self, text: bytes) -> None:
        # HTTP/2 packs its headers: they are readable only in `h2`, before it packs them (`clients`).
        if text.startswith(HTTP_2) and not self._gate.reads_frames:
            self._gate.stop(f"HTTP/2 to {self._peer}")
        for found in REQUEST.finditer(text):
            head = text[found.end() - 1 : _end_of_head(text, found.end())]
            fields = {name.lower().decode(): value.decode("latin-1") for name, value in HEADER.findall(head)}
            method, target = (part.decode("latin-1") for part in found.groups())
            self._gate.demand_read(method, fields.get("host") or self._peer, target, fields)

    @staticmethod
    def _rest(text: bytes) -> bytes:
        """What may go on with the next bytes: a line that has not ended, and the head before it that has not either."""
        # A body may follow the head and look like anything: only the part after the last empty line can be the start
        # of a new request on the same connection.
        begin = text.rfind(b"\n\r\n") + 1
        begin = 0 if begin == 0 and b" HTTP/" in text[:LONGEST_LINE] else max(begin, text.rfind(b"\n") + 1)
        rest = text[begin:]
        return rest if len(rest) <= LONGEST_LINE else b""


class OwnStream(Stream):
    """A connection to a server of the script itself: nothing leaves the script."""

    def demand_read(self, content: Any) -> None:
        """Let everything pass."""


def _may_become_known(start: bytes) -> bool:
    known = (b"\x16\x03", b"GET ", b"HEAD ", b"OPTIONS ", b"CONNECT ", b"POST ", b"PRI * HTTP/2")
    return any(one.startswith(start) for one in known)


def _end_of_head(text: bytes, begin: int) -> int:
    ends = [at for at in (text.find(b"\n\r\n", begin - 1), text.find(b"\n\n", begin - 1)) if at >= 0]
    return min(ends) + 1 if ends else len(text)


class Streams:
    """The streams of this process by their sockets."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._known: weakref.WeakKeyDictionary[Any, Stream] = weakref.WeakKeyDictionary()
        self._clients: weakref.WeakSet[Any] = weakref.WeakSet()

    def of(self, connection: Any, *, is_tls: bool) -> Stream:
        """The stream of a socket or of a TLS object."""
        found = self._known.get(connection)
        if found is None:
            peer, is_here = _server(connection) if is_tls else _peer(connection)
            # What comes in to a server of the script is answered freely. On this machine any protocol may be spoken,
            # unless the wall tells the script's own servers (`OwnStream`) from the user's: those get HTTP only.
            is_raw = not self._is_client(connection) or (is_here and not self.gate.is_walled)
            found = self._known[connection] = Stream(self.gate, peer, is_raw=is_raw)
        return found

    def _is_client(self, connection: Any) -> bool:
        """Whether the connection was made here; what came to a server of the script is answered as it likes."""
        return connection in self._clients or getattr(connection, "server_side", None) is False

    def begins(self, connection: Any, *, is_own: bool = False) -> None:
        """The socket begins a new connection, to a server of the script itself where it `is_own`."""
        # A socket object may be connected a second time after it was closed: the state of the first connection must
        # not decide about the second.
        self._known.pop(connection, None)
        self._clients.add(connection)
        if is_own:
            self._known[connection] = OwnStream(self.gate, "the script's own server", is_raw=True)


def _server(connection: Any) -> tuple[str, bool]:
    """Where TLS leads; an object that encrypts in memory knows the name alone."""
    name = getattr(connection, "server_hostname", None)
    if hasattr(connection, "getpeername"):
        peer, is_on_this_machine = _peer(connection)
        return str(name or peer), is_on_this_machine
    return str(name or "an unnamed host"), bool(name) and connecting.is_here(str(name))


def _peer(connection: Any) -> tuple[str, bool]:
    """Where a socket leads, and whether that is on this machine."""
    try:
        address = connection.getpeername()
        own = connection.getsockname()
    except OSError:
        return "an unnamed host", True
    if not connecting.is_of_internet(address):
        return "this machine", True
    host, port = address[:2]
    return f"{host}:{port}", connecting.is_here(str(host)) or bool(host == own[0])


def watch_sockets(gate: Gate, streams: Streams, module: Any) -> None:
    """Stand in for the methods of `socket.socket` that send and connect."""
    owner = module.socket
    for name in ("send", "sendall", "sendmsg", "sendto", "sendfile", "_sendfile_use_sendfile"):
        if hasattr(owner, name):
            setattr(owner, name, _watched(streams, module, name, getattr(owner, name)))
    connecting.install(gate, streams.begins, module)


def _watched(streams: Streams, module: Any, name: str, send: Any) -> Any:
    """A method that shows what it sends to the stream first."""
    inet = (module.AF_INET, module.AF_INET6)

    @functools.wraps(send)
    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.family in inet and not _is_inside_tls(self):
            if name == "sendto":
                _demand_reply(streams.gate, args[-1] if len(args) > 1 else None)
            if name in ("send", "sendall", "sendto"):
                _ask(streams, self, args[0] if args else kwargs.get("data", b""))
            elif name == "sendmsg":
                buffers = list[Any](next(iter(args), ()))
                _ask(streams, self, b"".join(buffers))
                # An iterator of buffers can be read once: the list made of it is what is sent.
                args = (buffers, *args[1:])
            elif name == "_sendfile_use_sendfile":
                # `socket.sendfile` then reads the file and sends it with `send`, which is watched.
                raise module._GiveupOnSendfile("a probe sees what is sent")
        return send(self, *args, **kwargs)

    return watched


def _is_inside_tls(connection: Any) -> bool:
    """`SSLSocket.send` is watched by itself, and falls back to this method before its handshake only."""
    return getattr(connection, "_sslobj", None) is not None


def _demand_reply(gate: Gate, address: Any) -> None:
    """Datagrams go to this machine and to servers of names only."""
    host, port = address[:2] if connecting.is_of_internet(address) else ("localhost", 0)
    if not connecting.is_here(str(host)) and (port != SERVERS_OF_NAMES or gate.is_offline):
        gate.stop(f"a datagram to {host}:{port}")


def _ask(streams: Streams, connection: Any, content: Any, *, is_tls: bool = False) -> None:
    try:
        streams.of(connection, is_tls=is_tls).demand_read(content)
    except StoppedError:
        _hang_up(connection)
        raise


def _hang_up(connection: Any) -> None:
    """End the connection: httpcore reads on for an answer after an error in sending."""
    try:
        connection.shutdown(2)
    except (OSError, AttributeError):
        return  # no socket but a TLS object, whose owner ends the connection


def watch_tls(streams: Streams, module: Any) -> None:
    """Stand in for the methods of `ssl` that encrypt."""
    for owner in (module.SSLSocket, module.SSLObject):
        for name in ("send", "sendall", "write"):
            if name in vars(owner):
                setattr(owner, name, _encrypted(streams, vars(owner)[name]))


def _encrypted(streams: Streams, send: Any) -> Any:
    @functools.wraps(send)
    def watched(self: Any, data: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(self, "_sslobj", None) is not None and not getattr(self, "_lintrain_asked", False):
            _ask(streams, self, data, is_tls=True)
            return _once(self, send, data, *args, **kwargs)
        return send(self, data, *args, **kwargs)

    return watched


def _once(connection: Any, send: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a method that calls another one of the watched methods: the stream sees the bytes once."""
    connection._lintrain_asked = True
    try:
        return send(connection, *args, **kwargs)
    finally:
        connection._lintrain_asked = False
