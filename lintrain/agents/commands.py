"""Commands of lintrain for an agent, each in its own process, and their reports as short answers."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from lintrain.agents.workspace import InWorkspace, Workspace
from lintrain.report.machine.agent import (
    CALLS,
    DATA,
    agent_report,
    bounded,
    clipped,
    finding_lines,
    next_lines,
)
from lintrain.report.machine.compact import expanded
from lintrain.report.machine.document import CheckReport, whys_of
from lintrain.report.machine.entries import digest
from lintrain.report.machine.wording import one_line
from lintrain.report.text.frame import count
from lintrain.rulebook import load_rules
from lintrain.source.reading import UnreadableError, read_file
from lintrain.source.source import Source
from lintrain.startup.lazy_dataclass import dataclass

CHECK_SECONDS = 120.0
PROBE_SECONDS = 300.0
MARGIN = 60.0
"""Seconds that a probe may take to start, to judge, and to end its processes after its own limit."""

LARGEST_OUTPUT = 20_000_000
PATIENCE = 10.0
MOST_DIFF_LINES = 60
LONGEST_LINE = 120
LONGEST_REMARK = 240


class CommandFailedError(RuntimeError):
    """A command that gave no report; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The exit code and the output of a command."""

    code: int
    out: str
    errors: str


async def check(workspace: Workspace, at: InWorkspace, select: str = "") -> str:
    """The findings of a file or folder."""
    words = ["check", "--output-format", "json", *_selection(select), "--", at.path]
    document = _document(await _run(at, words, CHECK_SECONDS))
    report = workspace.own_part(_report(document), at.folder)
    return agent_report(report, _sources(report, at.folder).get, CALLS)


async def fix(workspace: Workspace, at: InWorkspace, *, unsafe: bool, select: str = "") -> str:
    """What the fixes changed, and the findings that are left."""
    options = [*(["--unsafe-fixes"] if unsafe else []), *_selection(select)]
    shown = await _run(at, ["check", "--diff", *options, "--", at.path], CHECK_SECONDS)
    if shown.code not in (0, 1):
        raise CommandFailedError(_reason(shown))
    written = await _run(at, ["check", "--fix", "--output-format", "json", *options, "--", at.path], CHECK_SECONDS)
    document = _document(written)
    fixed = int(document["summary"].get("fixed", 0))
    report = workspace.own_part(_report(document), at.folder)
    lines = [
        f"lintrain: {count(fixed, 'finding')} fixed. {DATA}",
        *_diff(shown.out, lambda path: workspace.holds(path, at.folder)),
    ]
    lines += [f"remark| {bounded(line, LONGEST_REMARK)}" for line in written.errors.splitlines()[:5]]
    if not report.problems:
        return "\n".join([*lines, f"no findings are left; next: {CALLS.probe(at.path)}"]) + "\n"
    left = [f"{count(len(report.problems), 'finding')} left:", *finding_lines(report, _sources(report, at.folder).get)]
    return "\n".join([*lines, *left, *next_lines(report, CALLS)]) + "\n"


async def probe(at: InWorkspace, arguments: Sequence[str]) -> str:
    """What a run of the script up to its training call measured."""
    words = ["probe", "--quiet", "--output-format", "agent", "--with-calls", "--until-stdin-ends"]
    words += ["--timeout", str(PROBE_SECONDS), at.path, *(["--", *arguments] if arguments else [])]
    ended = await _run(at, words, PROBE_SECONDS + MARGIN)
    if not ended.out:
        raise CommandFailedError(_reason(ended))
    return ended.out


def _selection(select: str) -> list[str]:
    return ["--select", select] if select else []


def _document(ended: Ended) -> dict[str, Any]:  # Any: JSON
    try:
        document: dict[str, Any] = json.loads(ended.out)
    except ValueError as error:
        raise CommandFailedError(_reason(ended)) from error
    return document


def _report(document: dict[str, Any]) -> CheckReport:  # Any: JSON
    return TypeAdapter(CheckReport).validate_python(expanded(document, whys_of(load_rules())))


def _sources(report: CheckReport, folder: str) -> dict[str, Source]:
    """The files with findings, by their path in the report, as they were when it was made."""
    found: dict[str, Source] = {}
    for path, written in (report.sources or {}).items():
        with suppress(UnreadableError):
            source = read_file(str(Path(folder) / path))
            if digest(source) == written:
                found[path] = source
    return found


def _diff(text: str, is_own: Callable[[str], bool]) -> list[str]:
    """The lines of a diff that change something, quoted and cut; those of files elsewhere are left out."""
    changed: list[str] = []
    lines, at, shows = text.splitlines(), 0, False
    while at < len(lines):
        if lines[at][:4] == "--- " and "".join(lines[at + 1 : at + 2])[:4] == "+++ ":
            shows = is_own(lines[at][4:].partition(":cell ")[0])
            at += 2
            continue
        changed += [lines[at]] if shows and lines[at][:1] in ("+", "-") else []
        at += 1
    shown = [f"{line[0]}| {clipped(one_line(line[1:]), LONGEST_LINE)}" for line in changed[:MOST_DIFF_LINES]]
    left = len(changed) - len(shown)
    return [*shown, *([f"and {left} more lines"] if left else [])]


def _reason(ended: Ended) -> str:
    """Why a command gave no report: its last line of errors."""
    lines = [line for line in ended.errors.splitlines() if line.strip()]
    last = lines[-1].removeprefix("lintrain: ") if lines else f"it ended with exit code {ended.code}"
    return bounded(last, LONGEST_REMARK)


async def _run(at: InWorkspace, words: Sequence[str], seconds: float) -> Ended:
    """Run lintrain in the folder of the workspace; the process ends with this call, whichever way it ends."""
    # With -P, no module in the folder is imported instead of lintrain's own.
    command = [sys.executable, "-P", "-m", "lintrain", *words]
    piped = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *command, cwd=at.folder, stdin=piped, stdout=piped, stderr=piped, start_new_session=True
    )
    try:
        async with asyncio.timeout(seconds):
            out, errors = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            return Ended(await process.wait(), out, errors)
    except TimeoutError as error:
        raise CommandFailedError(f"it took more than {seconds:g} seconds") from error
    finally:
        await _end(process)


async def _read(stream: asyncio.StreamReader | None) -> str:
    """What a process writes, at most as much as an answer may be made of."""
    assert stream is not None
    parts, size = list[bytes](), 0
    while part := await stream.read(65_536):
        size += len(part)
        if size > LARGEST_OUTPUT:
            raise CommandFailedError("its report is too large; name fewer files")
        parts.append(part)
    return b"".join(parts).decode("utf-8", "replace")


async def _end(process: asyncio.subprocess.Process) -> None:
    """End a process that is still there: gently first, since a probe has processes of its own to end."""
    if process.returncode is not None:
        return
    for number, patience in ((signal.SIGTERM, PATIENCE), (signal.SIGKILL, PATIENCE)):
        with suppress(ProcessLookupError):
            process.send_signal(number)
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await process.wait()
                return
