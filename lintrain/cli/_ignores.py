"""What `lintrain check` does with `--add-ignores`."""

from __future__ import annotations

from dataclasses import replace

from lintrain.check.check_request import CheckRequest
from lintrain.check.check_run import CheckRun
from lintrain.check.ignoring import ignore_findings
from lintrain.check.result import CheckResult
from lintrain.cli._output import say, write_contents
from lintrain.report.text.summary import count


def write_ignores(request: CheckRequest, outcome: CheckResult, reason: str) -> CheckResult:
    """Write a comment for every finding, and give what is left."""
    ignored = ignore_findings(request, outcome, reason)
    for note in ignored.notes:
        say(f"lintrain: {note}")
    write_contents(ignored.contents)
    silenced = count(ignored.silenced, "finding")
    say(f"lintrain: wrote comments for {silenced} in {count(len(ignored.contents), 'file')}")
    return CheckRun(replace(request, given=ignored.contents)).check() if ignored.contents else outcome
