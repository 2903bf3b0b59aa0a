"""The protocol as pygls speaks it, with documents of our own and an answer for those who send nonsense."""

from __future__ import annotations

import json
import sys
from typing import Any, BinaryIO, cast

from lsprotocol import types as lsp
from pygls.exceptions import FeatureRequestError, JsonRpcException, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter

from lintrain._version import __version__
from lintrain.server.client import LONGEST_MESSAGE, without_links
from lintrain.startup.lazy_pattern import lazy_pattern

LARGEST_MESSAGE = 16 * 2**20
"""Bytes; the code of a document has at most two million characters."""

TOO_LARGE = "lintrain/tooLarge"
"""The notification that stands for a message that was too large: it names the document that the message was about."""

LONGEST_HEADER = 4096
HEAD = 64 * 1024
CHUNK = 1024 * 1024

LENGTH = lazy_pattern(rb"(?i)content-length:[ \t]*(\d{1,20})[ \t]*\r?\n$")
"""Searched at the end of a line: a message that was shorter than announced leaves its rest before it."""
METHOD = lazy_pattern(rb'"method"\s*:\s*"([^"\\]{1,200})"')
NUMBER = lazy_pattern(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{0,200}")')
ADDRESS = lazy_pattern(rb'"uri"\s*:\s*("(?:[^"\\]|\\.){0,4096}")')


class BoundedInput:
    """A stream of messages for the library, without those that are too large and without broken headers."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._lines: list[bytes] = []
        self._body: bytes | None = None

    def readline(self) -> bytes:
        """The next line of a header; empty at the end of the stream."""
        if self._lines:
            return self._lines.pop()
        length = self._next_length()
        if length is None:
            return b""
        if length > LARGEST_MESSAGE:
            self._body = _stand_in(self._skip(length), length)
            length = len(self._body)
        self._lines = [b"\r\n"]
        return b"Content-Length: %d\r\n" % length

    def read(self, size: int) -> bytes:
        """The body of the message whose header was read."""
        if self._body is not None:
            body, self._body = self._body, None
            return body
        return self._stream.read(size)

    def _next_length(self) -> int | None:
        """The length of the next message that has a body; None at the end of the stream."""
        length = 0
        while line := self._stream.readline(LONGEST_HEADER):
            if found := LENGTH.search(line):
                length = int(found[1])
            elif not line.strip() and length:
                return length
        return None

    def _skip(self, length: int) -> bytes:
        """Read over a body, and give its beginning."""
        head = self._stream.read(min(length, HEAD))
        left = length - len(head)
        while left > 0 and (chunk := self._stream.read(min(left, CHUNK))):
            left -= len(chunk)
        return head


def _stand_in(head: bytes, length: int) -> bytes:
    """The message that says that another was too large: which document it was about, and which question it asked."""
    address, number, method = ADDRESS.search(head), NUMBER.search(head[:1000]), METHOD.search(head)
    params = {
        "uri": _value(address[1]) if address else None,
        "id": _value(number[1]) if number else None,
        "method": method[1].decode(errors="replace") if method else "",
        "length": length,
    }
    return json.dumps({"jsonrpc": "2.0", "method": TOO_LARGE, "params": params}).encode()


def _value(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


KEPT_BY_US = (
    lsp.TEXT_DOCUMENT_DID_OPEN,
    lsp.TEXT_DOCUMENT_DID_CHANGE,
    lsp.TEXT_DOCUMENT_DID_CLOSE,
    lsp.NOTEBOOK_DOCUMENT_DID_OPEN,
    lsp.NOTEBOOK_DOCUMENT_DID_CHANGE,
    lsp.NOTEBOOK_DOCUMENT_DID_CLOSE,
)
"""What pygls would keep documents by: it ends lines at form feeds, too, and so would edit the wrong place."""

NOTEBOOKS = lsp.NotebookDocumentSyncOptions(
    notebook_selector=[
        lsp.NotebookDocumentFilterWithNotebook(
            notebook=lsp.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"),
            cells=[lsp.NotebookCellLanguage(language="python")],
        )
    ],
    save=True,
)


MOST_TOLD = 20
"""Errors that the user is shown in one session: one who sends nonsense would fill the window with it."""


class AnsweredError(JsonRpcException):
    """A question that made no sense, and whose answer said so."""


class Protocol(LanguageServerProtocol):
    """Messages in, messages out."""

    def __init__(self, *given: Any, **named: Any) -> None:  # Any: what pygls passes on
        super().__init__(*given, **named)
        features = cast("dict[str, Any]", self.fm.builtin_features)  # pyright: ignore[reportUnknownMemberType] - untyped
        for name in KEPT_BY_US:
            features.pop(name, None)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message as an object; a request that is none gets an error for an answer, where pygls gives none."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if data.get("method") and isinstance(data.get("id"), str | int):
                self._send_response(data["id"], error=error.to_response_error())
                raise AnsweredError(error.message) from error
            raise

    def refuse(self, number: str | int, reason: str) -> None:
        """Answer a question with an error."""
        self._send_response(number, error=JsonRpcInvalidRequest(reason).to_response_error())


class Server(LanguageServer):
    """The server; what goes wrong in it is shown once."""

    def __init__(self) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - the rest of its arguments is untyped
            "lintrain",
            __version__,
            notebook_document_sync=NOTEBOOKS,
            protocol_cls=Protocol,
            converter_factory=default_converter,
        )
        self._told = set[str]()

    def start_io(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Serve a client over two streams; what it sends is bounded before it is read."""
        bounded = BoundedInput(sys.stdin.buffer if stdin is None else stdin)
        super().start_io(cast("BinaryIO", bounded), stdout)

    def refuse(self, number: str | int, reason: str) -> None:
        """Answer a question with an error."""
        cast("Protocol", self.protocol).refuse(number, reason)

    def report_server_error(self, error: Exception, source: Any) -> None:  # Any: a class of pygls' errors
        """Show an error, unless it was shown before; that of a question is in its answer."""
        if source is FeatureRequestError or isinstance(error, AnsweredError):
            return
        text = f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST_MESSAGE]
        if text not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(text)
            message = f"lintrain: a message of the editor could not be dealt with ({without_links(text)})"
            self.window_show_message(lsp.ShowMessageParams(type=lsp.MessageType.Warning, message=message))
