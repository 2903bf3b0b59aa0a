"""The samples of rules beside their pages (`tests/pages/samples.py`): what is close to a mistake, and what is one."""

from __future__ import annotations

import pytest

from lintrain.rulebook import RuleFile, load_rules
from tests.pages.samples import FOLDER, misreads_samples, samples_of

RULES = {rule.name: rule for rule in load_rules()}
FILES = sorted(FOLDER.glob("*.md"))


@pytest.mark.parametrize("name", [path.stem for path in FILES])
def test_the_rule_says_of_its_samples_what_they_demand(name: str) -> None:
    rule: RuleFile = RULES[name]
    assert samples_of(FOLDER / f"{name}.md")
    assert misreads_samples(rule) == []
