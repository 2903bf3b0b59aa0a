"""Reports for CI systems and reviews: GitHub Actions, Azure Pipelines and pylint lines in a log, a Code Quality report
for GitLab, the Reviewdog Diagnostic Format, and JUnit with a suite for each file.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePath
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from lintrain.model.level import Level
from lintrain.report.machine.document import (
    CheckReport,
    CrashEntry,
    EditEntry,
    FindingEntry,
    LocationEntry,
    ProbeEntry,
    is_refuted,
)
from lintrain.report.machine.wording import (
    absolute,
    from_root,
    message_of,
    one_line,
    relative,
    remarks_of,
    unjudged_files,
)
from lintrain.report.markdown import escaped_markdown
from lintrain.report.text.pages import address_of
from lintrain.source.source import FindSource, Source
from lintrain.startup.lazy_pattern import lazy_pattern
from lintrain.text import shown, without_commands

GITHUB_COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def github(report: CheckReport) -> Iterator[str]:
    """A command for each finding, and one for each file that was not checked completely."""
    yield from map(_github_command, report.problems)
    for path, text in unjudged_files(report):
        yield f"::warning title=lintrain,file={_github_property(absolute(path))}::{_github_data(text)}"


def _github_command(entry: FindingEntry) -> str:
    at = entry.location
    properties: dict[str, str | int] = {
        "title": f"lintrain ({entry.rule})",
        "file": absolute(at.path),
        "line": at.file_line,
        "endLine": at.file_end_line,
    }
    if at.file_line == at.file_end_line:  # GitHub takes columns for a single line only
        properties |= {"col": at.file_column, "endColumn": at.file_end_column}
    where = f"{from_root(at.path)}:{at.file_line}:{at.file_column}"
    text = "\n".join([f"{where}: {entry.rule}: {message_of(entry)}", *(f"  {line}" for line in remarks_of(entry))])
    written = ",".join(f"{name}={_github_property(str(value))}" for name, value in properties.items())
    return f"::{GITHUB_COMMANDS[entry.level]} {written}::{_github_data(text)}"


def _github_data(text: str) -> str:
    """Text of a command, escaped like GitHub's toolkit does."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _github_property(text: str) -> str:
    return _github_data(text).replace(":", "%3A").replace(",", "%2C")


AZURE_TYPES = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "warning"}
"""Azure has no third type."""

AZURE_PERCENT = lazy_pattern(r"%(?=3B|0D|0A|5D|AZP25)", re.IGNORECASE)
"""Only these percent signs are read as escapes, and old agents show `%AZP25` literally."""


def azure(report: CheckReport) -> Iterator[str]:
    """A command for each finding, and one for each file that was not checked completely."""
    yield from map(_azure_command, report.problems)
    for path, text in unjudged_files(report):
        source = _azure_escaped(absolute(path))
        yield f"##vso[task.logissue type=warning;sourcepath={source};]{_azure_escaped(text, in_property=False)}"


def _azure_command(entry: FindingEntry) -> str:
    at = entry.location
    properties = {
        "type": AZURE_TYPES[entry.level],
        "sourcepath": absolute(at.path),
        "linenumber": str(at.file_line),
        "columnnumber": str(at.file_column),
        "code": entry.rule,
    }
    written = "".join(f"{name}={_azure_escaped(value)};" for name, value in properties.items())
    return f"##vso[task.logissue {written}]{_azure_escaped(message_of(entry), in_property=False)}"


def _azure_escaped(text: str, *, in_property: bool = True) -> str:
    text = AZURE_PERCENT.sub("%AZP25", text).replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(";", "%3B").replace("]", "%5D") if in_property else text


PYLINT_CATEGORIES = {Level.ERROR: "E", Level.WARNING: "W", Level.NOTE: "I"}
"""Parsers take the level from the letter before the rule."""


def pylint(report: CheckReport) -> Iterator[str]:
    """A line for each finding."""
    for entry in report.problems:
        where = f"{shown(entry.location.path)}:{entry.location.file_line}"
        line = f"{where}: [{PYLINT_CATEGORIES[entry.level]}({entry.rule}), ] {message_of(entry)}"
        yield without_commands(line)


GITLAB_SEVERITIES = {Level.ERROR: "major", Level.WARNING: "minor", Level.NOTE: "info"}


def gitlab(report: CheckReport) -> str:
    """The list of issues as JSON."""
    return json.dumps([_issue(entry) for entry in report.problems], indent=2, ensure_ascii=False)


