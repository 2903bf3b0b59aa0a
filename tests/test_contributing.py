"""The rule that CONTRIBUTING.md walks through is whole: copied into a file, it passes what every rule must."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from lintrain.rulebook import RuleFile, load_rules, read_rule_file
from tests.pages import demands, judging
from tests.pages.running import PageRunner

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def rule(tmp_path_factory: pytest.TempPathFactory) -> RuleFile:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    path = tmp_path_factory.mktemp("rules") / "optimizer" / "zero_learning_rate.py"
    path.parent.mkdir()
    (code,) = re.findall(r"```python\n(.+?)```", page, flags=re.DOTALL)
    path.write_text(code)
    return read_rule_file(path)


def test_the_rule_passes_what_needs_no_run(rule: RuleFile) -> None:
    complaints = [
        *demands.lacks_parts(rule),
        *demands.lacks_marks(rule),
        *demands.misreads_bad(rule),
        *demands.disturbs_silence(rule, (*load_rules(), rule)),
        *demands.mends_badly(rule),
        *demands.breaks_convention(rule),
        *judging.unlisted(rule),
    ]
    assert complaints == []


@pytest.mark.slow
def test_the_rule_is_confirmed_and_refuted_by_runs(rule: RuleFile, runner: PageRunner) -> None:
    complaints = [*judging.unconfirmed(rule, runner), *judging.unrefuted(rule, runner)]
    complaints += judging.wrongly_confirmed(rule, runner)
    assert complaints == []


def test_the_rules_file_is_where_the_text_says(rule: RuleFile) -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    assert f"rules/{rule.stage}/{rule.path.name}" in page
    assert f"lintrain explain {rule.name}" in page
