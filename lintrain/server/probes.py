"""Probes that the user starts from the editor: `lintrain probe` in a process of its own, with progress and an end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from dataclasses import field, replace
from functools import partial

from lsprotocol import types as lsp

from lintrain.runtime.parent.kept_verdicts import NOT_KEPT
from lintrain.server.client import Client
from lintrain.server.client_settings import ProbeSettings
from lintrain.server.consent import Consent, NoProgramError
from lintrain.server.editor_session import EditorSession
from lintrain.server.measured import measured_findings
from lintrain.server.open_text import Document
from lintrain.server.publishing import Publisher
from lintrain.server.worker import Urgency
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text.shown import shown
from lintrain.verdicts.conclusion import CONFIRMED, NOTHING_CONFIRMED

PROGRESS_MARK = "probe: "
INTERRUPTED = 130
PATIENCE = 10.0
"""Seconds that a probe gets to end all that it started."""


@dataclass(eq=False)
class Probes:
    """The probes that are under way, one for each script at most."""

    session: EditorSession
    publisher: Publisher
    consent: Consent
    _running: dict[str, asyncio.subprocess.Process | None] = field(
        default_factory=dict[str, "asyncio.subprocess.Process | None"]
    )
    _tokens: dict[str, str] = field(default_factory=dict[str, str])

    def start(self, uri: str) -> None:
        """Probe a script; what stands in the way is told."""
        client, document = self.session.client, self.session.documents.find(uri)
        name = os.path.basename(document.path) if document else uri  # noqa: PTH119 - paths are strings here
        if document is None or not os.path.isfile(document.path):  # noqa: PTH113 - as above
            client.say(f"{name} is no file on the disk; a probe runs the file", lsp.MessageType.Warning)
        elif self.consent.is_trusted is False:
            client.say("a probe runs the script, and this workspace is not trusted", lsp.MessageType.Warning)
        elif document.path in self._running:
            client.say(f"{name} is being probed")
        elif not document.is_saved:
            client.say(f"{name} has unsaved changes; save it first, for a probe runs the file", lsp.MessageType.Warning)
        else:
            self._running[document.path] = None
            self.session.start(self._probe(document, name))

    async def _probe(self, document: Document, name: str) -> None:
        progress = Progress(self.session.client, f"lintrain probes {shown(name)}")
        try:
            if (python := await self._python(document)) is None:
                self.session.client.say(f"{name} is not probed: its Python was not agreed to")
                return
            await progress.begin()
            self._tokens[progress.token] = document.path
            await self._run(document, python, progress)
        except (OSError, ValueError, NoProgramError) as error:
            self.session.client.say(f"the probe could not be started: {error}", lsp.MessageType.Error)
        finally:
            self._running.pop(document.path, None)
            self._tokens.pop(progress.token, None)
            progress.end()

    async def _python(self, document: Document) -> str | None:
        asked = self.session.settings_for(document.path).probe.python
        return await self.consent.python_for(document.path, self._folder(document), asked or None)

    def _folder(self, document: Document) -> str:
        """The folder that a probe of a script is started in."""
        return self.session.folder_of(document.path) or os.path.dirname(document.path)  # noqa: PTH120 - as above

    async def _run(self, document: Document, python: str, progress: Progress) -> None:
        settings = self.session.settings_for(document.path)
        process = await asyncio.create_subprocess_exec(
            *command_of(document.path, replace(settings.probe, python=python), settings.configuration),
            cwd=self._folder(document),
            stdin=asyncio.subprocess.PIPE,  # nothing is written: it ends when this process does
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._running[document.path] = process
        said, output = await asyncio.gather(_follow(process, progress), _read(process))
        await self._conclude(document, await process.wait(), output, said)

    async def _conclude(self, document: Document, code: int, output: bytes, said: list[str]) -> None:
        """Tell what the probe came to, and show its verdicts."""
        client = self.session.client
        name = os.path.basename(document.path)  # noqa: PTH119 - as above
        try:
            report = json.loads(output)
        except ValueError:
            report = None
        if code in (INTERRUPTED, -signal.SIGTERM):
            client.say(f"the probe of {name} was cancelled")
        elif report is None:
            client.say(
                f"{name} could not be probed: {said[-1] if said else f'exit code {code}'}", lsp.MessageType.Error
            )
        else:
            read = partial(measured_findings, report, self._folder(document))
            self.session.measured.update(await self.session.worker.do(Urgency.NOW, read))
            self.publisher.all_changed()
            kind = {NOTHING_CONFIRMED: lsp.MessageType.Info, CONFIRMED: lsp.MessageType.Warning}
            client.say(f"{name}: {report['reason']}", kind.get(code, lsp.MessageType.Warning))
            client.warn_once(NOT_KEPT, next((line for line in said if line.startswith(NOT_KEPT)), ""))

    def cancel(self, token: object) -> None:
        """End the probe that a client cancels."""
        process = self._running.get(self._tokens.get(str(token), ""))
        if process is not None:
            _end(process)

    async def stop(self) -> None:
        """End all of them and wait, for the client is leaving."""
        processes = [process for process in self._running.values() if process is not None]
        for process in processes:
            _end(process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(process.wait() for process in processes))


def command_of(path: str, settings: ProbeSettings, configuration: str | None) -> list[str]:
    """What starts a probe of a script."""
    # With -P the folder of the script is not looked into for modules of lintrain's own name.
    command = [sys.executable, "-P", "-m", "lintrain", "probe", "--json", "--until-stdin-ends"]
    command += ["--python", settings.python] if settings.python else []
    command += ["--timeout", str(settings.timeout)] if settings.timeout else []
    command += ["--offline"] if settings.offline else []
    command += ["--also", ",".join(settings.also)] if settings.also else []
    command += ["--config", configuration] if configuration else []
    return [*command, path, *(["--", *settings.arguments] if settings.arguments else [])]


async def _follow(process: asyncio.subprocess.Process, progress: Progress) -> list[str]:
    """Show each step as it comes; gives the lines that were no step."""
    said: list[str] = []
    assert process.stderr is not None
    async for raw in process.stderr:
        line = raw.decode(errors="replace").strip()
        if line.startswith(PROGRESS_MARK):
            progress.report(line.removeprefix(PROGRESS_MARK))
        elif line:
            said.append(line.removeprefix("lintrain: "))
    return said


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.read()


def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)


@dataclass(eq=False)
class Progress:
    """Progress in the client's window, which may cancel it; nothing where the client shows none."""

    client: Client
    title: str
    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    is_shown: bool = False

    async def begin(self) -> None:
        """Ask for it, and start."""
        if not self.client.can("window.work_done_progress"):
            return
        try:
            await self.client.server.window_work_done_progress_create_async(
                lsp.WorkDoneProgressCreateParams(token=self.token)
            )
        except Exception:  # noqa: BLE001 - a client that refuses goes without
            return
        self.is_shown = True
        self._send(lsp.WorkDoneProgressBegin(title=self.title, cancellable=True))

    def report(self, message: str) -> None:
        """Show a step."""
        self._send(lsp.WorkDoneProgressReport(message=message, cancellable=True))

    def end(self) -> None:
        """Take it away."""
        self._send(lsp.WorkDoneProgressEnd())

    def _send(self, value: lsp.WorkDoneProgressBegin | lsp.WorkDoneProgressReport | lsp.WorkDoneProgressEnd) -> None:
        if self.is_shown:
            self.client.server.progress(lsp.ProgressParams(token=self.token, value=value))
