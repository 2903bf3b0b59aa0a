"""The state of the server: folders, open documents, and the last result for each document, as diagnostics."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from lsprotocol import types as lsp

from lintrain.builtin import UNUSED_SUPPRESSION
from lintrain.check.result import Reported, Unjudged
from lintrain.model.finding import Related
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.report.text.pages import address_of
from lintrain.rulebook import find_rules, load_each
from lintrain.server.checking import (
    Checked,
    OutdatedError,
    Snapshot,
    Urgency,
    Worker,
    check,
    digest_of,
    find_cached,
    read_missing,
)
from lintrain.server.documents import OpenDocuments
from lintrain.server.open_text import Document, TextRange
from lintrain.server.positions import Units, lsp_range, uri_of
from lintrain.server.project import ClientSettings, Projects
from lintrain.server.protocol import Client
from lintrain.startup.lazy_dataclass import dataclass
from lintrain.text import shown

if TYPE_CHECKING:
    from lintrain.installed.environments import InstalledPackage


@dataclass(eq=False)
class EditorSession:
    """One connection; everything but the checks themselves happens on the loop."""

    client: Client
    worker: Worker = field(default_factory=Worker)
    projects: Projects = field(default_factory=Projects)
    documents: OpenDocuments = field(default_factory=OpenDocuments)
    folders: dict[str, str] = field(default_factory=dict[str, str])
    """The URIs of the workspace's folders, by path."""
    settings: dict[str, ClientSettings] = field(default_factory=dict[str, ClientSettings])
    """The user's settings for a folder; under "" for all."""
    measured: dict[str, tuple[str, list[Reported]]] = field(default_factory=dict[str, tuple[str, list[Reported]]])
    """Findings of probes by file, with the digest of the probed text."""
    turns: dict[str, int] = field(default_factory=dict[str, int])
    """How often each open document or one of its dependencies has changed."""
    answers: dict[str, tuple[int, Checked]] = field(default_factory=dict[str, tuple[int, Checked]])
    on_outdated: Callable[[Document], None] = field(default=lambda _: None)
    """Is called when a result is to be made again: packages were read meanwhile, or it was a cached one."""
    _cached: dict[str, bytes] = field(default_factory=dict[str, bytes])
    """The text of each open document whose result was cached last: the next check of the same text caches nothing."""
    _asked: set[tuple[InstalledPackage, str]] = field(default_factory=set["tuple[InstalledPackage, str]"])
    _loads_rules: bool = False
    _running: dict[str, tuple[int, asyncio.Task[Checked]]] = field(
        default_factory=dict[str, "tuple[int, asyncio.Task[Checked]]"]
    )
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set["asyncio.Task[Any]"])

    @property
    def home(self) -> str:
        """The folder of documents without a file."""
        return next(iter(self.folders), os.getcwd())  # noqa: PTH109 - paths are strings here

    @property
    def viewer(self) -> Viewer:
        """How the client shows findings."""
        shows = self.client.can("text_document.publish_diagnostics.related_information")
        pulls = self.client.can("text_document.diagnostic.related_information")
        return Viewer(self.documents, self.client.units, shows or pulls)

    def folder_of(self, path: str) -> str | None:
        """The innermost workspace folder of a file."""
        around = [folder for folder in self.folders if path.startswith(folder.rstrip(os.sep) + os.sep)]
        return max(around, key=len, default=None)

    def settings_for(self, path: str) -> ClientSettings:
        """The user's settings for a file."""
        general = self.settings.get("") or ClientSettings()
        return self.settings.get(self.folder_of(path) or "", general)

    def turn(self, document: Document) -> int:
        """Mark the result of a document as outdated, because one of its dependencies changed."""
        self.turns[document.uri] = self.turns.get(document.uri, 0) + 1
        return self.turns[document.uri]

    def dependents(self, path: str) -> list[Document]:
        """The other open documents whose results depend on a file."""
        return [
            document
            for document in self.documents.all()
            if document.path != path and (answer := self.answers.get(document.uri)) and path in answer[1].dependencies
        ]

    def forget(self, document: Document) -> None:
        """A document was closed."""
        self.turns.pop(document.uri, None)
        self.answers.pop(document.uri, None)
        self._cached.pop(document.uri, None)
        self._running.pop(document.uri, None)

    def snapshot(self, document: Document, turn: int | None = None) -> Snapshot:
        """Everything that a check of a document depends on, as it is now; with a turn, until the next."""
        in_force = self.projects.of(document.path, self.settings_for(document.path))
        given = {each.path: each.raw for each in self.documents.all()}
        if turn is None:
            return Snapshot(document.path, given, in_force)
        is_new = self._cached.get(document.uri) != document.raw
        is_saved = is_new and all(each.disk.holds(each.raw) for each in self.documents.all())
        return Snapshot(document.path, given, in_force, lambda: self.turns.get(document.uri) != turn, is_saved)

    async def checked(self, document: Document, urgency: Urgency = Urgency.NOW) -> Checked | None:
        """The answer about a document as it is when the answer comes; None where it was closed before."""
        while (turn := self.turns.get(document.uri)) is not None:
            if (answer := self.answers.get(document.uri)) and answer[0] == turn:
                return answer[1]
            running = self._running.get(document.uri)
            if running is None or running[0] != turn:
                running = turn, self.start(self._check(document, turn, urgency))
                self._running[document.uri] = running
            try:
                await asyncio.shield(running[1])
            except OutdatedError:
                continue
        return None

    async def _check(self, document: Document, turn: int, urgency: Urgency) -> Checked:
        snapshot = self.snapshot(document, turn)
        digest, findings = self.measured.get(document.path, ("", []))
        mine = findings if digest and digest == digest_of(snapshot.raw) else []
        try:
            if document.uri not in self.answers:
                find = partial(find_cached, snapshot, self.projects, mine)
                if cached := await self.worker.do(urgency, find):
                    return self._show_cached(document, turn, cached)
            checked = await self.worker.do(urgency, partial(check, snapshot, self.projects, mine))
        finally:
            if (running := self._running.get(document.uri)) and running[0] == turn:
                del self._running[document.uri]
        if self.turns.get(document.uri) == turn:
            self.answers[document.uri] = turn, replace(checked, keep=None)
            if checked.keep:
                self._cached[document.uri] = snapshot.raw
                self.start(self.worker.do(Urgency.LATER, checked.keep))
            self._show_problems(checked)
            self._read_packages(document, checked)
            self._load_other_rules()
        return checked

    def _show_cached(self, document: Document, turn: int, cached: Checked) -> Checked:
        """Show what was cached at once, and then check: the next edit goes on from what a check has read."""
        if self.turns.get(document.uri) == turn:
            self.answers[document.uri] = turn, cached
            self._show_problems(cached)
            asyncio.get_running_loop().call_later(SHOWN, self._check_again, document, turn)
        return cached

    def _check_again(self, document: Document, turn: int) -> None:
        if self.turns.get(document.uri) == turn:
            self.on_outdated(document)

    def _load_other_rules(self) -> None:
        """Load the rules that the first document did not need: the next edit may, and a hover shows any page."""
        if not self._loads_rules:
            self._loads_rules = True
            self.start(self._load_rules())

    async def _load_rules(self) -> None:
        waiting = [rule for rule in find_rules() if not rule.is_loaded]
        for begin in range(0, len(waiting), RULES_A_JOB):
            await self.worker.do(Urgency.LATER, partial(load_each, waiting[begin : begin + RULES_A_JOB]))

    def _read_packages(self, document: Document, checked: Checked) -> None:
        """Read the packages that a check did not wait for, each name once, whatever becomes of it."""
        missing = {
            package: [name for name in names if (package, name) not in self._asked]
            for package, names in checked.missing.items()
        }
        self._asked.update((package, name) for package, names in missing.items() for name in names)
        if any(missing.values()):
            self.start(self._read_and_check_again(document, missing))

    async def _read_and_check_again(self, document: Document, missing: dict[InstalledPackage, list[str]]) -> None:
        await asyncio.to_thread(read_missing, missing)
        if self.documents.find(document.uri) is document:
            self.on_outdated(document)

    def _show_problems(self, checked: Checked) -> None:
        folder = self.folder_of(checked.path) or os.path.dirname(checked.path)  # noqa: PTH120 - as above
        self.client.warn_once(f"configuration of {folder}", checked.problem)
        for crash in checked.file.crashes:
            if f"crash of {crash.rule}" not in self.client.shown:
                self.client.warn_once(f"crash of {crash.rule}", crash.message)
        for note in checked.outcome.notes:
            if note not in self.client.shown:
                self.client.shown[note] = note
                self.client.log(f"lintrain: {note}")

    def about(self, path: str) -> Iterator[tuple[Checked, Sequence[Reported]]]:
        """The findings in a file: of its own document first, then of documents that import it."""
        document = self.documents.at(path)
        if document and document.uri in self.answers:
            checked = self.answers[document.uri][1]
            yield checked, checked.file.reported
        for _, checked in self.answers.values():
            if checked.path != path and path in checked.elsewhere:
                yield checked, checked.elsewhere[path].reported

    def start(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:  # Any: whatever the work gives
        """Run work as a task; a failure is raised where the task is awaited."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end)
        return task

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio prints nothing


SHOWN = 0.1
"""Seconds in which a cached result reaches the client; then the document is checked."""

RULES_A_JOB = 16
"""Rules that are loaded at once, so that an edit meanwhile waits some ten milliseconds."""

SOURCE = "lintrain"
NOT_JUDGED = "not-judged"

SEVERITIES: Mapping[Level, lsp.DiagnosticSeverity] = {
    Level.ERROR: lsp.DiagnosticSeverity.Error,
    Level.WARNING: lsp.DiagnosticSeverity.Warning,
    Level.NOTE: lsp.DiagnosticSeverity.Information,
}


@dataclass(frozen=True, slots=True)
class Viewer:
    """How a client shows findings: its open documents, its column units, and whether it shows related locations."""

    documents: OpenDocuments
    units: Units
    shows_related: bool

    def locate(self, checked: Checked, location: Location) -> TextRange | None:
        """A location in the client's units; None if the source is not available."""
        source = checked.source_of(location.path)
        if document := self.documents.at(location.path):
            return document.locate(source, location, self.units)
        if source is None:
            return None
        in_file = source.location_in_file(location)
        lines = source.file_text.split("\n")
        ends = (in_file.line, in_file.column), (in_file.end_line, in_file.end_column)
        return TextRange(uri_of(location.path), lsp_range(lines, *ends, self.units))

    def diagnostics(self, checked: Checked, reported: Iterator[Reported]) -> Iterator[tuple[str, lsp.Diagnostic]]:
        """Each finding as a diagnostic, with the URI of its text."""
        for one in reported:
            at = self.locate(checked, one.finding.location)
            if at is not None:
                yield at.uri, self._diagnostic(checked, one, at.range)

    def not_judged(self, checked: Checked) -> Iterator[tuple[str, lsp.Diagnostic]]:
        """Diagnostics about files that were not checked completely, because their budget was used up."""
        for path, line in Unjudged.grouped(checked.outcome.unjudged):
            at = self.locate(checked, Location(path, 1, 1, 1, 2))
            where = at.range if at else lsp_range([""], (1, 1), (1, 1), self.units)
            level = lsp.DiagnosticSeverity.Information
            yield (
                at.uri if at else uri_of(path),
                lsp.Diagnostic(range=where, message=shown(line), severity=level, code=NOT_JUDGED, source=SOURCE),
            )

    def _diagnostic(self, checked: Checked, one: Reported, where: lsp.Range) -> lsp.Diagnostic:
        finding = one.finding
        related = [each for why in finding.related if (each := self._related(checked, why))]
        is_unused = finding.rule == UNUSED_SUPPRESSION.name
        address = address_of(finding.rule, checked.documentation)
        return lsp.Diagnostic(
            range=where,
            message="\n".join(message_lines(one)),
            severity=severity_of(one),
            code=finding.rule,
            code_description=lsp.CodeDescription(href=address) if address else None,
            source=SOURCE,
            tags=[lsp.DiagnosticTag.Unnecessary] if is_unused else None,
            related_information=related if related and self.shows_related else None,
        )

    def _related(self, checked: Checked, reason: Related) -> lsp.DiagnosticRelatedInformation | None:
        at = self.locate(checked, reason.location)
        if at is None or not reason.note:
            return None
        return lsp.DiagnosticRelatedInformation(location=lsp.Location(uri=at.uri, range=at.range), message=reason.note)


def severity_of(one: Reported) -> lsp.DiagnosticSeverity:
    """The severity of a finding; a refuted one is a hint."""
    if one.verdict and one.verdict.outcome is Outcome.REFUTED:
        return lsp.DiagnosticSeverity.Hint
    return SEVERITIES[one.finding.level]


def message_lines(one: Reported) -> Iterator[str]:
    """The message, the verdict of a probe, and the fix."""
    yield one.finding.message
    if one.verdict:
        yield f"{one.verdict.outcome.value} by a probe: {one.verdict.reason}"
    if one.finding.help:
        yield f"help: {one.finding.help}"
