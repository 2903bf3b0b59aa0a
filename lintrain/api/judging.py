"""Events of a session in this process, judged as the command line judges those of a child process."""

from __future__ import annotations

import dataclasses
import linecache
import sys
from collections.abc import Iterable
from pathlib import Path

from lintrain._version import __version__
from lintrain.api.report import Report
from lintrain.evidence.ending import Ending, EndingKind
from lintrain.evidence.run import Evidence
from lintrain.model.location import Location
from lintrain.runtime.child.typed_cells import called
from lintrain.runtime.in_process.session import InProcessSession
from lintrain.runtime.parent.record import SCHEMA, Record
from lintrain.runtime.parent.stream import Assembly
from lintrain.source.source import Source
from lintrain.verdicts.judgement import judge_record
from lintrain.verdicts.static_findings import StaticFindings, check_script, recorded_findings


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """What a report is about: the file whose text is judged with the run (None for the run alone), and which rules."""

    script: str | None
    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def judged(session: InProcessSession, question: Question) -> Report:
    """The report of what a session measured; raises UsageError for rules that do not exist."""
    record = _record(session)
    if question.script is not None:
        static = check_script(question.script, question.select, question.ignore)
        record = dataclasses.replace(record, findings=tuple(one.finding for one in static.reported))
    else:
        static = _without_text(record, question)
    return Report(judge_record(record, static))


def _record(session: InProcessSession) -> Record:
    assembly = Assembly()
    for event in session.events:
        assembly.add(event)
    end = assembly.end or {"kind": EndingKind.MEASURED, "reason": ""}
    ending = Ending(EndingKind(end["kind"]), end["reason"], session.elapsed())
    runs = (assembly.evidence(ending.reason or "it was not requested"),) if assembly.reached_a_run else ()
    return Record(SCHEMA, __version__, session.script, "", sys.executable, ending, runs)


def _without_text(record: Record, question: Question) -> StaticFindings:
    """No findings of the text; the code around the locations of the run is still shown."""
    static = recorded_findings(record, question.select, question.ignore)
    paths = {location.path for run in record.runs for location in _locations(run)}
    sources = {path: source for path in paths if (source := _source(path)) is not None}
    return dataclasses.replace(static, sources=sources)


def _locations(run: Evidence) -> Iterable[Location]:
    calls = run.loop.losses if run.loop else ()
    locations = (
        run.call,
        run.construction,
        run.failure.location if run.failure else None,
        *(call.location for call in calls),
    )
    return [location for location in locations if location is not None]


def _source(path: str) -> Source | None:
    """A file, or the cell of a notebook, as Python knows its lines."""
    lines = linecache.getlines(called(path) or path) or linecache.getlines(str(Path(path).absolute()))
    return Source(path, "".join(lines)) if lines else None
