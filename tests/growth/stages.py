"""What lintrain does with an input, each part measured by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from lintrain.check.check_run import CheckRun
from lintrain.check.fixing import FixedFiles, TextEdits, fix_files
from lintrain.check.ignoring import ignore_findings
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest
from lintrain.cli._fixes import diff
from lintrain.report.machine.choice import program_text
from lintrain.report.machine.entries import check_report
from lintrain.report.page.findings import checked_page
from lintrain.report.text.findings import people_blocks
from lintrain.report.text.style import Style
from lintrain.settings.settings import FOR_PEOPLE, FORMATS
from lintrain.source.reading import read_bytes
from tests.fuzz.inputs import Input
from tests.fuzz.trial import request_of, rules


@dataclass(slots=True)
class Checked:
    """An input and what came of it so far."""

    given: Input
    outcome: CheckResult | None = None
    mended: FixedFiles | None = None
    request: CheckRequest = field(init=False)

    def __post_init__(self) -> None:
        self.request = request_of(self.given, with_names=False)

    @property
    def is_done(self) -> bool:
        """Whether the check came to its end."""
        return self.outcome is not None

    @property
    def found(self) -> CheckResult:
        """What the check found."""
        assert self.outcome is not None
        return self.outcome


def _check(checked: Checked) -> None:
    checked.outcome = CheckRun(checked.request).check()


def _names(checked: Checked) -> None:
    """The check with the undefined names, which ruff finds."""
    checked.request = request_of(checked.given, with_names=True)
    checked.outcome = CheckRun(checked.request).check()


def _fixes(checked: Checked) -> None:
    if any(one.fix for one in checked.found.reported):
        checked.mended = fix_files(checked.request, checked.found, unsafe=True)


def _difference(checked: Checked) -> None:
    mended = checked.mended
    for path, content in mended.contents.items() if mended else ():
        list(diff(mended.before[path], read_bytes(path, content), Style()))  # type: ignore[union-attr]


def _edits(checked: Checked) -> None:
    edits = TextEdits()
    for one in checked.found.reported:
        source = checked.found.sources.get(one.finding.location.path)
        if one.fix and source:
            edits(source, one.fix)


def _comments(checked: Checked) -> None:
    if checked.found.reported:
        ignore_findings(checked.request, checked.found, "growth")


def _report(name: str) -> Callable[[Checked], None]:
    def write(checked: Checked) -> None:
        outcome = checked.found
        if not outcome.reported:
            return
        find_source = outcome.sources.get
        if name in FOR_PEOPLE:
            people_blocks(name, outcome.reported, find_source, Style())
        elif name == "html":
            checked_page(outcome.reported, find_source, "")
        else:
            found = {one.finding.rule for one in outcome.reported}
            report = check_report(outcome, find_source, 0)
            program_text(name, report, find_source, [rule for rule in rules() if rule.name in found])

    return write


def _all() -> Iterator[tuple[str, Callable[[Checked], None]]]:
    yield from {
        "check": _check,
        "names": _names,
        "fixes": _fixes,
        "diff": _difference,
        "comments": _comments,
    }.items()
    yield from ((f"report {name}", _report(name)) for name in FORMATS)


STAGES: Mapping[str, Callable[[Checked], None]] = dict(_all())
"""Each part by its name, in the order in which they are done."""
