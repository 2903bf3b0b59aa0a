"""One input given to lintrain, and everything that did not come out as it should."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import lintrain
from benchmarks.accuracy.checking import installed_versions
from lintrain.builtin import SYNTAX_ERROR, UNREADABLE_FILE
from lintrain.check.check_run import CheckRun
from lintrain.check.fixing import TextEdits, fix_files
from lintrain.check.ignoring import ignore_findings
from lintrain.check.one_file import parse_problem
from lintrain.check.result import CheckResult, FileOutcome
from lintrain.check.selection import CheckRequest, Choice, Selection, choose, known_names
from lintrain.check.tiers import rules_concerned
from lintrain.knowledge.versions import TargetVersions
from lintrain.model.location import Location
from lintrain.report.machine.choice import program_text
from lintrain.report.machine.document import CheckReport
from lintrain.report.machine.entries import check_report
from lintrain.report.text.findings import people_blocks
from lintrain.report.text.style import Style
from lintrain.rulebook import RuleFile, load_rules
from lintrain.server.positions import Units, changed, line_edits
from lintrain.settings.settings import FOR_PEOPLE, FORMATS
from lintrain.source.newer_grammar import NewerGrammarError
from lintrain.source.reading import UnreadableError, read_bytes
from lintrain.source.source import Source
from tests.fuzz.inputs import Input

BUDGET_SECONDS = 5.0
"""CPU time of one input, with its fixes and reports; of more than a hundred lines for every hundred."""

TURNS = 12
REPORTED, COMMENTED, MENDED = (0, 4), 1, (2, 6, 10)
"""Of twelve inputs with findings, those that are also written as a report, silenced by comments, and mended: each of it
takes longer than the reading."""

LINTRAIN = str(Path(lintrain.__file__).parent)

REFUSALS = {SYNTAX_ERROR.name, UNREADABLE_FILE.name}


class OverBudgetError(BaseException):
    """An input took longer than its budget; no `except Exception` may stop it."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one input: what rules said of it, why it was refused, how much of it was mended, and the faults."""

    rules: frozenset[str] = frozenset()
    refusal: str = ""
    was_read: bool = False
    is_exhausted: bool = False
    mended: int = 0
    unwritable: int = 0
    seconds: float = 0.0
    faults: tuple[str, ...] = ()


@cache
def rules() -> Sequence[RuleFile]:
    """Every rule that reads text."""
    return [rule for rule in load_rules() if rule.reads_text]


@cache
def selection(*, with_names: bool) -> Selection:
    """All rules; undefined names only where they are wanted, for ruff is a process of its own."""
    known = known_names(rules())
    left_out = [] if with_names else ["undefined-name"]
    return choose(known, Choice("fuzz", os.sep, [*known]), Choice("fuzz", os.sep, ignore=left_out))


def request_of(given: Input, *, with_names: bool) -> CheckRequest:
    """The check of an input that lies on no disk."""
    path = str(Path("/nowhere") / given.name)
    targets = installed_versions()
    return CheckRequest([path], rules(), selection(with_names=with_names), lambda _: targets, {path: given.raw})


def budget_of(given: Input) -> float:
    """The CPU seconds that an input may take."""
    return BUDGET_SECONDS * max(1.0, given.lines / 100)


@contextmanager
def bounded(seconds: float) -> Generator[None]:
    """Raises OverBudgetError in whatever takes more CPU time; what no signal reaches, the parent ends."""

    def end(*_: object) -> None:
        raise OverBudgetError

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def tried(given: Input, *, form: int = 0, with_names: bool = False) -> Result:
    """What comes of an input; the number chooses one form of the report."""
    started = time.process_time()
    try:
        with bounded(budget_of(given)):
            result = _tried(given, form, with_names=with_names)
    except OverBudgetError:
        result = Result(faults=(f"over its budget of {budget_of(given):.0f} s, {_where()}",))
    except Exception as error:  # noqa: BLE001 - any error is a fault
        result = Result(faults=(f"{type(error).__name__}: {error}, {_where()}",))
    return replace(result, seconds=time.process_time() - started)


