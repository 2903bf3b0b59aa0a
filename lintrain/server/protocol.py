"""The protocol of pygls: our own documents, bounded messages, errors as responses; the client and what it can do."""

from __future__ import annotations

import json
import sys
from dataclasses import field
from typing import Any, BinaryIO, cast

from lsprotocol import types as lsp
from pygls.exceptions import FeatureRequestError, JsonRpcException, JsonRpcInvalidRequest
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter

from lintrain._version import __version__
from lintrain.server.positions import Units
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.startup.lazy_pattern import lazy_pattern
from lintrain.text import inert

LARGEST_MESSAGE = 16 * 2**20
"""In bytes; the code of a document has at most two million characters."""

TOO_LARGE = "lintrain/tooLarge"
"""The notification that replaces a message that is too large; it has the URI of the document."""

LONGEST_HEADER = 4096
HEAD = 64 * 1024
CHUNK = 1024 * 1024

LENGTH = lazy_pattern(rb"(?i)content-length:[ \t]*(\d{1,20})[ \t]*\r?\n$")
"""Searched at the end of a line, since a message that is shorter than announced leaves a rest before it."""
METHOD = lazy_pattern(rb'"method"\s*:\s*"([^"\\]{1,200})"')
NUMBER = lazy_pattern(rb'"id"\s*:\s*(\d{1,15}|"[^"\\]{0,200}")')
ADDRESS = lazy_pattern(rb'"uri"\s*:\s*("(?:[^"\\]|\\.){0,4096}")')


class BoundedInput:
    """A stream of messages for pygls, without broken headers and messages that are too large."""

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
            self._body = _replacement(self._skip(length), length)
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
        """Skip a body, and return its beginning."""
        head = self._stream.read(min(length, HEAD))
        left = length - len(head)
        while left > 0 and (chunk := self._stream.read(min(left, CHUNK))):
            left -= len(chunk)
        return head


def _replacement(head: bytes, length: int) -> bytes:
    """The message that replaces one that is too large, with the URI of the document and the id of the request."""
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


OUR_DOCUMENTS = (
    lsp.TEXT_DOCUMENT_DID_OPEN,
    lsp.TEXT_DOCUMENT_DID_CHANGE,
    lsp.TEXT_DOCUMENT_DID_CLOSE,
    lsp.NOTEBOOK_DOCUMENT_DID_OPEN,
    lsp.NOTEBOOK_DOCUMENT_DID_CHANGE,
    lsp.NOTEBOOK_DOCUMENT_DID_CLOSE,
)
"""Handlers of pygls that we replace: it also ends lines at form feeds, which would misplace edits."""

NOTEBOOKS = lsp.NotebookDocumentSyncOptions(
    notebook_selector=[
        lsp.NotebookDocumentFilterWithNotebook(
            notebook=lsp.NotebookDocumentFilterNotebookType(notebook_type="jupyter-notebook"),
            cells=[lsp.NotebookCellLanguage(language="python")],
        )
    ],
    save=True,
)


MOST_SHOWN = 20
"""The largest number of errors shown in one session."""


class AnsweredError(JsonRpcException):
    """A malformed request that was answered with an error."""


class Protocol(LanguageServerProtocol):
    """The protocol with errors for malformed requests."""

    def __init__(self, *given: Any, **named: Any) -> None:  # Any: what pygls passes on
        super().__init__(*given, **named)
        features = cast("dict[str, Any]", self.fm.builtin_features)  # pyright: ignore[reportUnknownMemberType] - untyped
        for name in OUR_DOCUMENTS:
            features.pop(name, None)

    def structure_message(self, data: dict[str, Any]) -> Any:
        """A message as an object; a malformed request is answered with an error, which pygls does not do."""
        try:
            return super().structure_message(data)
        except JsonRpcException as error:
            if data.get("method") and isinstance(data.get("id"), str | int):
                self._send_response(data["id"], error=error.to_response_error())
                raise AnsweredError(error.message) from error
            raise

    def refuse(self, number: str | int, reason: str) -> None:
        """Answer a request with an error."""
        self._send_response(number, error=JsonRpcInvalidRequest(reason).to_response_error())


