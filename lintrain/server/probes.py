"""Probes started from the editor: `lintrain probe` in its own process, with progress and cancellation.

The findings and verdicts in a probe's report, by file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import uuid
from collections.abc import Mapping
from dataclasses import field, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from lintrain.cache.folder import is_ours, store_folder
from lintrain.cache.whole_files import make_folder
from lintrain.check.result import Reported
from lintrain.model.finding import Finding, Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome, Verdict
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.kept_verdicts import NOT_KEPT
from lintrain.server.checking import Urgency, digest_of
from lintrain.server.configuration import Consent, NoProgramError
from lintrain.server.editor_session import EditorSession
from lintrain.server.open_text import Document
from lintrain.server.positions import uri_of
from lintrain.server.project import ProbeSettings
from lintrain.server.protocol import Client, without_links
from lintrain.server.publishing import Publisher
from lintrain.source.reading import UnreadableError, load_bytes, read_bytes
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import shown

if TYPE_CHECKING:
    from lintrain.rule import Rule

PROGRESS_MARK = "probe: "
INTERRUPTED = 130
PATIENCE = 10.0
"""Seconds for a probe to end all its processes."""

SHOW = "Show the Report"


@dataclass(eq=False)
class Probes:
    """The running probes, at most one per script."""

    session: EditorSession
    publisher: Publisher
    consent: Consent
    _running: dict[str, asyncio.subprocess.Process | None] = field(
        default_factory=dict[str, "asyncio.subprocess.Process | None"]
    )
    _tokens: dict[str, str] = field(default_factory=dict[str, str])
    _reports: dict[str, str] = field(default_factory=dict[str, str])
    """The page of the last probe of each script; they go with the server."""

    def start(self, uri: str) -> None:
        """Probe a script, or show why that is not possible."""
        client, document = self.session.client, self.session.documents.find(uri)
        name = os.path.basename(document.path) if document else uri  # noqa: PTH119 - paths are strings here
        if find_spec("pydantic") is None:
            client.say(
                f"a probe needs pydantic, which {sys.executable} does not have; install it there, or let the editor "
                "start a lintrain that is installed in your environment",
                lsp.MessageType.Warning,
            )
        elif document is None or not os.path.isfile(document.path):  # noqa: PTH113 - as above
            client.say(f"{name} is not saved as a file; a probe runs the file", lsp.MessageType.Warning)
        elif self.consent.is_trusted is False:
            client.say("a probe runs the script, and this workspace is not trusted", lsp.MessageType.Warning)
        elif document.path in self._running:
            client.say(f"{name} is being probed")
        elif not document.is_saved:
            client.say(
                f"{name} has unsaved changes; save it first, since a probe runs the file", lsp.MessageType.Warning
            )
        else:
            self._running[document.path] = None
            self.session.start(self._probe(document, name))

    async def _probe(self, document: Document, name: str) -> None:
        progress = Progress(self.session.client, f"probing {shown(name)}")
        try:
            if (python := await self._python(document)) is None:
                self.session.client.say(f"{name} is not probed: its Python was declined")
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
        page = new_page()
        process = await asyncio.create_subprocess_exec(
            *command_of(document.path, replace(settings.probe, python=python), settings.configuration, page),
            cwd=self._folder(document),
            stdin=asyncio.subprocess.PIPE,  # nothing is written: closing it ends the probe together with this process
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
        self._running[document.path] = process
        lines, output = await asyncio.gather(_follow(process, progress), _read(process))
        code = await process.wait()
        if os.path.isfile(page):  # noqa: PTH113 - as above
            _remove(self._reports.pop(document.path, ""))
            self._reports[document.path] = page
        await self._conclude(document, code, output, lines)

    def show_report(self, uri: str) -> None:
        """Show the report of the last probe of a script."""
        client, document = self.session.client, self.session.documents.find(uri)
        page = self._reports.get(document.path) if document else None
        if page is None:
            name = os.path.basename(document.path if document else uri)  # noqa: PTH119 - as above
            client.say(f"{name} has not been probed here since the server started")
        elif not client.can("window.show_document.support"):
            client.say(f"the report is {page}")
        else:
            # External: an editor shows the code of a page, and a browser what it looks like.
            client.server.window_show_document(lsp.ShowDocumentParams(uri=uri_of(page), external=True, take_focus=True))

    async def _offer_report(self, uri: str, text: str, kind: lsp.MessageType) -> None:
        """Say what a probe has come to, and show its report if the user asks for it."""
        params = lsp.ShowMessageRequestParams(
            type=kind, message=f"lintrain: {without_links(text)}", actions=[lsp.MessageActionItem(title=SHOW)]
        )
        try:
            answer = await self.session.client.server.window_show_message_request_async(params)
        except Exception:  # noqa: BLE001 - a client that cannot ask has shown nothing yet
            self.session.client.say(text, kind)
            return
        if getattr(answer, "title", None) == SHOW:
            self.show_report(uri)

    async def _conclude(self, document: Document, code: int, output: bytes, lines: list[str]) -> None:
        """Show the conclusion of the probe, and its verdicts."""
        from lintrain.verdicts.conclusion import CONFIRMED, NOTHING_CONFIRMED  # a server that starts has no verdicts

        client = self.session.client
        name = os.path.basename(document.path)  # noqa: PTH119 - as above
        try:
            report = json.loads(output)
        except ValueError:
            report = None
        if code in (INTERRUPTED, -signal.SIGTERM):
            client.say(f"the probe of {name} was cancelled")
        elif report is None:
            client.say(f"probing {name} failed: {lines[-1] if lines else f'exit code {code}'}", lsp.MessageType.Error)
        else:
            read = partial(measured_findings, report, self._folder(document))
            self.session.measured.update(await self.session.worker.do(Urgency.NOW, read))
            self.publisher.all_changed()
            kind = {NOTHING_CONFIRMED: lsp.MessageType.Info, CONFIRMED: lsp.MessageType.Warning}
            conclusion = f"{name}: {report['reason']}", kind.get(code, lsp.MessageType.Warning)
            if document.path in self._reports and client.can("window.show_document.support"):
                self.session.start(self._offer_report(document.uri, *conclusion))
            else:
                client.say(*conclusion)
            client.warn_once(NOT_KEPT, next((line for line in lines if line.startswith(NOT_KEPT)), ""))

    def cancel(self, token: object) -> None:
        """End a probe that the client cancels."""
        process = self._running.get(self._tokens.get(str(token), ""))
        if process is not None:
            _end(process)

    async def stop(self) -> None:
        """End all probes and wait, and remove their reports, since the client disconnects."""
        for page in self._reports.values():
            _remove(page)
        processes = [process for process in self._running.values() if process is not None]
        for process in processes:
            _end(process)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*(process.wait() for process in processes))


def new_page() -> str:
    """Where a probe writes its report for people: in the user's own cache folder; empty where there is no room."""
    folder = store_folder("pages")
    try:
        make_folder(folder)
    except OSError:
        return ""
    return os.path.join(folder, f"probe-{uuid.uuid4().hex}.html") if is_ours(folder) else ""  # noqa: PTH118 - as above


