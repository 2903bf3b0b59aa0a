"""Workflow commands that GitHub Actions turns into annotations."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.model.level import Level
from lintrain.report.machine.document import CheckReport, FindingEntry
from lintrain.report.machine.paths import absolute, from_root
from lintrain.report.machine.wording import message_of, remarks_of, unjudged_files

COMMANDS = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "notice"}


def github(report: CheckReport) -> Iterator[str]:
    """A command for each finding, and one for each file that not all rules have judged."""
    yield from map(_command, report.problems)
    for path, text in unjudged_files(report):
        yield f"::warning title=lintrain,file={_property(absolute(path))}::{_data(text)}"


def _command(entry: FindingEntry) -> str:
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
    written = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items())
    return f"::{COMMANDS[entry.level]} {written}::{_data(text)}"


def _data(text: str) -> str:
    """Text of a command, as the runner's own toolkit escapes it."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