class Server(LanguageServer):
    """The server; each error in it is shown once."""

    def __init__(self) -> None:
        super().__init__(  # pyright: ignore[reportUnknownMemberType] - the rest of its arguments is untyped
            "lintrain",
            __version__,
            notebook_document_sync=NOTEBOOKS,
            protocol_cls=Protocol,
            converter_factory=default_converter,
        )
        self._shown = set[str]()

    def start_io(self, stdin: BinaryIO | None = None, stdout: BinaryIO | None = None) -> None:
        """Serve a client over two streams, with bounded messages."""
        bounded = BoundedInput(sys.stdin.buffer if stdin is None else stdin)
        super().start_io(cast("BinaryIO", bounded), stdout)

    def refuse(self, number: str | int, reason: str) -> None:
        """Answer a request with an error."""
        cast("Protocol", self.protocol).refuse(number, reason)

    def report_server_error(self, error: Exception, source: Any) -> None:  # Any: a class of pygls' errors
        """Show an error unless it was shown before; errors of requests are in their response."""
        if source is FeatureRequestError or isinstance(error, AnsweredError):
            return
        text = f"{type(error).__name__}: {error}".splitlines()[0][:LONGEST_MESSAGE]
        if text not in self._shown and len(self._shown) < MOST_SHOWN:
            self._shown.add(text)
            message = f"lintrain: a message from the editor could not be handled ({without_links(text)})"
            self.window_show_message(lsp.ShowMessageParams(type=lsp.MessageType.Warning, message=message))


LONGEST_MESSAGE = 2_000


def without_links(text: str) -> str:
    """A message for the editor without links: in VS Code, `[text](command:…)` would run a command."""
    lines = inert(text[:LONGEST_MESSAGE]).replace("](", "] (")
    return f"{lines}…" if len(text) > LONGEST_MESSAGE else lines


@dataclass(eq=False)
class Client:
    """The other end of the connection."""

    server: LanguageServer
    shown: dict[str, str] = field(default_factory=dict[str, str])

    def can(self, path: str) -> bool:
        """Whether the client has a capcapability such as `window.show_document.support`."""
        capability: object = self.server.client_capabilities
        for name in path.split("."):
            capability = getattr(capability, name, None)
            if capability is None:
                return False
        return bool(capability)

    @property
    def units(self) -> Units:
        """How the client counts columns."""
        encoding = self.server.server_capabilities.position_encoding
        return Units(str(getattr(encoding, "value", encoding)))

    @property
    def pulls(self) -> bool:
        """Whether the client pulls diagnostics, so that none are pushed."""
        return self.can("text_document.diagnostic")

    @property
    def takes_versions(self) -> bool:
        """Whether edits may have document versions."""
        return self.can("workspace.workspace_edit.document_changes")

    @property
    def resolves_edits(self) -> bool:
        """Whether the client requests the edit of a code action when it is chosen."""
        support = self.server.client_capabilities.text_document
        action = support.code_action if support else None
        return bool(action and action.resolve_support and "edit" in action.resolve_support.properties)

    @property
    def reads_markdown(self) -> bool:
        """Whether hovers may be Markdown."""
        support = self.server.client_capabilities.text_document
        formats = support.hover.content_format if support and support.hover else None
        return bool(formats and lsp.MarkupKind.Markdown in formats)

    def say(self, text: str, kind: lsp.MessageType = lsp.MessageType.Info) -> None:
        """Show a message."""
        self.server.window_show_message(lsp.ShowMessageParams(type=kind, message=f"lintrain: {without_links(text)}"))

    def warn_once(self, about: str, text: str) -> None:
        """Show a warning unless it repeats the last one on the same topic; an empty text shows nothing."""
        if self.shown.get(about, "") != text:
            self.shown[about] = text
            if text:
                self.say(text, lsp.MessageType.Warning)

    def log(self, text: str) -> None:
        """Write a line to the client's log."""
        self.server.window_log_message(lsp.LogMessageParams(type=lsp.MessageType.Info, message=inert(text)))

    def publish(self, uri: str, version: int | None, diagnostics: list[lsp.Diagnostic]) -> None:
        """Send the diagnostics of one text."""
        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, version=version, diagnostics=diagnostics)
        )

    def refresh(self) -> None:
        """Ask the client to pull diagnostics again, and to refresh code lenses."""
        if self.pulls and self.can("workspace.diagnostics.refresh_support"):
            self.server.workspace_diagnostic_refresh(None)
        if self.can("workspace.code_lens.refresh_support"):
            self.server.workspace_code_lens_refresh(None)

    async def settings(self, scopes: list[str | None]) -> list[object]:
        """The user's settings for the folders with these URIs."""
        items = [lsp.ConfigurationItem(scope_uri=scope, section="lintrain") for scope in scopes]
        answer: Any = await self.server.workspace_configuration_async(lsp.ConfigurationParams(items=items))
        return cast("list[object]", list(answer or ()))
