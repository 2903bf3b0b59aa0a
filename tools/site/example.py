"""What `lintrain check` says of an example on a rule's page: checked when the site is built, never written by hand."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from lintrain.check.one_file import check_source
from lintrain.check.outcome import Reported
from lintrain.knowledge.tables import COVERED_PACKAGES
from lintrain.knowledge.versions import TargetVersions, decided
from lintrain.model.location import Place
from lintrain.report.text.full import full
from lintrain.report.text.look import Look
from lintrain.rulebook import RuleFile
from lintrain.source.source import Source
from tests.pages.assembly import MARK, assemble

SCRIPT = "train.py"
LOOK = Look(width=92)


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
    shown = [reason for reason in finding.because if reason.place.line > lines]
    because = tuple(replace(reason, place=_above(reason.place, lines)) for reason in shown)
    # Why it hurts is the page's own first paragraph.
    return replace(one, finding=replace(finding, place=_above(finding.place, lines), because=because, why=""))


def _above(place: Place, lines: int) -> Place:
    return replace(place, line=place.line - lines, end_line=place.end_line - lines)
