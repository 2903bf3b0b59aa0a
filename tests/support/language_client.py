"""A client of the language server for tests: it speaks JSON-RPC, and keeps what it is told."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from lintrain.server.positions import uri_of

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0
"""Seconds that any answer may take on a machine that runs other tests."""

Json = dict[str, Any]

PULLS: Json = {"textDocument": {"diagnostic": {"relatedDocumentSupport": True}}}


class LanguageClient:
    """One connection to a server, over two pipes."""

    def __init__(self, reading: IO[bytes], writing: IO[bytes]) -> None:
        self._reading, self._writing = reading, writing
        self._numbers = itertools.count(1)
        self._answers: dict[int, queue.Queue[Json]] = {}
        self.told: list[Json] = []
        self.settings: Any = None
        self.chosen = ""
        """The title of what is clicked in each question."""
        self._news = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def wait_for_the_end(self) -> None:
        """Wait until the server, which has ended, has nothing more to say."""
        self._listener.join(PATIENCE)

    # Messages

    def send(self, message: Json) -> None:
        self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def send_raw(self, body: bytes) -> None:
        self._writing.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._writing.flush()

    def notify(self, method: str, params: Any) -> None:
        self.send({"method": method, "params": params})

    def start_asking(self, method: str, params: Any) -> int:
        number = next(self._numbers)
        self._answers[number] = queue.Queue()
        self.send({"id": number, "method": method, "params": params})
        return number

    def answer(self, number: int) -> Json:
        return self._answers[number].get(timeout=PATIENCE)

    def ask(self, method: str, params: Any) -> Any:
        answer = self.answer(self.start_asking(method, params))
        assert "error" not in answer, answer
        return answer["result"]

    def _listen(self) -> None:
        while header := self._reading.readline():
            length = int(header.split(b":")[1])
            while self._reading.readline().strip():
                pass
            message = json.loads(self._reading.read(length))
            if "method" not in message:
                self._answers[message["id"]].put(message)
                continue
            if "id" in message:
                self.send({"id": message["id"], "result": self._result(message)})
            with self._news:
                self.told.append(message)
                self._news.notify_all()

    def _result(self, message: Json) -> Any:
        if message["method"] == "workspace/configuration":
            return [self.settings for _ in message["params"]["items"]]
        if message["method"] == "window/showMessageRequest" and self.chosen:
            return {"title": self.chosen}
        return None

    def wait_for(self, is_it: Callable[[Json], bool], patience: float = PATIENCE) -> Json:
        """The first message told that is it, taken out of those that were told."""
        end = time.monotonic() + patience
        with self._news:
            while True:
                for message in self.told:
                    if is_it(message):
                        self.told.remove(message)
                        return message
                left = end - time.monotonic()
                assert left > 0, f"not told; instead: {[message['method'] for message in self.told]}"
                self._news.wait(left)

    def diagnostics(self, uri: str, version: int | None = None) -> list[Json]:
        """The diagnostics that are pushed for a text, of this version where one is given."""

        def is_it(message: Json) -> bool:
            params = message.get("params") or {}
            return (
                message["method"] == "textDocument/publishDiagnostics"
                and params["uri"] == uri
                and (version is None or params.get("version") == version)
            )

        found: list[Json] = self.wait_for(is_it)["params"]["diagnostics"]
        return found

    def messages(self) -> list[str]:
        """What the user was shown so far."""
        return [each["params"]["message"] for each in self.told if each["method"] == "window/showMessage"]

    # What editors do

    def start(self, folders: list[Path], capabilities: Json | None = None, options: Any = None) -> Json:
        given = {
            "processId": os.getpid(),
            "rootUri": uri_of(str(folders[0])) if folders else None,
            "workspaceFolders": [{"uri": uri_of(str(folder)), "name": folder.name} for folder in folders],
            "capabilities": capabilities or {},
            "initializationOptions": options,
        }
        answer: Json = self.ask("initialize", given)
        self.notify("initialized", {})
        return answer

    def open(self, path: Path | str, text: str | None = None, version: int = 1, language: str = "python") -> str:
        """Open a file; gives its address."""
        uri = path if isinstance(path, str) else uri_of(str(path))
        if text is None:
            assert isinstance(path, Path)
            text = path.read_bytes().decode()
        item = {"uri": uri, "languageId": language, "version": version, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": item})
        return uri

    def change(self, uri: str, version: int, *changes: Json) -> None:
        given = {"textDocument": {"uri": uri, "version": version}, "contentChanges": list(changes)}
        self.notify("textDocument/didChange", given)

    def close(self, uri: str) -> None:
        self.notify("textDocument/didClose", {"textDocument": {"uri": uri}})

    def actions(
        self, uri: str, where: Json, only: list[str] | None = None, shown: list[Json] | None = None
    ) -> list[Json]:
        context: Json = {"diagnostics": shown or []}
        if only is not None:
            context["only"] = only
        answer: list[Json] | None = self.ask(
            "textDocument/codeAction", {"textDocument": {"uri": uri}, "range": where, "context": context}
        )
        return answer or []

    def stop(self) -> None:
        if self._writing.closed:
            return
        self.ask("shutdown", None)
        self.notify("exit", None)
        self._listener.join(PATIENCE)
        self._writing.close()
        self._reading.close()


def start_process(
    folder: Path, variables: Mapping[str, str] | None = None, limit: Callable[[], None] | None = None
) -> tuple[subprocess.Popen[bytes], LanguageClient]:
    """A server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lintrain", "server"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **(variables or {})},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    return process, LanguageClient(process.stdout, process.stdin)


def start_inside() -> LanguageClient:
    """A server in a thread of this process: it starts in no time."""
    from lintrain.server.features import make_server

    server_reads, client_writes = os.pipe()
    client_reads, server_writes = os.pipe()
    talk = os.fdopen(server_reads, "rb"), os.fdopen(server_writes, "wb")
    server = make_server()

    def serve() -> None:
        server.start_io(*talk)
        for pipe in talk:
            with contextlib.suppress(OSError):
                pipe.close()

    threading.Thread(target=serve, daemon=True).start()
    return LanguageClient(os.fdopen(client_reads, "rb"), os.fdopen(client_writes, "wb"))


def span(line: int, start: int, end: int) -> Json:
    """A stretch of one line, counted from 0."""
    return {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}


def applied(text: str, edits: list[Json]) -> str:
    """A text with edits of a client that counts characters (ASCII texts: any client)."""
    lines = text.split("\n")
    starts = list(itertools.accumulate((len(line) + 1 for line in lines), initial=0))

    def offset(at: Json) -> int:
        return int(starts[at["line"]] + at["character"])

    for edit in sorted(edits, key=lambda each: offset(each["range"]["start"]), reverse=True):
        text = text[: offset(edit["range"]["start"])] + edit["newText"] + text[offset(edit["range"]["end"]) :]
    return text