def _where() -> str:
    """The innermost line of lintrain in the error that is handled."""
    frames = [frame for frame in traceback.extract_tb(sys.exc_info()[2]) if frame.filename.startswith(LINTRAIN)]
    return f"in {Path(frames[-1].filename).name}:{frames[-1].lineno} {frames[-1].name}" if frames else "outside"


def _is_read(request: CheckRequest, source: Source) -> bool:
    """Whether a rule was asked of the source."""
    return bool(rules_concerned(request.rules, source, None, TargetVersions))


def _is_parsed(source: Source) -> bool:
    try:
        return parse_problem(source) is None
    except NewerGrammarError:
        return False


def _tried(given: Input, form: int, *, with_names: bool) -> Result:
    request = request_of(given, with_names=with_names)
    outcome = CheckRun(request).check()
    (file,) = outcome.files
    found = frozenset(one.finding.rule for one in file.reported)
    refusals = [one.finding.message for one in file.reported if one.finding.rule in REFUSALS]
    source = _source(request)
    result = Result(
        found - REFUSALS,
        refusals[0] if refusals else "",
        source is not None and _is_parsed(source) and _is_read(request, source),
        file.is_exhausted,
        faults=tuple(_faults_of_reading(file, source, outcome)),
    )
    if not file.reported or source is None or result.faults:
        return result
    faults = [*_faults_of_locations(file, source)]
    turn = form % TURNS
    if turn in REPORTED:
        faults += _faults_of_report(outcome, form // TURNS)
    if turn == COMMENTED and not refusals:
        faults += _faults_of_comments(request, outcome)
    if turn not in MENDED:
        return replace(result, faults=tuple(faults))
    mended, unwritable, more = (0, 0, []) if refusals else _mended(request, outcome)
    return replace(result, faults=(*faults, *_faults_of_edits(file), *more), mended=mended, unwritable=unwritable)


def _source(request: CheckRequest) -> Source | None:
    (path,) = request.files
    try:
        return read_bytes(path, request.given[path])
    except UnreadableError:
        return None


def _faults_of_reading(file: FileOutcome, source: Source | None, outcome: CheckResult) -> Iterator[str]:
    """Rules that failed, and a file that cannot be read without a word on it."""
    yield from (f"`{crash.rule}` failed: {crash.error}" for crash in file.crashes)
    yield from (f"a note: {note}" for note in outcome.notes)
    if source is None and not file.reported:
        yield "unreadable without a word"


def _faults_of_locations(file: FileOutcome, source: Source) -> Iterator[str]:
    """Findings that stand outside the text."""
    for one in file.reported:
        locations = [one.finding.location, *(reason.location for reason in one.finding.related)]
        for location in locations:
            if location.path == file.path and not _is_in(location, source.lines):
                start, end = (location.line, location.column), (location.end_line, location.end_column)
                yield f"`{one.finding.rule}` is at {start} to {end}"
        source.locate(one.finding.location)
        source.location_in_file(one.finding.location)


def _is_in(location: Location, lines: Sequence[str]) -> bool:
    if not 1 <= location.line <= location.end_line <= len(lines) or location.column < 1:
        return False
    is_forward = (location.line, location.column) <= (location.end_line, location.end_column)
    return is_forward and location.end_column <= len(lines[location.end_line - 1]) + 2


def _faults_of_report(outcome: CheckResult, form: int) -> Iterator[str]:
    """One form of the report that cannot be written."""
    name = FORMATS[form % len(FORMATS)]
    find_source = outcome.sources.get
    if name in FOR_PEOPLE:
        blocks, between = people_blocks(name, outcome.reported, find_source, Style())
        text = between.join(blocks)
    elif name == "html":
        from lintrain.report.page.findings import checked_page

        text = checked_page(outcome.reported, find_source, "")
    else:
        found = {one.finding.rule for one in outcome.reported}
        report: CheckReport = check_report(outcome, find_source, 0)
        text = program_text(name, report, find_source, [rule for rule in rules() if rule.name in found])
    if not text.strip():
        yield f"the report `{name}` is empty"


def _faults_of_edits(file: FileOutcome) -> Iterator[str]:
    """Fixes that the edits of a report, put into the text, do not amount to."""
    edits = TextEdits()
    source = file.source
    for one in file.reported:
        if one.fix is None or source is None:
            continue
        for edit in edits(source, one.fix):
            if not _is_in(edit.location, source.file_text.split("\n")):
                yield f"an edit of `{one.finding.rule}` lies outside the text: {edit.location}"


def _faults_of_comments(request: CheckRequest, outcome: CheckResult) -> Iterator[str]:
    """Comments for all findings that leave one of them unsilenced, or break the file."""
    ignored = ignore_findings(request, outcome, "fuzz")
    if not ignored.contents:
        return
    after = CheckRun(replace(request, given={**request.given, **ignored.contents})).check()
    left = {one.finding.rule for one in after.reported}
    if left & REFUSALS:
        yield f"a comment breaks the file: {sorted(left)}"
    elif left - {"unused-suppression", "undefined-name"} and not ignored.notes:
        yield f"a comment does not silence {sorted(left)}"


def _mended(request: CheckRequest, outcome: CheckResult) -> tuple[int, int, list[str]]:
    """How many files were mended and fixes could not be written, and what the mending breaks."""
    if not any(one.fix for one in outcome.reported):
        return 0, 0, []
    mended = fix_files(request, outcome, unsafe=True)
    faults = [
        f"`{one.finding.rule}` after the fixes: {one.finding.message}"
        for one in mended.outcome.reported
        if one.finding.rule in REFUSALS
    ]
    faults += [f"`{crash.rule}` failed after the fixes: {crash.error}" for crash in mended.outcome.crashes]
    if (
        not faults
        and mended.contents
        and fix_files(request_with(request, mended.contents), mended.outcome, unsafe=True).contents
    ):
        faults = ["the fixes never come to an end"]
    faults += [
        fault for path, after in mended.contents.items() for fault in _faults_of_editor(request.given[path], after)
    ]
    return len(mended.contents), len(mended.notes), faults


def request_with(request: CheckRequest, contents: Mapping[str, bytes]) -> CheckRequest:
    """The request for a file with other contents."""
    return replace(request, given={**request.given, **contents})


def _faults_of_editor(before: bytes, after: bytes) -> Iterator[str]:
    """The edits that a server sends, put into the text as a client does, give another text than the fix."""
    try:
        old, new = before.decode("utf-8"), _line_feeds(after.decode("utf-8"))
    except UnicodeDecodeError:
        return
    units = Units("utf-16")
    text = old
    for edit in sorted(
        line_edits(old, new, units, "\n"), key=lambda edit: -edit.range.start.line * 10**6 - edit.range.start.character
    ):
        text = changed(text, edit.range, edit.new_text, units)
    if _line_feeds(text) != new:
        yield "the editor's text is another one than that of the fix"


def _line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def smaller(given: Input, fails: Callable[[Input], bool]) -> Input:
    """The input with as few lines, then as few characters at the ends of them, as still fail; a minute at most."""
    deadline = time.monotonic() + 60
    lines = given.raw.split(b"\n")
    step = max(1, len(lines) // 2)
    while step and time.monotonic() < deadline:
        at = 0
        while at < len(lines) and time.monotonic() < deadline:
            fewer = lines[:at] + lines[at + step :]
            if fewer and fails(replace(given, raw=b"\n".join(fewer))):
                lines = fewer
            else:
                at += step
        step //= 2
    return replace(given, raw=b"\n".join(lines))