def _remove(page: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(page)  # noqa: PTH108 - as above


def command_of(path: str, settings: ProbeSettings, configuration: str | None, page: str) -> list[str]:
    """The command that probes a script and writes the page of its report."""
    # With -P, no module in the folder of the script is imported instead of lintrain's.
    command = [sys.executable, "-P", "-m", "lintrain", "probe", "--json", "--until-stdin-ends"]
    command += ["--html", page] if page else []
    command += ["--python", settings.python] if settings.python else []
    command += ["--timeout", str(settings.timeout)] if settings.timeout else []
    command += ["--offline"] if settings.offline else []
    command += ["--also", ",".join(settings.also)] if settings.also else []
    command += ["--config", configuration] if configuration else []
    return [*command, path, *(["--", *settings.arguments] if settings.arguments else [])]


async def _follow(process: asyncio.subprocess.Process, progress: Progress) -> list[str]:
    """Show the progress; returns the other lines of stderr."""
    lines: list[str] = []
    assert process.stderr is not None
    async for raw in process.stderr:
        line = raw.decode(errors="replace").strip()
        if line.startswith(PROGRESS_MARK):
            progress.report(line.removeprefix(PROGRESS_MARK))
        elif line:
            lines.append(line.removeprefix("lintrain: "))
    return lines


async def _read(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.read()


def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)


@dataclass(eq=False)
class Progress:
    """Progress in the client, which may cancel it; nothing if the client does not support it."""

    client: Client
    title: str
    token: str = field(default_factory=lambda: str(uuid.uuid4()))
    is_shown: bool = False

    async def begin(self) -> None:
        """Request and start it."""
        if not self.client.can("window.work_done_progress"):
            return
        try:
            await self.client.server.window_work_done_progress_create_async(
                lsp.WorkDoneProgressCreateParams(token=self.token)
            )
        except Exception:  # noqa: BLE001 - a client that refuses gets no progress
            return
        self.is_shown = True
        self._send(lsp.WorkDoneProgressBegin(title=self.title, cancellable=True))

    def report(self, message: str) -> None:
        """Show a step."""
        self._send(lsp.WorkDoneProgressReport(message=message, cancellable=True))

    def end(self) -> None:
        """Remove it."""
        self._send(lsp.WorkDoneProgressEnd())

    def _send(self, value: lsp.WorkDoneProgressBegin | lsp.WorkDoneProgressReport | lsp.WorkDoneProgressEnd) -> None:
        if self.is_shown:
            self.client.server.progress(lsp.ProgressParams(token=self.token, value=value))


Json = Mapping[str, Any]  # Any: JSON


def measured_findings(report: Json, folder: str) -> dict[str, tuple[str, list[Reported]]]:
    """The findings of a report by file, with the digest of the text that was probed.

    Paths are relative to the folder that the probe was started in. Findings of the static check are included.
    """
    from lintrain.report.machine.compact import expanded_finding
    from lintrain.report.machine.document import whys_of

    found: dict[str, list[Json]] = {}
    files = load_rules()
    whys = whys_of(files)
    for one in (expanded_finding(each, whys) for each in report["findings"]):
        path = os.path.normpath(os.path.join(folder, one["location"]["path"]))  # noqa: PTH118 - paths are strings here
        found.setdefault(path, []).append(one)
    rules = {rule.name: rule.rule for rule in files}
    return {path: each for path, entries in found.items() if (each := _of_file(path, entries, rules))}


def _of_file(path: str, entries: list[Json], rules: Mapping[str, Rule]) -> tuple[str, list[Reported]] | None:
    try:
        raw = load_bytes(path)
        source = read_bytes(path, raw)
    except UnreadableError:
        return None
    return digest_of(raw), [_reported(source, one, rules) for one in entries]


def _reported(source: Source, one: Json, rules: Mapping[str, Rule]) -> Reported:
    from lintrain.verdicts.judgement import probed_fix  # as above

    finding = Finding(
        one["rule"],
        Level(one["level"]),
        _location(source, one["location"]),
        one["message"],
        one["why"],
        one["help"],
        tuple(_reason(source, each) for each in one["related"] if each["location"]["path"] == one["location"]["path"]),
        claim=one["claim"],
    )
    given = one["verdict"]
    verdict = Verdict(Outcome(given["outcome"]), given["reason"], given["measured"]) if given else None
    rule = rules.get(finding.rule) if verdict and verdict.outcome is Outcome.CONFIRMED else None
    return Reported(finding, probed_fix(rule, finding, source) if rule else None, verdict, is_measured=True)


def _reason(source: Source, each: Json) -> Related:
    return Related(_location(source, each["location"]), each["note"], each["role"])


def _location(source: Source, at: Json) -> Location:
    """The location in the source; lines of a notebook count in the joined cells."""
    cells = source.notebook.cells if source.notebook else ()
    above = next((cell.first_line - 1 for cell in cells if cell.number == at["cell"]), 0)
    line, end_line = above + at["line"], above + at["end_line"]
    return Location(source.path, line, at["column"], end_line, at["end_column"])
