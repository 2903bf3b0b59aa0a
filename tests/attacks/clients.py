"""Attacks on `hub-gets-no-writes` by the clients of Python: each sends by itself what a push would send."""

from __future__ import annotations

from pathlib import Path

from tests.attacks.attack import attack
from tests.attacks.sending import send_nothing

PROMISE = "hub-gets-no-writes"

QUICK = {
    "urllib": """
        for method in ("PUT", "POST", "DELETE", "PATCH", "MKCOL", "put", "Frobnicate"):
            attempt(lambda: urllib.request.urlopen(urllib.request.Request(HUB + "/written", b"x", method=method)))
        """,
    "http-client": """
        import http.client
        connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=5)
        attempt(lambda: connection.request("POST", "/written", b"x"))
        attempt(lambda: http.client.HTTPConnection.putrequest.__wrapped__(connection, "PUT", "/written"))
        attempt(lambda: connection.endheaders())
        """,
    "socket-pieces": """
        import socket
        for pieces in ([b"PUT /written HTTP/1.1\\r\\n\\r\\n"], [b"P", b"UT", b" /", b"written HTTP/1.1\\r\\n\\r\\n"]):
            for name in ("send", "sendall", "sendmsg", "makefile"):
                opened = socket.create_connection(("127.0.0.1", PORT), 5)
                file = opened.makefile("wb", buffering=0)
                how = {"sendmsg": lambda piece: opened.sendmsg([piece]), "makefile": file.write}
                attempt(lambda: [how.get(name, getattr(opened, name, None))(piece) for piece in pieces])
        """,
    "socket-after-a-read": """
        import socket
        opened = socket.create_connection(("127.0.0.1", PORT), 5)
        opened.sendall(b"GET /user/repo HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        opened.recv(65536)
        attempt(lambda: opened.sendall(b"PUT /written HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"))
        both = b"GET /user/repo HTTP/1.1\\r\\nHost: a\\r\\n\\r\\nDELETE /written HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"
        opened = socket.create_connection(("127.0.0.1", PORT), 5)
        attempt(lambda: opened.sendall(both))
        """,
    "method-override": """
        for name in ("X-HTTP-Method-Override", "x-http-method", "X-Method-Override"):
            asked = urllib.request.Request(HUB + "/written", headers={name: "DELETE"})
            attempt(lambda: urllib.request.urlopen(asked, timeout=5))
        """,
    "asyncio-streams": """
        import asyncio
        async def put():
            _, writer = await asyncio.open_connection("127.0.0.1", PORT)
            writer.write(b"PUT /written HTTP/1.1\\r\\nHost: a\\r\\nContent-Length: 0\\r\\n\\r\\n")
            await writer.drain()
            writer.writelines([b"POST /written ", b"HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"])
            await asyncio.sleep(0.2)
        attempt(lambda: asyncio.run(put()))
        """,
    "tls-to-itself": """
        import socket, ssl
        memory = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="hub.invalid")
        attempt(lambda: memory.write(b"PUT /written HTTP/1.1\\r\\nHost: hub.invalid\\r\\n\\r\\n"))
        attempt(lambda: urllib.request.urlopen(urllib.request.Request("https://hub.invalid/written", b"x"), timeout=5))
        """,
    "another-protocol": """
        import ftplib, smtplib, socket
        attempt(lambda: socket.create_connection(("127.0.0.1", PORT), 5).sendall(b"SSH-2.0-client\\r\\n"))
        opened = socket.create_connection(("localhost", PORT), 5)
        attempt(lambda: opened.sendall(b"*1\\r\\n$8\\r\\nFLUSHALL\\r\\n"))
        """,
    "port-of-its-own": """
        import socket
        def sends(address):
            opened = socket.create_connection(address, 5)
            opened.sendall(b"PUT /written HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n")
        for host, family in (("::1", socket.AF_INET6), ("127.0.0.2", socket.AF_INET), ("::", socket.AF_INET6)):
            listening = socket.socket(family)
            if family == socket.AF_INET6:
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            attempt(lambda: (listening.bind((host, PORT)), listening.listen()))
            attempt(lambda: sends(("127.0.0.1", PORT)))
            attempt(lambda: unguarded("curl", "--noproxy", "*", "-X", "PUT", HUB + "/written"))
            listening.close()
        """,
    "beneath-the-guard": """
        import _socket, ctypes, struct
        opened = _socket.socket()
        attempt(lambda: opened.connect(("127.0.0.1", PORT)))
        attempt(lambda: opened.send(b"PUT /written HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"))
        system = ctypes.CDLL(None, use_errno=True)
        number = system.socket(2, 1, 0)
        address = struct.pack("=H", 2) + struct.pack("!H4s8x", PORT, bytes([127, 0, 0, 1]))
        attempt(lambda: system.connect(number, address, 16))
        line = b"PUT /written HTTP/1.1\\r\\nHost: a\\r\\n\\r\\n"
        attempt(lambda: system.send(number, line, len(line), 0x4000))
        attempt(lambda: system.sendto(number, line, len(line), 0x20004000, address, 16))
        """,
}
NAMED = {
    "urllib": ["PUT 127.0.0.1", "PATCH 127.0.0.1", "MKCOL", "Frobnicate", "/written"],
    "http-client": "POST 127.0.0.1",
    "socket-pieces": "PUT",
    "socket-after-a-read": ["PUT", "DELETE"],
    "method-override": "GET 127.0.0.1",
    "asyncio-streams": "PUT",
    "another-protocol": "neither HTTP nor TLS",
    "port-of-its-own": ["PUT", "3 times"],
    "tls-to-itself": "POST hub.invalid:443/written",
    "beneath-the-guard": "a connection of `python",
}


