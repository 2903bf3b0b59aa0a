"""Rules by stage, for tests that look at the text of each: one test for a folder, as a case for each rule takes longer
to collect and to report than to run. A failure names the rule.
"""

from __future__ import annotations

import pytest

from lintrain.rulebook import RuleFile, load_rules


def rules_by_stage() -> dict[str, list[RuleFile]]:
    """The rules of each folder of `rules/`."""
    stages: dict[str, list[RuleFile]] = {}
    for rule in load_rules():
        stages.setdefault(rule.stage, []).append(rule)
    return stages


EVERY_STAGE = pytest.mark.parametrize("rules", [*rules_by_stage().values()], ids=[*rules_by_stage()])
