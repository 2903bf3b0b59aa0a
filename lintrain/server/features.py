"""The server and its handlers, one per message of the protocol."""

from __future__ import annotations

import gc
import inspect
import logging
import sys
from collections.abc import Callable
from dataclasses import field
from pathlib import PurePath
from typing import Any

from lsprotocol import types as lsp

from lintrain.report.markdown import markdown
from lintrain.server import actions, hovers
from lintrain.server.configuration import Configuration, Consent
from lintrain.server.documents import OpenDocuments, OpenNotebook, Script, is_ours
from lintrain.server.editor_session import EditorSession
from lintrain.server.hovers import page_of, written_page
from lintrain.server.positions import file_of, uri_of
from lintrain.server.probes import Probes
from lintrain.server.protocol import TOO_LARGE, Client, Server
from lintrain.server.publishing import Publisher
from lintrain.startup.lazy_dataclass import dataclass


@dataclass(eq=False)
class Features:
    """The handlers; those of notifications return at once, those of requests wait for the worker."""

    server: Server
    session: EditorSession = field(init=False)
    publisher: Publisher = field(init=False)
    probes: Probes = field(init=False)
    configuration: Configuration = field(init=False)

    def __post_init__(self) -> None:
        self.session = EditorSession(Client(self.server))
        self.publisher = Publisher(self.session)
        consent = Consent(self.session)
        self.probes = Probes(self.session, self.publisher, consent)
        self.configuration = Configuration(self.session, self.publisher, consent)

    @property
    def documents(self) -> OpenDocuments:
        """The open documents."""
        return self.session.documents

    # Start and end

    def initialize(self, given: lsp.InitializeParams) -> None:
        """Read the client's capabilities, and offer pull diagnostics if it supports them."""
        self.configuration.start(given)
        if self.session.client.pulls:
            options = lsp.DiagnosticOptions(
                identifier="lintrain", inter_file_dependencies=True, workspace_diagnostics=False
            )
            self.server.feature(lsp.TEXT_DOCUMENT_DIAGNOSTIC, options)(_function(self.diagnostic))

    async def initialized(self, _given: lsp.InitializedParams) -> None:
        """Request the settings, and register for changes."""
        await self.configuration.watch()
        await self.configuration.ask()

    async def shutdown(self, _given: None) -> None:
        """End all probes."""
        await self.probes.stop()

    # Documents

    def did_open(self, given: lsp.DidOpenTextDocumentParams) -> None:
        """A text was opened."""
        item = given.text_document
        if is_ours(item):
            script = self.documents.scripts[item.uri] = Script.opened(item, self.session.home)
            self.publisher.opened(script)

    def did_change(self, given: lsp.DidChangeTextDocumentParams) -> None:
        """A text was changed."""
        if script := self.documents.scripts.get(given.text_document.uri):
            script.change(given.content_changes, given.text_document.version, self.session.client.units)
            self.publisher.edited(script)

    def did_save(self, given: lsp.DidSaveTextDocumentParams) -> None:
        """A text was saved."""
        self._written(given.text_document.uri)

    def did_close(self, given: lsp.DidCloseTextDocumentParams) -> None:
        """A text was closed."""
        if script := self.documents.scripts.pop(given.text_document.uri, None):
            self.publisher.closed(script)

    def did_open_notebook(self, given: lsp.DidOpenNotebookDocumentParams) -> None:
        """A notebook was opened."""
        notebook = OpenNotebook.opened(given, self.session.home)
        self.documents.notebooks[notebook.uri] = notebook
        self.publisher.opened(notebook)

    def did_change_notebook(self, given: lsp.DidChangeNotebookDocumentParams) -> None:
        """Cells were changed, added, moved or removed."""
        if notebook := self.documents.notebooks.get(given.notebook_document.uri):
            notebook.change(given.change, given.notebook_document.version, self.session.client.units)
            self.publisher.edited(notebook)

    def did_save_notebook(self, given: lsp.DidSaveNotebookDocumentParams) -> None:
        """A notebook was saved."""
        self._written(given.notebook_document.uri)

    def did_close_notebook(self, given: lsp.DidCloseNotebookDocumentParams) -> None:
        """A notebook was closed."""
        if notebook := self.documents.notebooks.pop(given.notebook_document.uri, None):
            self.publisher.closed(notebook)

    def too_large(self, given: Any) -> None:
        """A message was too large to read: its request is refused, its document is closed."""
        uri, number = given.uri, given.id
        if isinstance(number, str | int):
            self.server.refuse(number, f"a message of {given.length:,} bytes is too large")
        script = self.documents.scripts.pop(uri, None) or self.documents.notebooks.pop(uri, None)
        if script is not None:
            self.publisher.closed(script)
        name = PurePath(file_of(uri) or "").name if isinstance(uri, str) else ""
        subject = f"{name or 'a document'} is not checked until it is opened again: a message" if uri else "a message"
        self.session.client.warn_once(f"size of {uri}", f"{subject} of {given.length:,} bytes is too large")

    def did_change_files(self, given: lsp.DidChangeWatchedFilesParams) -> None:
        """Files were created, changed or deleted."""
        self.configuration.files_changed([path for each in given.changes if (path := file_of(each.uri))])

    def _written(self, uri: str) -> None:
        if path := file_of(uri):
            self.configuration.files_changed([path])

    # Requests

    async def diagnostic(self, given: lsp.DocumentDiagnosticParams) -> lsp.DocumentDiagnosticReport:
        """The diagnostics of a text."""
        return await self.publisher.pulled(given.text_document.uri, given.previous_result_id)

    async def code_action(self, given: lsp.CodeActionParams) -> list[lsp.CodeAction]:
        """The actions at a range."""
        return await actions.code_actions(self.session, given)

    async def code_action_resolve(self, given: lsp.CodeAction) -> lsp.CodeAction:
        """The edit of a chosen action."""
        return await actions.resolved(self.session, given)

    async def hover(self, given: lsp.HoverParams) -> lsp.Hover | None:
        """The hover at a position."""
        return await hovers.hover(self.session, given)

    async def code_lens(self, given: lsp.CodeLensParams) -> list[lsp.CodeLens]:
        """The code lenses of training calls."""
        return await hovers.code_lenses(self.session, given)

    # Commands

    def probe(self, uri: str) -> None:
        """Probe a script."""
        self.probes.start(uri)

    def show_report(self, uri: str) -> None:
        """Show the report of the last probe of a script."""
        self.probes.show_report(uri)

    def explain(self, rule: str) -> str | None:
        """Show the page of a rule, and return it."""
        page, client = page_of(self.session, rule), self.session.client
        if page is None:
            client.say(f"unknown rule `{rule}`", lsp.MessageType.Warning)
            return None
        text = markdown(page)
        file = written_page(rule, text) if client.can("window.show_document.support") else None
        if file:
            self.server.window_show_document(lsp.ShowDocumentParams(uri=uri_of(file), take_focus=True, external=False))
        else:
            client.say(text.partition("\n\n## ")[0].removeprefix("# "))
        return text

    def cancel_progress(self, given: lsp.WorkDoneProgressCancelParams) -> None:
        """Cancel the probe with this progress token."""
        self.probes.cancel(given.token)


