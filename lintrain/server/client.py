"""The client: what it can do, and what is told to it."""

from __future__ import annotations

from dataclasses import field
from typing import Any, cast

from lsprotocol import types as lsp
from pygls.lsp.server import LanguageServer

from lintrain.server.positions import Units
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text.shown import inert

LONGEST_MESSAGE = 2_000


def without_links(text: str) -> str:
    """A message for a window of the editor: VS Code makes `[text](command:…)` in one a link that runs a command."""
    lines = inert(text[:LONGEST_MESSAGE]).replace("](", "] (")
    return f"{lines}…" if len(text) > LONGEST_MESSAGE else lines


@dataclass(eq=False)
class Client:
    """The other end of the connection."""

    server: LanguageServer
    told: dict[str, str] = field(default_factory=dict[str, str])

    def can(self, path: str) -> bool:
        """Whether the client says that it has an ability: `window.show_document.support`."""
        ability: object = self.server.client_capabilities
        for name in path.split("."):
            ability = getattr(ability, name, None)
            if ability is None:
                return False
        return bool(ability)

    @property
    def units(self) -> Units:
        """How it counts columns."""
        encoding = self.server.server_capabilities.position_encoding
        return Units(str(getattr(encoding, "value", encoding)))

    @property
    def pulls(self) -> bool:
        """Whether it asks for diagnostics: then none are sent unasked."""
        return self.can("text_document.diagnostic")

    @property
    def takes_versions(self) -> bool:
        """Whether edits may name the version that they are for."""
        return self.can("workspace.workspace_edit.document_changes")

    @property
    def resolves_edits(self) -> bool:
        """Whether it asks for the edit of a code action when that is chosen."""
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
        """Show a warning, unless it is the one that was last shown about the same; an empty one shows nothing."""
        if self.told.get(about, "") != text:
            self.told[about] = text
            if text:
                self.say(text, lsp.MessageType.Warning)

    def log(self, text: str) -> None:
        """Write a line into the client's log."""
        self.server.window_log_message(lsp.LogMessageParams(type=lsp.MessageType.Info, message=inert(text)))

    def publish(self, uri: str, version: int | None, diagnostics: list[lsp.Diagnostic]) -> None:
        """Send the diagnostics of one text."""
        self.server.text_document_publish_diagnostics(
            lsp.PublishDiagnosticsParams(uri=uri, version=version, diagnostics=diagnostics)
        )

    def refresh(self) -> None:
        """Ask a client that pulls to ask again; code lenses may have changed, too."""
        if self.pulls and self.can("workspace.diagnostics.refresh_support"):
            self.server.workspace_diagnostic_refresh(None)
        if self.can("workspace.code_lens.refresh_support"):
            self.server.workspace_code_lens_refresh(None)

    async def settings(self, scopes: list[str | None]) -> list[object]:
        """What the user has set, for the folders with these addresses."""
        items = [lsp.ConfigurationItem(scope_uri=scope, section="lintrain") for scope in scopes]
        answer: Any = await self.server.workspace_configuration_async(lsp.ConfigurationParams(items=items))
        return cast("list[object]", list(answer or ()))
