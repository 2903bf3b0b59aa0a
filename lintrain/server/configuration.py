"""The client's settings and folders, and the files that the client watches.

The user's consent to run the Python that a project or its settings choose for a probe.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from functools import partial
from pathlib import Path
from typing import Any, cast

from lsprotocol import types as lsp

from lintrain.runtime.parent.environment import planned_interpreter
from lintrain.server.checking import Urgency
from lintrain.server.editor_session import EditorSession
from lintrain.server.positions import file_of, uri_of
from lintrain.server.project import CONFIGURATION_FILES, SECTION, VERSION_FILES, read_client_settings
from lintrain.server.publishing import Publisher
from lintrain.source.bounds import find_program
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import shown

READ = ("py", "ipynb", "json", "jsonl", "yaml", "yml", "toml", "csv", "tsv", "parquet")
"""Extensions of scripts and of files that they read."""

WATCHED = (*(f"**/*.{ending}" for ending in READ), *(f"**/{name}" for name in (*CONFIGURATION_FILES, *VERSION_FILES)))


@dataclass(eq=False)
class Configuration:
    """The settings and folders of the client."""

    session: EditorSession
    publisher: Publisher
    consent: Consent

    def start(self, given: lsp.InitializeParams) -> None:
        """Read the folders and settings from the first message."""
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
        """Store the settings of a folder; returns whether they changed."""
        settings, problems = read_client_settings(given)
        self.session.client.warn_once(f"settings of {folder}", "; ".join(problems))
        is_new = self.session.settings.get(folder) != settings
        if is_new:
            self.session.settings[folder] = settings
        return is_new

    async def ask(self) -> None:
        """Request the settings if the client supports it."""
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
        """The user changed the settings, which are in the message or have to be requested."""
        if self.session.client.can("workspace.configuration"):
            await self.ask()
        elif self._take("", _section(given.settings, SECTION)):
            self.publisher.all_changed()

    async def folders_changed(self, given: lsp.DidChangeWorkspaceFoldersParams) -> None:
        """Workspace folders were added or removed."""
        for folder in given.event.removed:
            path = file_of(folder.uri) or ""
            self.session.folders.pop(path, None)
            self.session.settings.pop(path or folder.uri, None)
        for folder in given.event.added:
            self._add(folder.uri)
        await self.ask()
        self.publisher.all_changed()

    async def watch(self) -> None:
        """Register for changes of files and settings."""
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
        """Files changed on disk: configuration, versions or code."""
        changed = list(paths)
        if any(os.path.basename(path) in (*CONFIGURATION_FILES, *VERSION_FILES) for path in changed):  # noqa: PTH119
            self.session.projects.forget()
            self.publisher.all_changed()
        for path in changed:
            self.publisher.written(path)


def _without_trust(options: object) -> object:
    """The options without the workspace's trust, which is not a setting."""
    if not isinstance(options, Mapping):
        return options
    return {name: value for name, value in cast("Mapping[str, object]", options).items() if name != "trusted"}


def _section(given: object, name: str) -> object:
    """The settings in a message, inside their section or directly."""
    if not isinstance(given, Mapping):
        return given
    table = cast("Mapping[str, object]", given)
    return table.get(name, table)


def _registration(method: str, options: object) -> lsp.Registration:
    return lsp.Registration(id=f"lintrain {method}", method=method, register_options=options)


START, CANCEL = "Probe", "Cancel"


class NoProgramError(Exception):
    """The setting names a program that does not exist."""


@dataclass(eq=False)
class Consent:
    """The interpreters that the user allows probes to run.

    Settings and `.venv` may come from the workspace, so a program that they name is run only after the user has seen
    its path and agreed, once per program and session. A client with workspace trust reports it in
    `initializationOptions`, which no file of a workspace can set: then nothing is asked, and an untrusted workspace is
    never probed.
    """

    session: EditorSession
    is_trusted: bool | None = None
    _accepted: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])

    def take(self, options: object) -> None:
        """Read whether the client trusts the workspace."""
        if isinstance(options, Mapping):
            trusted = cast("Mapping[str, object]", options).get("trusted")
            self.is_trusted = trusted if isinstance(trusted, bool) else None

    async def python_for(self, script: str, folder: str, asked: str | None) -> str | None:
        """The Python to run, or None if the user declined; raises NoProgramError."""
        planned = partial(planned_interpreter, Path(script), Path(folder))
        plan = await self.session.worker.do(Urgency.NOW, planned) if asked is None else None
        if plan is not None and not plan.is_of_project:
            return plan.python
        python = _program(asked, folder) if asked is not None else plan.python if plan else ""
        if self.is_trusted or await self._agrees(script, python):
            return python
        return None

    async def _agrees(self, script: str, python: str) -> bool:
        key = (python, os.path.realpath(python))
        if key in self._accepted:
            return True
        params = lsp.ShowMessageRequestParams(
            type=lsp.MessageType.Warning,
            message=f"lintrain: probe {shown(os.path.basename(script))} with {shown(python)}? "  # noqa: PTH119 - paths are strings here
            "The project or a setting names this program, and a probe runs it.",
            actions=[lsp.MessageActionItem(title=START), lsp.MessageActionItem(title=CANCEL)],
        )
        try:
            answer = await self.session.client.server.window_show_message_request_async(params)
        except Exception:  # noqa: BLE001 - a client that cannot ask does not agree
            return False
        if getattr(answer, "title", None) != START:
            return False
        self._accepted.add(key)
        return True


def _program(asked: str, folder: str) -> str:
    """The program that a setting names: a path relative to the workspace, or a name on PATH."""
    if os.path.dirname(asked):  # noqa: PTH120 - as above
        found: str | None = os.path.abspath(os.path.join(folder, os.path.expanduser(asked)))  # noqa: PTH100, PTH111, PTH118
    else:
        found = find_program(asked, folder)
    if found is None or "\0" in found or not os.path.isfile(found):  # noqa: PTH113 - as above
        raise NoProgramError(f"`probe.python`: no program `{asked}`")
    return found
