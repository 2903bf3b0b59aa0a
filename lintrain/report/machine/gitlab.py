"""A Code Quality report, which GitLab shows in merge requests."""

from __future__ import annotations

import json
import os
from pathlib import Path

from lintrain.model.level import Level
from lintrain.report.machine.document import CheckReport, FindingEntry
from lintrain.report.machine.paths import absolute, from_root, relative
from lintrain.report.machine.wording import message_of, remarks_of
from lintrain.report.markdown import escaped_markdown

SEVERITIES = {Level.ERROR: "major", Level.WARNING: "minor", Level.NOTE: "info"}


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
        "severity": SEVERITIES[entry.level],
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
    """A path from the folder that GitLab counts from."""
    project = os.environ.get("CI_PROJECT_DIR")
    return relative(Path(absolute(path)), Path(project)) if project else from_root(path)
