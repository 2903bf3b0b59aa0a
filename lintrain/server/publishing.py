"""Publishes diagnostics: pushed after a pause in typing, or returned when the client pulls them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import field
from hashlib import sha256
from typing import Any

from lsprotocol import types as lsp

from lintrain.server.checking import Urgency
from lintrain.server.editor_session import EditorSession
from lintrain.server.open_text import Document
from lintrain.server.positions import uri_of
from lintrain.startup.lazy_dataclass import dataclass

BURST = 0.05
"""Seconds between edits of a burst, such as a paste or a formatter; typing is slower."""

PAUSE = 0.02
"""Seconds without an edit before a burst is checked; a single keystroke is checked at once."""

LATER_PAUSE = 0.25
"""The same for documents that depend on the edited one."""


@dataclass(eq=False)
class Publisher:
    """Publishes diagnostics to the client."""

    session: EditorSession
    _pauses: dict[str, asyncio.Task[Any]] = field(default_factory=dict[str, "asyncio.Task[Any]"])
    _published: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """The URIs that diagnostics were pushed to, by document."""
    _refreshing: asyncio.Task[Any] | None = None
    _last_edit: float = 0.0

    def __post_init__(self) -> None:
        self.session.on_outdated = self._outdated

    def _outdated(self, document: Document) -> None:
        """A document's result is to be made again, without a change of its text."""
        self.session.turn(document)
        self._schedule(document, Urgency.LATER, 0)
        self._refresh()

    def opened(self, document: Document) -> None:
        """A document was opened."""
        self.session.turn(document)
        self._schedule(document, Urgency.SOON, 0)
        self._follow(document.path)

    def edited(self, document: Document) -> None:
        """A document was changed in the editor."""
        self.session.turn(document)
        now = time.monotonic()
        is_burst = now - self._last_edit < BURST
        self._last_edit = now
        self._schedule(document, Urgency.NOW, PAUSE if is_burst else 0)
        self._follow(document.path)

    def closed(self, document: Document) -> None:
        """A document was closed; only findings from other documents remain."""
        self.session.forget(document)
        if pause := self._pauses.pop(document.uri, None):
            pause.cancel()
        if not self.session.client.pulls:
            for uri in self._published.pop(document.uri, set()) | {text.uri for text in document.texts}:
                self.session.client.publish(uri, None, [])
            self._push_file(document.path)
        self._follow(document.path)

    def written(self, path: str) -> None:
        """A file was created, changed or deleted on disk."""
        self.session.documents.forget_disk(path)
        document = self.session.documents.at(path)
        if document is not None:
            self.session.turn(document)
            self._schedule(document, Urgency.SOON, 0)
        self._follow(path)

    def all_changed(self) -> None:
        """Something changed that every result depends on."""
        for document in self.session.documents.all():
            self.session.turn(document)
            self._schedule(document, Urgency.LATER, 0)
        self._refresh()

    def _follow(self, path: str) -> None:
        """Check the open documents again that depend on a file."""
        dependents = self.session.dependents(path)
        for document in dependents:
            self.session.turn(document)
            self._schedule(document, Urgency.LATER, LATER_PAUSE)
        if dependents:
            self._refresh()

    def _refresh(self) -> None:
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = self.session.start(self._refresh_soon())

    async def _refresh_soon(self) -> None:
        await asyncio.sleep(LATER_PAUSE)
        self.session.client.refresh()

    def _schedule(self, document: Document, urgency: Urgency, pause: float) -> None:
        if self.session.client.pulls:
            return
        if earlier := self._pauses.get(document.uri):
            earlier.cancel()
        self._pauses[document.uri] = self.session.start(self._push_after(document, urgency, pause))

    async def _push_after(self, document: Document, urgency: Urgency, pause: float) -> None:
        await asyncio.sleep(pause)
        before = self.session.answers.get(document.uri)
        checked = await self.session.checked(document, urgency)
        if checked is None:
            return
        paths = dict.fromkeys([document.path, *checked.elsewhere, *(before[1].elsewhere if before else ())])
        for path in paths:
            self._push_file(path)

    def _push_file(self, path: str) -> None:
        """Push the diagnostics of a file, for each of its texts, and empty lists for texts without any."""
        document = self.session.documents.at(path)
        found = self.diagnostics_of(path)
        if document is None:
            uri = uri_of(path)
            self.session.client.publish(uri, None, found.get(uri, []))
            return
        texts = {text.uri: text.version for text in document.texts}
        known = self._published.get(document.uri, set())
        for uri in dict.fromkeys([*texts, *(known - found.keys() - texts.keys()), *found]):
            self.session.client.publish(uri, texts.get(uri), found.get(uri, []))
        self._published[document.uri] = {*texts, *found}

    def diagnostics_of(self, path: str) -> dict[str, list[lsp.Diagnostic]]:
        """The diagnostics of a file by the URI of the text, each finding once."""
        if not self.session.settings_for(path).enable:
            return {}
        viewer = self.session.viewer
        found: dict[str, dict[tuple[Any, ...], lsp.Diagnostic]] = {}
        for checked, reported in self.session.about(path):
            for uri, each in (*viewer.not_judged(checked), *viewer.diagnostics(checked, iter(reported))):
                start = each.range.start
                found.setdefault(uri, {}).setdefault((each.code, start.line, start.character), each)
        return {uri: list(each.values()) for uri, each in found.items()}

    async def pulled(self, uri: str, previous: str | None) -> lsp.DocumentDiagnosticReport:
        """The response to a pull request; without items if nothing changed."""
        document = self.session.documents.find(uri)
        checked = await self.session.checked(document) if document else None
        found = self.diagnostics_of(document.path).get(uri, []) if document else []
        number = sha256(repr(found).encode()).hexdigest()[:16]
        others = self._related(checked.elsewhere if checked else ())
        if number == previous and not others:
            return lsp.RelatedUnchangedDocumentDiagnosticReport(result_id=number)
        return lsp.RelatedFullDocumentDiagnosticReport(items=found, result_id=number, related_documents=others or None)

    def _related(self, paths: Iterable[str]) -> dict[str, Any]:
        """The diagnostics that the document causes in files that are not open."""
        if not self.session.client.can("text_document.diagnostic.related_document_support"):
            return {}
        closed = [path for path in paths if self.session.documents.at(path) is None]
        return {
            uri: lsp.FullDocumentDiagnosticReport(items=items)
            for path in closed
            for uri, items in self.diagnostics_of(path).items()
        }