def _issue(entry: FindingEntry) -> dict[str, object]:
    at = entry.location
    return {
        "type": "issue",
        "check_name": entry.rule,
        "description": f"{entry.rule}: {message_of(entry)}",
        "content": {"body": "\n\n".join(map(escaped_markdown, remarks_of(entry)))},
        "categories": ["Bug Risk"],
        "severity": GITLAB_SEVERITIES[entry.level],
        "fingerprint": entry.fingerprint,
        "location": {
            "path": _from_project(at.path),
            "positions": {
                "begin": {"line": at.file_line, "column": at.file_column},
                "end": {"line": at.file_end_line, "column": at.file_end_column},
            },
        },
    }


def _from_project(path: str) -> str:
    """A path relative to the folder that GitLab uses."""
    project = os.environ.get("CI_PROJECT_DIR")
    return relative(Path(absolute(path)), Path(project)) if project else from_root(path)


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


COULD_NOT_JUDGE = 3


def junit(report: CheckReport) -> str:
    """The report as XML; a refuted finding is a passed test."""
    root = Element("testsuites", name="lintrain")
    for path, entries in groupby(sorted(report.findings, key=_junit_location), key=lambda entry: entry.location.path):
        _suite_of_file(root, path, entries, judged=bool(report.probes))
    if report.crashes:
        suite = SubElement(root, "testsuite", name="lintrain crashed")
        for crash in report.crashes:
            _crash(suite, crash)
    if report.unjudged:
        suite = SubElement(root, "testsuite", name="not judged")
        for one in report.unjudged:
            case = SubElement(suite, "testcase", name=f"{one.rule}: {one_line(one.path)}", classname="lintrain")
            SubElement(case, "skipped", message=one_line(one.reason))
    if report.probes:
        suite = SubElement(root, "testsuite", name="lintrain probe")
        for probe in report.probes:
            _probe(suite, probe)
    if not len(root):
        SubElement(SubElement(root, "testsuite", name="lintrain"), "testcase", name="no findings", classname="lintrain")
    _count(root)
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, encoding="unicode")


def _junit_location(entry: FindingEntry) -> tuple[str, int, int, str]:
    return entry.location.path, entry.location.file_line, entry.location.file_column, entry.rule


def _suite_of_file(root: Element, path: str, entries: Iterable[FindingEntry], *, judged: bool) -> None:
    shown = one_line(from_root(path))
    suite = SubElement(root, "testsuite", name=shown)
    names = Counter[str]()
    for entry in entries:
        name = f"{entry.rule}: {one_line(entry.message)}"
        names[name] += 1
        case = SubElement(
            suite,
            "testcase",
            name=name if names[name] == 1 else f"{name} ({names[name]})",
            classname=PurePath(shown).with_suffix("").as_posix(),
            file=shown,
            line=str(entry.location.file_line),
            column=str(entry.location.file_column),
        )
        where = f"{shown}:{entry.location.file_line}:{entry.location.file_column}"
        text = "\n".join([f"{where}: {entry.level.value}[{entry.rule}] {message_of(entry)}", *remarks_of(entry)])
        if judged and is_refuted(entry):
            SubElement(case, "system-out").text = text
        else:
            SubElement(case, "failure", message=message_of(entry), type=entry.level.value).text = text


def _crash(suite: Element, crash: CrashEntry) -> None:
    case = SubElement(suite, "testcase", name=f"{crash.rule}: {one_line(crash.path)}", classname="lintrain")
    SubElement(case, "error", message=one_line(crash.error), type=crash.rule)


def _probe(suite: Element, probe: ProbeEntry) -> None:
    case = SubElement(suite, "testcase", name=one_line(probe.script), classname="lintrain.probe")
    reason = one_line(probe.reason)
    match probe.exit_code:
        case 0:
            SubElement(case, "system-out").text = reason
        case code if code == COULD_NOT_JUDGE:
            SubElement(case, "skipped", message=reason)
        case _:
            SubElement(case, "failure", message=reason, type="probe")


def _count(root: Element) -> None:
    """Write the number of tests, failures, errors and skipped tests on every suite and on the whole."""
    for part in (*root, root):
        part.set("tests", str(len(list(part.iter("testcase")))))
        for kind, name in (("failure", "failures"), ("error", "errors"), ("skipped", "skipped")):
            part.set(name, str(len(list(part.iter(kind)))))
