"""What `lintrain check` says of an example on a rule's page: checked when the site is built, never written by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from lintrain.check.one_file import check_source
from lintrain.check.result import Reported
from lintrain.knowledge.tables import COVERED_PACKAGES
from lintrain.knowledge.versions import TargetVersions, decided
from lintrain.model.location import Location
from lintrain.report.text.findings import full
from lintrain.report.text.style import Style
from lintrain.rulebook import RuleFile, load_rules
from lintrain.source.source import Source
from tests.pages.assembly import MARK, assemble

SCRIPT = "train.py"
LOOK = Style(width=92)


def said_of_bad(rule: RuleFile) -> str:
    """The report on the first Bad example, in the example's own lines; empty where only a probe finds the mistake."""
    examples = rule.manual.examples("Bad")
    if not (rule.reads_text and examples):
        return ""
    script = assemble(examples[0])
    reading = check_source(Source(SCRIPT, script.text), [rule], newest_versions)
    shown = Source(SCRIPT, unmarked(examples[0]))
    own = [_moved(one, script.prelude_lines) for one in reading.reported]
    return "\n\n".join(full(own, {SCRIPT: shown}.get, LOOK))


def report_of(script: str) -> str:
    """The full report of a check on a whole script, for versions as of today's tables."""
    source = Source(SCRIPT, script)
    reading = check_source(source, load_rules(), newest_versions)
    return "\n\n".join(full(reading.reported, {SCRIPT: source}.get, LOOK))


def unmarked(example: str) -> str:
    """An example without the marks of the lines that are reported."""
    return "\n".join(MARK.sub("", line).rstrip() for line in example.split("\n"))


@cache
def newest_versions() -> TargetVersions:
    """What a project is checked for that names no versions: the newest of each library that the tables hold."""
    targets = {package: decided(package, ()) for package in COVERED_PACKAGES}
    return TargetVersions({package: target for package, target in targets.items() if target})


def _moved(one: Reported, lines: int) -> Reported:
    """A finding in the lines of the example; places of what stands before it, which the page does not show, go."""
    finding = one.finding
    shown = [reason for reason in finding.related if reason.location.line > lines]
    related = tuple(replace(reason, location=_above(reason.location, lines)) for reason in shown)
    # Why it hurts is the page's own first paragraph.
    return replace(one, finding=replace(finding, location=_above(finding.location, lines), related=related, why=""))


def _above(location: Location, lines: int) -> Location:
    return replace(location, line=location.line - lines, end_line=location.end_line - lines)