@attack(PROMISE, cases=list(QUICK))
def sent_by_the_standard_library(folder: Path, case: str) -> None:
    """The clients of the standard library, and sockets by hand."""
    send_nothing(folder, QUICK[case], NAMED[case])


LIBRARIES = {
    "requests": """
        import requests
        session = requests.Session()
        for method in ("PUT", "POST", "DELETE", "PATCH"):
            attempt(lambda: session.request(method, HUB + "/written", data=b"x", timeout=5))
        assert requests.get(HUB + "/user/repo", timeout=5).ok
        """,
    "urllib3": """
        import urllib3
        attempt(lambda: urllib3.PoolManager().request("PUT", HUB + "/written", body=b"x"))
        attempt(lambda: urllib3.HTTPConnectionPool("127.0.0.1", PORT).urlopen("DELETE", "/written", retries=5))
        """,
    "httpx": """
        import asyncio, httpx2
        attempt(lambda: httpx2.post(HUB + "/written", json={}))
        assert httpx2.get(HUB + "/user/repo").status_code == 200
        async def put():
            async with httpx2.AsyncClient() as client:
                await client.put(HUB + "/written", content=b"x")
        attempt(lambda: asyncio.run(put()))
        import httpcore2
        pool = httpcore2.ConnectionPool()
        attempt(lambda: httpcore2.ConnectionPool.handle_request.__wrapped__(pool, httpcore2.Request("PUT", HUB + "/w")))
        """,
    "aiohttp": """
        import aiohttp, asyncio
        async def send(method):
            async with aiohttp.ClientSession() as session, session.request(method, HUB + "/written") as answer:
                return answer.status
        attempt(lambda: asyncio.run(send("POST")))
        attempt(lambda: asyncio.run(send("DELETE")))
        assert asyncio.run(send("GET")) == 200
        async def websocket():
            async with aiohttp.ClientSession() as session, session.ws_connect(HUB + "/written") as opened:
                await opened.send_str("x")
        attempt(lambda: asyncio.run(websocket()))
        """,
}


@attack(PROMISE, cases=list(LIBRARIES), slow=True)
def sent_by_a_library(folder: Path, case: str) -> None:
    """The clients that the hub's library and others are built on."""
    send_nothing(folder, LIBRARIES[case], ["127.0.0.1", *(["UPGRADE"] if case == "aiohttp" else [])])