def make_server() -> Server:
    """The server with all its handlers."""
    server = Server()
    mine = Features(server)
    kinds = [*actions.KINDS]
    answers: dict[str, tuple[Any, Any]] = {  # Any: handlers and options of every kind
        lsp.INITIALIZE: (mine.initialize, None),
        lsp.INITIALIZED: (mine.initialized, None),
        lsp.SHUTDOWN: (mine.shutdown, None),
        lsp.TEXT_DOCUMENT_DID_OPEN: (mine.did_open, None),
        lsp.TEXT_DOCUMENT_DID_CHANGE: (mine.did_change, None),
        lsp.TEXT_DOCUMENT_DID_SAVE: (mine.did_save, None),
        lsp.TEXT_DOCUMENT_DID_CLOSE: (mine.did_close, None),
        lsp.NOTEBOOK_DOCUMENT_DID_OPEN: (mine.did_open_notebook, None),
        lsp.NOTEBOOK_DOCUMENT_DID_CHANGE: (mine.did_change_notebook, None),
        lsp.NOTEBOOK_DOCUMENT_DID_SAVE: (mine.did_save_notebook, None),
        lsp.NOTEBOOK_DOCUMENT_DID_CLOSE: (mine.did_close_notebook, None),
        lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES: (mine.did_change_files, None),
        lsp.WORKSPACE_DID_CHANGE_CONFIGURATION: (mine.configuration.changed, None),
        lsp.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: (mine.configuration.folders_changed, None),
        lsp.TEXT_DOCUMENT_CODE_ACTION: (
            mine.code_action,
            lsp.CodeActionOptions(code_action_kinds=kinds, resolve_provider=True),
        ),
        lsp.CODE_ACTION_RESOLVE: (mine.code_action_resolve, None),
        lsp.TEXT_DOCUMENT_HOVER: (mine.hover, None),
        lsp.TEXT_DOCUMENT_CODE_LENS: (mine.code_lens, None),
        TOO_LARGE: (mine.too_large, None),
        lsp.WINDOW_WORK_DONE_PROGRESS_CANCEL: (mine.cancel_progress, None),
    }
    for name, (handler, options) in answers.items():
        server.feature(name, options)(_function(handler))

    def probe(uri: str) -> None:
        mine.probe(uri)

    def show_report(uri: str) -> None:
        mine.show_report(uri)

    def explain(rule: str) -> str | None:
        return mine.explain(rule)

    server.command(hovers.PROBE)(probe)
    server.command(hovers.REPORT)(show_report)
    server.command(actions.EXPLAIN)(explain)
    return server


def _function(method: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function that calls a method: pygls sets attributes on handlers, which methods do not allow."""
    if inspect.iscoroutinefunction(method):

        async def answer(given: Any) -> Any:
            return await method(given)

        return answer
    return lambda given: method(given)


def serve(*, verbose: bool) -> None:
    """Serve one client until it disconnects."""
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO if verbose else logging.CRITICAL, format="%(name)s: %(message)s"
    )
    talk = sys.stdout.buffer
    sys.stdout = sys.stderr  # nothing that is printed may get between the messages
    server = make_server()
    # A collection during a check takes a fifth of its time: the worker collects when it is idle.
    gc.freeze()
    gc.set_threshold(1_000_000, 20, 100)
    gc.enable()
    server.start_io(sys.stdin.buffer, talk)
