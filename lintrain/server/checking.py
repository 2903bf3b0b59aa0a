"""The check of one open document on a snapshot of everything it depends on, in a worker thread that takes the most
urgent job first, so that the event loop stays responsive.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from enum import IntEnum
from pathlib import Path
from queue import Empty, PriorityQueue
from typing import TYPE_CHECKING, TypeVar

from lintrain.cache.folder import store_folder
from lintrain.cache.noted import noted_files
from lintrain.check.check_run import CheckRun
from lintrain.check.packages import Packages
from lintrain.check.result import CheckResult, Crash, FileOutcome, Reported
from lintrain.check.selection import CheckRequest
from lintrain.server.project import EffectiveConfiguration, Projects
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from lintrain.installed.environments import InstalledPackage


class OutdatedError(BaseException):
    """The document has changed, so the result is not needed. Not an Exception, which would be reported as a crash."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a check depends on: the document's file, and the bytes of everything that is open."""

    path: str
    given: Mapping[str, bytes]
    in_force: EffectiveConfiguration
    is_outdated: Callable[[], bool] = field(default=lambda: False)
    is_saved: bool = False
    """Whether the disk seems to hold the same, so that the result may be cached."""

    @property
    def raw(self) -> bytes:
        """The document's own bytes."""
        return self.given[self.path]

    def check_cancelled(self) -> None:
        """Raise OutdatedError if the document has changed."""
        if self.is_outdated():
            raise OutdatedError


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found in the document and in other files (by absolute path).

    `dependencies` are the files that the result depends on, `problem` is an error of the configuration, `documentation`
    is the address of the documentation site, `missing` the names of installed packages that are still to be read.
    `keep` caches the result for the next time that the document is opened.
    """

    path: str
    raw: bytes
    outcome: CheckResult
    elsewhere: Mapping[str, FileOutcome] = field(default_factory=dict[str, FileOutcome])
    dependencies: frozenset[str] = frozenset()
    problem: str = ""
    documentation: str | None = None
    missing: Mapping[InstalledPackage, list[str]] = field(default_factory=dict["InstalledPackage", list[str]])
    keep: Callable[[], None] | None = None

    @property
    def file(self) -> FileOutcome:
        """What was found in the document."""
        mine = (file for file in self.outcome.files if file.path == self.path)
        return next(mine, FileOutcome(self.path, None))

    def source_of(self, path: str) -> Source | None:
        """The source of a file with findings."""
        return self.outcome.sources.get(path)


def request_of(snapshot: Snapshot, projects: Projects, packages: Packages | None = None) -> CheckRequest:
    """The request for a check of the document."""
    in_force = snapshot.in_force
    return CheckRequest(
        [snapshot.path],
        in_force.rules,
        in_force.selection,
        lambda folder: projects.targets(Path(folder), in_force),
        snapshot.given,
        in_force.excludes.leave_out_within,
        shows_verdicts=True,
        baseline=in_force.baseline,
        check_cancelled=snapshot.check_cancelled,
        store=projects.store_of(in_force) if snapshot.is_saved else None,
        packages=packages or packages_of_check(),
    )


def find_cached(snapshot: Snapshot, projects: Projects, measured: Sequence[Reported] = ()) -> Checked | None:
    """What a document showed when it was last checked, if nothing that this depends on has changed since then.

    Nothing is read for it, so it comes in a fraction of the time of a check, which must follow.
    """
    if not snapshot.is_saved or snapshot.in_force.excludes.leave_out_within(snapshot.path):
        return None
    try:
        outcome = CheckRun(replace(request_of(snapshot, projects), given={})).find()
    except Exception:  # noqa: BLE001 - the check that follows tells it
        outcome = None
    if outcome is None:
        return None
    return _checked(snapshot, _with_measured(outcome, snapshot.path, measured))


def packages_of_check() -> Packages:
    """What is cached about installed packages: new for each check, which waits for none, and sees other versions."""
    return Packages(store_folder("packages"), waits=False)


def read_missing(missing: Mapping[InstalledPackage, list[str]]) -> None:
    """Read the packages that a check did not wait for, and cache what they contain."""
    from lintrain.installed.packages import PackageReader

    PackageReader(store_folder("packages")).fill(missing)


def check(snapshot: Snapshot, projects: Projects, measured: Sequence[Reported] = ()) -> Checked:
    """Check a document; `measured` are findings of a probe of the same text. Raises OutdatedError."""
    snapshot.check_cancelled()
    if snapshot.in_force.excludes.leave_out_within(snapshot.path):
        return Checked(snapshot.path, snapshot.raw, CheckResult(()), problem=snapshot.in_force.problem)
    packages = packages_of_check()
    with noted_files() as noted:
        outcome, keep = _outcome(snapshot, projects, packages)
    for file in outcome.files:
        if file.source is not None and file.path == snapshot.path:
            file.source.forget_tree()  # the result is kept as long as the document is open
    checked = _checked(snapshot, _with_measured(outcome, snapshot.path, measured), frozenset(noted))
    # What was read without a package is not what the next check would show.
    return replace(checked, missing=packages.missing, keep=None if packages.missing else keep)


def _checked(snapshot: Snapshot, outcome: CheckResult, dependencies: frozenset[str] = frozenset()) -> Checked:
    elsewhere = {os.path.abspath(file.path): file for file in outcome.files if file.path != snapshot.path}  # noqa: PTH100
    given = snapshot.in_force
    return Checked(snapshot.path, snapshot.raw, outcome, elsewhere, dependencies, given.problem, given.documentation)


def _outcome(
    snapshot: Snapshot, projects: Projects, packages: Packages
) -> tuple[CheckResult, Callable[[], None] | None]:
    """The result, and what caches it; None where that cannot be."""
    try:
        with projects.trees.serving(snapshot.path):
            run = CheckRun(request_of(snapshot, projects, packages))
            return run.check(), run.keep if snapshot.is_saved else None
    except Exception as error:  # noqa: BLE001 - a crash is reported, and the server keeps running
        crash = Crash(snapshot.path, "lintrain", f"{type(error).__name__}: {error}")
        return CheckResult((FileOutcome(snapshot.path, None, crashes=(crash,)),)), None


def _with_measured(outcome: CheckResult, path: str, measured: Sequence[Reported]) -> CheckResult:
    """The outcome with the findings of a probe."""
    if not measured:
        return outcome
    files = [
        replace(file, reported=(*file.reported, *_missing_from(measured, file))) if file.path == path else file
        for file in outcome.files
    ]
    return replace(outcome, files=tuple(files))


def _missing_from(measured: Sequence[Reported], file: FileOutcome) -> list[Reported]:
    shown = {(one.finding.rule, one.finding.location, one.finding.message) for one in file.reported}
    return [one for one in measured if (one.finding.rule, one.finding.location, one.finding.message) not in shown]


def digest_of(raw: bytes) -> str:
    """A digest that identifies a text."""
    return hashlib.sha256(raw).hexdigest()


Answer = TypeVar("Answer")


class Urgency(IntEnum):
    """The order of jobs: requests and edits, then opened documents, then documents that depend on an edit."""

    NOW = 0
    SOON = 1
    LATER = 2


BREATH = 0.005
"""Idle seconds before garbage is collected: results of checks contain large reference cycles."""

MOST_LEFT = 10
"""Jobs in a row before garbage is collected, which takes about ten milliseconds per job."""


@dataclass(order=True, slots=True)
class _Job:
    urgency: int
    number: int
    work: Callable[[], None] = field(compare=False)


@dataclass(eq=False)
class Worker:
    """The worker thread; there is one, since checks share caches that are not thread-safe."""

    _jobs: PriorityQueue[_Job] = field(default_factory=PriorityQueue["_Job"])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _thread: threading.Thread | None = None
    _modules: int = 0
    """How many were imported when what they hold was last taken out of collections."""

    async def do(self, urgency: Urgency, work: Callable[[], Answer]) -> Answer:
        """Run a job and return its result; a cancelled job is not started."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Answer] = loop.create_future()

        def run() -> None:
            if answer.cancelled():
                return
            try:
                value = work()
            except BaseException as error:  # noqa: BLE001 - raised again where the answer is awaited
                _set_result(loop, answer, None, error)
            else:
                _set_result(loop, answer, value, None)

        self._jobs.put(_Job(urgency, next(self._numbers), run))
        self._start()
        return await answer

    def _start(self) -> None:
        if self._thread is None:
            # A daemon, so that the exit does not wait for the job.
            self._thread = threading.Thread(target=self._work, name="lintrain-check", daemon=True)
            self._thread.start()

    def _work(self) -> None:
        left = 0
        while True:
            try:
                job = self._jobs.get(timeout=BREATH if left else None) if left < MOST_LEFT else None
            except Empty:
                job = None
            if job is None:
                self._collect()
                left = 0
            else:
                job.work()
                left += 1

    def _collect(self) -> None:
        gc.collect()
        if len(sys.modules) > self._modules:
            gc.freeze()  # the rules and tables that jobs loaded stay, so later collections skip them
            self._modules = len(sys.modules)


def _set_result(
    loop: asyncio.AbstractEventLoop,
    answer: asyncio.Future[Answer],
    value: Answer | None,
    error: BaseException | None,
) -> None:
    def settle() -> None:
        if answer.cancelled():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(value)  # type: ignore[arg-type] # the work's answer, which may be None itself

    if not loop.is_closed():
        loop.call_soon_threadsafe(settle)
