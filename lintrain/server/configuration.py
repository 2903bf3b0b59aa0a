"""The client's settings and folders, and the files that it is to watch."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, cast

from lsprotocol import types as lsp

from lintrain.server.client_settings import SECTION, read_client_settings
from lintrain.server.consent import Consent
from lintrain.server.editor_session import EditorSession
from lintrain.server.paths import file_of, uri_of
from lintrain.server.project import CONFIGURATION_FILES, VERSION_FILES
from lintrain.server.publishing import Publisher
from lintrain.startup.lazy_dataclass import dataclass

READ = ("py", "ipynb", "json", "jsonl", "yaml", "yml", "csv", "tsv", "parquet")
"""Endings of what scripts are, and of what they read."""

WATCHED = (*(f"**/*.{ending}" for ending in READ), *(f"**/{name}" for name in (*CONFIGURATION_FILES, *VERSION_FILES)))


@dataclass(eq=False)
class Configuration:
    """What the client says of itself."""

    session: EditorSession
    publisher: Publisher
    consent: Consent

    def start(self, given: lsp.InitializeParams) -> None:
        """Take in the folders and the settings that come with the first message."""
        root = given.root_uri or (uri_of(given.root_path) if given.root_path else None)
        for uri in [folder.uri for folder in given.workspace_folders or ()] or ([root] if root else []):
            self._add(uri)
        options: object = given.initialization_options
        self.consent.take(options)
        self._take("", _section(_without_trust(options), "settings"))

    def _add(self, uri: str) -> None:
        if path := file_of(uri):
            self.session.folders[path] = uri

    def _take(self, folder: str, given: object) -> bool:
        """Set what the user has set for a folder; whether it is another than before."""
        settings, problems = read_client_settings(given)
        self.session.client.warn_once(f"settings of {folder}", "; ".join(problems))
        is_new = self.session.settings.get(folder) != settings
        if is_new:
            self.session.settings[folder] = settings
        return is_new

    async def ask(self) -> None:
        """Ask for the settings, where the client can be asked."""
        if not self.session.client.can("workspace.configuration"):
            return
        folders = list(self.session.folders)
        scopes = [None, *(self.session.folders[folder] for folder in folders)]
        answers = await self.session.client.settings(scopes)
        pairs = [(folder, given) for folder, given in zip(["", *folders], answers, strict=False) if given is not None]
        changes = [folder for folder, given in pairs if self._take(folder, given)]
        if changes:
            self.publisher.all_changed()

    async def changed(self, given: lsp.DidChangeConfigurationParams) -> None:
        """The user changed the settings: they come with the message, or are to be asked for."""
        if self.session.client.can("workspace.configuration"):
            await self.ask()
        elif self._take("", _section(given.settings, SECTION)):
            self.publisher.all_changed()

    async def folders_changed(self, given: lsp.DidChangeWorkspaceFoldersParams) -> None:
        """Folders came or went."""
        for folder in given.event.removed:
            path = file_of(folder.uri) or ""
            self.session.folders.pop(path, None)
            self.session.settings.pop(path or folder.uri, None)
        for folder in given.event.added:
            self._add(folder.uri)
        await self.ask()
        self.publisher.all_changed()

    async def watch(self) -> None:
        """Ask to be told of files that others change, and of settings."""
        registrations: list[lsp.Registration] = []
        if self.session.client.can("workspace.did_change_watched_files.dynamic_registration"):
            watchers = [lsp.FileSystemWatcher(glob_pattern=pattern) for pattern in WATCHED]
            options: Any = lsp.DidChangeWatchedFilesRegistrationOptions(watchers=watchers)
            registrations.append(_registration(lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, options))
        if self.session.client.can("workspace.did_change_configuration.dynamic_registration"):
            options = lsp.DidChangeConfigurationRegistrationOptions(section=SECTION)
            registrations.append(_registration(lsp.WORKSPACE_DID_CHANGE_CONFIGURATION, options))
        if registrations:
            await self.session.client.server.client_register_capability_async(
                lsp.RegistrationParams(registrations=registrations)
            )

    def files_changed(self, paths: Iterable[str]) -> None:
        """Files changed on the disk: what says how to check, or what is checked."""
        changed = list(paths)
        if any(os.path.basename(path) in (*CONFIGURATION_FILES, *VERSION_FILES) for path in changed):  # noqa: PTH119
            self.session.projects.forget()
            self.publisher.all_changed()
        for path in changed:
            self.publisher.written(path)


def _without_trust(options: object) -> object:
    """The options less what is no setting."""
    if not isinstance(options, Mapping):
        return options
    return {name: value for name, value in cast("Mapping[str, object]", options).items() if name != "trusted"}


def _section(given: object, name: str) -> object:
    """The settings inside what a client sends, with or without the name of their section around them."""
    if not isinstance(given, Mapping):
        return given
    table = cast("Mapping[str, object]", given)
    return table.get(name, table)


def _registration(method: str, options: object) -> lsp.Registration:
    return lsp.Registration(id=f"lintrain {method}", method=method, register_options=options)
