"""Logging commands that Azure Pipelines lists as the issues of a run."""

from __future__ import annotations

import re
from collections.abc import Iterator

from lintrain.model.level import Level
from lintrain.report.machine.document import CheckReport, FindingEntry
from lintrain.report.machine.paths import absolute
from lintrain.report.machine.wording import message_of, unjudged_files
from lintrain.startup.lazy_pattern import lazy_pattern

TYPES = {Level.ERROR: "error", Level.WARNING: "warning", Level.NOTE: "warning"}
"""Azure knows no third one."""

ESCAPED = lazy_pattern(r"%(?=3B|0D|0A|5D|AZP25)", re.IGNORECASE)
"""Only such a percent sign would be taken for an escape, and old agents show `%AZP25` as it is."""


def azure(report: CheckReport) -> Iterator[str]:
    """A command for each finding, and one for each file that not all rules have judged."""
    yield from map(_command, report.problems)
    for path, text in unjudged_files(report):
        source = _escaped(absolute(path))
        yield f"##vso[task.logissue type=warning;sourcepath={source};]{_escaped(text, in_property=False)}"


def _command(entry: FindingEntry) -> str:
    at = entry.location
    properties = {
        "type": TYPES[entry.level],
        "sourcepath": absolute(at.path),
        "linenumber": str(at.file_line),
        "columnnumber": str(at.file_column),
        "code": entry.rule,
    }
    written = "".join(f"{name}={_escaped(value)};" for name, value in properties.items())
    return f"##vso[task.logissue {written}]{_escaped(message_of(entry), in_property=False)}"


def _escaped(text: str, *, in_property: bool = True) -> str:
    text = ESCAPED.sub("%AZP25", text).replace("\r", "%0D").replace("\n", "%0A")
    return text.replace(";", "%3B").replace("]", "%5D") if in_property else text
