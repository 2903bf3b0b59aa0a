"""The Reviewdog Diagnostic Format: findings with suggestions, for comments on any review system."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import PurePath

from lintrain.model.level import Level
from lintrain.report.machine.document import CheckReport, EditEntry, FindingEntry, LocationEntry
from lintrain.report.machine.wording import message_of, one_line, remarks_of
from lintrain.report.text.pages import address_of
from lintrain.source.source import FindSource, Source

SEVERITIES = {Level.ERROR: "ERROR", Level.WARNING: "WARNING", Level.NOTE: "INFO"}

Point = Callable[[int, int], dict[str, int]]
"""From line and column in characters to the units of the format: UTF-8 bytes from 1."""


def rdjson(report: CheckReport, find_source: FindSource, documentation: str | None = None) -> str:
    """The diagnostics as JSON."""
    document = {
        "source": {"name": "lintrain"},
        "severity": "WARNING",
        "diagnostics": [_diagnostic(entry, find_source, documentation) for entry in report.problems],
    }
    return json.dumps(document, indent=2, ensure_ascii=False)


def _diagnostic(entry: FindingEntry, find_source: FindSource, documentation: str | None) -> dict[str, object]:
    edits = entry.fix.edits if entry.fix else ()
    point = _points_of(entry.location.path, find_source)
    address = address_of(entry.rule, documentation)
    message = "\n".join([message_of(entry), *remarks_of(entry)])
    diagnostic: dict[str, object] = {
        "message": message,
        "location": _location(entry.location, find_source),
        "severity": SEVERITIES[entry.level],
        "code": {"value": entry.rule, **({"url": address} if address else {})},
    }
    if edits:
        diagnostic["suggestions"] = [_suggestion(edit, point) for edit in edits]
    if entry.related:
        diagnostic["related_locations"] = [
            {"message": one_line(reason.note), "location": _location(reason.location, find_source)}
            for reason in entry.related
        ]
    return diagnostic


def _location(at: LocationEntry, find_source: FindSource) -> dict[str, object]:
    point = _points_of(at.path, find_source)
    start, end = point(at.file_line, at.file_column), point(at.file_end_line, at.file_end_column)
    return {"path": PurePath(at.path).as_posix(), "range": {"start": start, "end": end}}


def _suggestion(edit: EditEntry, point: Point) -> dict[str, object]:
    start, end = point(edit.line, edit.column), point(edit.end_line, edit.end_column)
    return {"range": {"start": start, "end": end}, "text": edit.text}


def _points_of(path: str, find_source: FindSource) -> Point:
    source = find_source(path)
    lines = source.cached(_lines_not_ascii) if source else []

    def point(line: int, column: int) -> dict[str, int]:
        text = lines[line - 1] if line <= len(lines) else ""
        wider = len(text[: column - 1].encode("utf-8", "replace")) - len(text[: column - 1])
        return {"line": line, "column": column + wider}

    return point


def _lines_not_ascii(source: Source) -> list[str]:
    """The lines of the file; none if all characters are ASCII."""
    return [] if source.file_text.isascii() else source.file_text.split("\n")
