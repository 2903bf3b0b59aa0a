"""A plugin for pytest: `lintrain_probe` fails a test with the report of a probe, `lintrain_rule` tests an own rule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lintrain.api.report import Report
    from lintrain.rulebook import RuleFile


@pytest.fixture
def lintrain_probe() -> ProbeFixture:
    """Probe a script or objects, and fail the test with the report if a mistake is confirmed."""
    return ProbeFixture()


class ProbeFixture:
    """Called with the path of a script or a notebook, or with what `lintrain.probe` takes.

    A path is probed in its own process, like `lintrain probe`; `arguments` are those of the script, `timeout` is in
    seconds. Other objects are measured in the process of the test and restored. The test fails with the report if a
    mistake is confirmed, a stage failed, or nothing could be judged. Otherwise returns the `lintrain.Report`.
    """

    def __call__(self, target: Any = None, *more: Any, **given: Any) -> Report:
        """Return the report; fails the test unless everything could be judged and nothing is confirmed."""
        from lintrain.api.probing import probe, probe_path

        is_path = isinstance(target, str | Path)
        report = probe_path(target, *more, **given) if is_path else probe(target, *more, **given)
        if not report.ok:
            pytest.fail(f"lintrain: {report.reason}\n\n{report.text()}", pytrace=False)
        return report


@pytest.fixture
def lintrain_rule() -> RuleFixture:
    """Test a rule of your own by its page: the path of its file is passed."""
    return RuleFixture()


class RuleFixture:
    """Called with the path of a rule file, whose code it runs.

    The examples of the page are read as whole scripts. Under "Bad", the rule must report exactly the lines marked with
    `# <- rule`; under "Good" and "When it is fine", nothing.
    """

    def __call__(self, path: str | Path) -> None:
        """Fail the test with every line that is reported and not marked, or marked and not reported."""
        from lintrain.rulebook import RuleFileError, read_rule_file

        try:
            problems = list(_page_problems(read_rule_file(Path(path))))
        except RuleFileError as error:
            problems = [str(error)]
        if problems:
            pytest.fail("\n".join(problems), pytrace=False)


def _page_problems(rule: RuleFile) -> Iterator[str]:
    """How what a rule reports differs from what its page says."""
    manual = rule.manual
    for heading in ("Bad", "Good"):
        if not manual.examples(heading):
            yield f"{rule.name}: the page has no example under `## {heading}`"
    mark = re.compile(rf"# <- (?:[a-z0-9-]+, )*{re.escape(rule.name)}(?![a-z0-9-])")
    for heading in ("Bad", "Good", "When it is fine"):
        for number, example in enumerate(manual.examples(heading), start=1):
            lines = example.splitlines()
            marked = Counter(at for at, line in enumerate(lines, start=1) if mark.search(line))
            if heading == "Bad" and not marked:
                yield f"{rule.name}: Bad example {number} marks no line with `# <- {rule.name}`"
            found = Counter(_reported_lines(rule, example))
            for at in sorted({*found, *marked}):
                if found[at] != marked[at]:
                    what = "is reported and not marked" if found[at] > marked[at] else "is marked and not reported"
                    yield f"{rule.name}: {heading} example {number}, line {at} {what}: {lines[at - 1].strip()}"


def _reported_lines(rule: RuleFile, example: str) -> Iterator[int]:
    """The lines of an example that a rule reports; what the rule raises is raised."""
    from lintrain.check.one_file import check_source
    from lintrain.knowledge.versions import TargetVersions
    from lintrain.source.source import Source

    reading = check_source(Source("example.py", example), [rule], TargetVersions)
    for crash in reading.crashes:
        pytest.fail(f"{rule.name}: the rule raised: {crash.error}", pytrace=False)
    yield from (one.finding.location.line for one in reading.reported)
