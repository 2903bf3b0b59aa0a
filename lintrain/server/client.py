"""The client: its capabilities, and messages to it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, cast

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from lintrain.server.positions import Units
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import inert

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
