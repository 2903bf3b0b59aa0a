"""A stand-in for the Hugging Face hub on the loopback address: it accepts every upload, and records every request."""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

READING = ("GET", "HEAD", "OPTIONS")
TLS = b"\x16"
"""A handshake, which the hub does not take: no request can follow."""
COMMIT = "0" * 40
FILES = {"config.json": b'{"model_type": "bert", "hidden_size": 8}', "README.md": b"---\nlicense: mit\n---\n"}
TOKEN = "hf_" + "onlyfortests"
"""What the scripts hold as the user's token: nobody may see it but the hub, in requests that read."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    size: int


@dataclass(slots=True)
class Hub:
    """The hub's address, and what arrived there; `strays` are connections that began with no request."""

    address: str
    seen: list[Seen] = field(default_factory=list)
    strays: list[str] = field(default_factory=list)

    @property
    def writes(self) -> list[str]:
        """The requests that could have changed something; `paths-info` lists files."""
        changing = [each for each in self.seen if each.method not in READING and "/paths-info/" not in each.path]
        overriding = [each for each in self.seen if any("method-override" in name.lower() for name in each.headers)]
        return [f"{each.method} {each.path}" for each in [*changing, *overriding]] + self.strays

    @property
    def reads(self) -> list[str]:
        """The paths that were asked for."""
        return [each.path for each in self.seen if each.method in READING]

    @property
    def port(self) -> int:
        """The port that the hub listens at."""
        return int(self.address.rpartition(":")[2])


@contextmanager
def hub() -> Generator[Hub]:
    """A hub that listens until the end of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    found = Hub(f"http://127.0.0.1:{server.server_address[1]}")
    server.hub = found  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Answers as the hub would after everything went well."""

    protocol_version = "HTTP/1.1"
    timeout = 20

    def handle_one_request(self) -> None:
        """Record what is no request, too; of a line that has not ended no server does anything."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline.endswith(b"\n"):
            self.close_connection = True
            return
        if not self.raw_requestline.rstrip().endswith((b"HTTP/1.1", b"HTTP/1.0")):
            if self.raw_requestline[:1] != TLS:
                self._hub.strays.append(f"no HTTP: {self.raw_requestline[:40]!r}")
            self.close_connection = True
            return
        if self.parse_request():
            self._answer()

    @property
    def _hub(self) -> Hub:
        found: Hub = self.server.hub  # type: ignore[attr-defined]
        return found

    def _answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(size)
        self._hub.seen.append(Seen(self.command, self.path, dict(self.headers.items()), size))
        path = self.path.partition("?")[0]
        if "/resolve/" in path:
            self._send_file(path)
        else:
            self._send(json.dumps(_document(self._hub.address, self.command, path)).encode(), {})

    def _send_file(self, path: str) -> None:
        content = FILES.get(path.rpartition("/")[2])
        if content is None:
            self._send(b"{}", {"X-Error-Code": "EntryNotFound"}, 404)
        else:
            self._send(content, {"ETag": f'"{len(content):040x}"', "X-Repo-Commit": COMMIT})

    def _send(self, content: bytes, headers: Mapping[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def log_message(self, *_arguments: Any) -> None:
        """Nothing on the terminal."""


def _document(address: str, method: str, path: str) -> Any:
    repository = {"id": "user/repo", "sha": COMMIT, "siblings": [{"rfilename": name} for name in FILES]}
    if path.endswith("/whoami-v2"):
        return {"name": "user", "type": "user", "orgs": [], "auth": {"accessToken": {"role": "write"}}}
    if "/repos/create" in path:
        return {"url": f"{address}/user/repo", "name": "user/repo", "id": "user/repo"}
    if "/preupload/" in path:
        return {"files": [{"path": "a.txt", "uploadMode": "lfs", "shouldIgnore": False}], "commitOid": COMMIT}
    if path.endswith("/objects/batch"):
        upload = {"upload": {"href": f"{address}/lfs/put", "header": {}}}
        return {"transfer": "basic", "objects": [{"oid": "0" * 64, "size": 1, "actions": upload}]}
    if "/xet-" in path:
        return {"casUrl": address, "accessToken": "xet", "exp": 4_000_000_000}
    if "/commit/" in path:
        return {"commitUrl": f"{address}/user/repo/commit/{COMMIT}", "commitOid": COMMIT, "pullRequestUrl": None}
    if "/tree/" in path or "/paths-info/" in path or "/commits/" in path:
        return [{"type": "file", "path": name, "size": len(text), "oid": COMMIT} for name, text in FILES.items()]
    return {**repository, "success": True} if method == "GET" else {"success": True, "url": f"{address}/user/repo"}
