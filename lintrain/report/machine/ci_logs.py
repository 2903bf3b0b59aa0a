"""Lines that CI systems read from a log: GitHub Actions, Azure Pipelines, and pylint's format.

A Code Quality report, which GitLab shows in merge requests.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from lintrain.model.level import Level
from lintrain.report.machine.document import CheckReport, FindingEntry
from lintrain.report.machine.wording import absolute, from_root, message_of, relative, remarks_of, unjudged_files
from lintrain.report.markdown import escaped_markdown
from lintrain.startup.lazy_pattern import lazy_pattern
from lintrain.text.shown import shown, without_commands

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
