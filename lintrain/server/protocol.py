"""The protocol as pygls speaks it, with documents of our own and an answer for those who send nonsense."""

from __future__ import annotations

from typing import Any, cast

from lsprotocol import types as lsp
from pygls.exceptions import FeatureRequestError, JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, default_converter

from lintrain import __version__

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

    def report_server_error(self, error: Exception, source: Any) -> None:  # Any: a class of pygls' errors
        """Show an error, unless it was shown before; that of a question is in its answer."""
        if source is FeatureRequestError or isinstance(error, AnsweredError):
            return
        text = f"{type(error).__name__}: {error}".splitlines()[0]
        if text not in self._told:
            self._told.add(text)
            message = f"lintrain: a message of the editor could not be dealt with ({text})"
            self.window_show_message(lsp.ShowMessageParams(type=lsp.MessageType.Warning, message=message))
