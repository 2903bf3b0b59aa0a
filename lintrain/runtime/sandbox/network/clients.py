"""Libraries that are asked before they open a connection, and those that open one past Python's sockets.

The guard of sockets stops the same requests; here the library gets its own kind of error earlier, so that it neither
connects nor waits for an answer. What compiled code sends cannot be read: without the kernel's wall it is stopped here.
"""

from __future__ import annotations

import functools
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.sandbox.network import connecting
from lintrain.runtime.sandbox.network.gate import Gate, StoppedError


def install(gate: Gate, hooks: AfterImport) -> None:
    """Ask the gate in every client that is known, as soon as it is imported."""
    hooks.add("http.client", functools.partial(_watch_http_client, gate))
    for package in ("httpcore", "httpcore2"):
        for pool in (f"{package}._sync.connection_pool", f"{package}._async.connection_pool"):
            hooks.add(pool, functools.partial(_watch_pool, gate, package))
    hooks.add("h2.connection", functools.partial(_watch_frames, gate))
    hooks.add("OpenSSL.SSL", functools.partial(_watch_openssl, gate))
    hooks.add("hf_xet", functools.partial(_stop_xet, gate))
    hooks.add("grpc._channel", functools.partial(_stop_grpc, gate))
    hooks.add("pycurl", functools.partial(_stop_pycurl, gate))
    hooks.add("uvloop", _use_asyncio)


def _watch_http_client(gate: Gate, module: Any) -> None:
    owner = module.HTTPConnection
    put = owner.putrequest

    @functools.wraps(put)
    def putrequest(self: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        host, port = getattr(self, "_tunnel_host", None) or self.host, getattr(self, "_tunnel_port", None) or self.port
        # Asked here, before there is a connection: an error while connecting would make urllib3 try again, several
        # times and with pauses.
        if not _is_left_to_sockets(gate, str(host)):
            gate.demand_read(method, f"{host}:{port}", url)
        return put(self, method, url, *args, **kwargs)

    owner.putrequest = putrequest


def _is_left_to_sockets(gate: Gate, host: str) -> bool:
    """On this machine the server may be the script's own, which is known when there is a connection."""
    return gate.is_walled and connecting.is_here(host)


def _watch_pool(gate: Gate, package: str, module: Any) -> None:
    """The pools of httpcore, which httpx is built on: the error is one after which no client repeats the request."""
    import importlib

    # httpx retries a ConnectError, and clients built on it retry most others; a ProxyError ends the request at once.
    proxy_error = importlib.import_module(f"{package}._exceptions").ProxyError
    for name in ("ConnectionPool", "AsyncConnectionPool"):
        owner = getattr(module, name, None)
        for method in ("handle_request", "handle_async_request"):
            handle = getattr(owner, method, None)
            if handle is not None:
                setattr(owner, method, _asking(gate, proxy_error, handle))


def _asking(gate: Gate, proxy_error: Any, handle: Any) -> Any:
    @functools.wraps(handle)
    def asks(self: Any, request: Any) -> Any:
        url = request.url
        if _is_left_to_sockets(gate, url.host.decode()):
            return handle(self, request)
        names = [bytes(name).decode("latin-1").lower() for name, _ in request.headers]
        try:
            host = url.host.decode() + (f":{url.port}" if url.port else "")
            gate.demand_read(request.method.decode("latin-1"), host, url.target.decode("latin-1"), names)
        except StoppedError as error:
            raise proxy_error(str(error)) from error
        return handle(self, request)  # the asynchronous one gives a coroutine

    return asks


def _watch_frames(gate: Gate, module: Any) -> None:
    """HTTP/2 of `h2`: its headers are read before they are packed."""
    owner = module.H2Connection
    send = owner.send_headers

    @functools.wraps(send)
    def send_headers(self: Any, stream_id: Any, headers: Any, *args: Any, **kwargs: Any) -> Any:
        found = [(_text(name).lower(), _text(value)) for name, value, *_ in headers]
        fields = dict(found)
        if ":method" in fields:
            authority = fields.get(":authority", "")
            gate.demand_read(fields[":method"], authority, fields.get(":path", "/"), fields)
        return send(self, stream_id, headers, *args, **kwargs)

    owner.send_headers = send_headers
    # From here on HTTP/2 is let through by the guard of sockets: its requests are judged here.
    gate.reads_frames = True


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes | bytearray) else str(value)


def _watch_openssl(gate: Gate, module: Any) -> None:
    """pyOpenSSL encrypts by itself: what it is given to send is read like that of `ssl`."""
    from lintrain.runtime.sandbox.network.sockets import Stream

    owner = module.Connection
    streams: Any = {}

    def asking(send: Any) -> Any:
        @functools.wraps(send)
        def sends(self: Any, content: Any, *args: Any, **kwargs: Any) -> Any:
            # By identity: a pyOpenSSL connection allows no weak reference.
            stream = streams.setdefault(id(self), Stream(gate, "a host reached through pyOpenSSL", is_raw=False))
            stream.demand_read(content)
            return send(self, content, *args, **kwargs)

        return sends

    for name in ("send", "sendall"):
        setattr(owner, name, asking(getattr(owner, name)))
    owner.write = owner.send


def _stop_xet(gate: Gate, module: Any) -> None:
    """Uploads of Xet's compiled client."""
    for name in ("upload_bytes", "upload_files"):
        if hasattr(module, name):
            setattr(module, name, _stopping(gate, "an upload of hf_xet"))
    session = getattr(module, "XetSession", None)
    if session is not None and hasattr(session, "new_upload_commit"):
        setattr(module, "XetSession", _without_uploads(gate, session))  # noqa: B010 - the module has no such type


def _without_uploads(gate: Gate, session: Any) -> Any:
    """A session of Xet, whose type is compiled and cannot be changed: it wraps the real one."""

    class XetSession:
        new_upload_commit = staticmethod(_stopping(gate, "an upload of hf_xet"))

        def __init__(self, *args: Any, **kwargs: Any) -> None:
            self._session = session(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            return getattr(self._session, name)

    return XetSession


def _stopping(gate: Gate, what: str) -> Any:
    def stops(*_args: Any, **_kwargs: Any) -> Any:
        gate.stop(what)

    return stops


def _stop_grpc(gate: Gate, module: Any) -> None:
    owner = module.Channel
    build = owner.__init__

    @functools.wraps(build)
    def init(self: Any, target: Any, *args: Any, **kwargs: Any) -> None:
        name = _text(target)
        host = name.rpartition("/")[2].rpartition(":")[0].strip("[]") or name
        if not name.startswith(("unix:", "unix-abstract:")) and not connecting.is_here(host) and not _is_own(host):
            gate.stop(f"gRPC to {name}")
        build(self, target, *args, **kwargs)

    owner.__init__ = init


def _is_own(host: str) -> bool:
    """Whether this machine has the address, as workers of one cluster on it use it."""
    import socket

    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.bind((host, 0))
    except OSError:
        return False
    return True


def _stop_pycurl(gate: Gate, module: Any) -> None:
    for name in ("Curl", "CurlMulti"):
        setattr(module, name, _stopping(gate, "a request of pycurl"))


def _use_asyncio(module: Any) -> None:
    """The loops of uvloop connect past Python's sockets; those of asyncio do the same work under watch."""
    import asyncio

    module.install = lambda: None
    module.new_event_loop = asyncio.new_event_loop
    module.run = asyncio.run
    module.EventLoopPolicy = asyncio.DefaultEventLoopPolicy
