"""Lines as `pylint --output-format=parseable` writes them, which many tools read."""

from __future__ import annotations

from collections.abc import Iterator

from lintrain.model.level import Level
from lintrain.report.machine.document import CheckReport
from lintrain.report.machine.wording import message_of
from lintrain.text.shown import shown, without_commands

CATEGORIES = {Level.ERROR: "E", Level.WARNING: "W", Level.NOTE: "I"}
"""Readers take the level from the letter in front of the rule."""


def pylint(report: CheckReport) -> Iterator[str]:
    """A line for each finding."""
    for entry in report.problems:
        where = f"{shown(entry.location.path)}:{entry.location.file_line}"
        line = f"{where}: [{CATEGORIES[entry.level]}({entry.rule}), ] {message_of(entry)}"
        yield without_commands(line)
