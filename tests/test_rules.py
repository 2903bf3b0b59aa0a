"""Every rule, tested from its own page: what a page may use, how it marks lines and what it must hold is told in
`tests/pages/README.md`; how the examples are run for real is in `tests/pages/running.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from lintrain.rulebook import RuleFile, load_rules
from tests.pages import demands, judging, passed_runs
from tests.pages.running import PageRunner
from tools.build_fixtures import BUILT

RULES = load_rules()
EVERY_RULE = pytest.mark.parametrize("rule", RULES, ids=[rule.name for rule in RULES], scope="module")
"""With this scope the tests of one rule stand side by side, so that one worker runs its examples, each once."""


READS_CHECKPOINTS = frozenset(
    {
        "eval-logits-memory",
        "ignored-index-in-metric",
        "missing-predict-with-generate",
        "missing-pad-token",
        "wrong-collator",
    }
)
"""Rules whose page is about what the files of a checkpoint say: those of the tiny stand-ins.

A quick run does not make them, as that takes torch.
"""


DEMANDS: dict[str, Callable[[RuleFile], list[str]]] = {
    "the page lacks": demands.lacks_parts,
    "Bad": demands.lacks_marks,
    "findings in Bad": demands.misreads_bad,
    "findings in Good or in When it is fine": lambda rule: demands.disturbs_silence(rule, RULES),
    "fix(Bad)": demands.mends_badly,
    "wording": demands.breaks_convention,
    "tests/pages/unjudged.toml": judging.unlisted,
}
"""What is demanded of a page without running it, by what a complaint is about."""


def none_of(complaints: Sequence[str]) -> None:
    """Fail with every complaint on a line of its own."""
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


@EVERY_RULE
def test_the_page_is_complete_and_read_as_it_says(rule: RuleFile) -> None:
    if rule.name in READS_CHECKPOINTS and not BUILT.is_dir():
        pytest.skip("the page reads the files of a tiny model, which are not built (`python -m tools.build_fixtures`)")
    none_of([f"{title}: {line}" for title, complaints_of in DEMANDS.items() for line in complaints_of(rule)])


@pytest.mark.slow
@EVERY_RULE
def test_bad_is_confirmed_by_a_run(rule: RuleFile, request: pytest.FixtureRequest) -> None:
    unless_passed(rule, request, judging.unconfirmed)


@pytest.mark.slow
@EVERY_RULE
def test_a_false_claim_on_good_is_refuted_by_a_run(rule: RuleFile, request: pytest.FixtureRequest) -> None:
    unless_passed(rule, request, judging.unrefuted)


@pytest.mark.slow
@pytest.mark.turns(one_in=3)
@EVERY_RULE
def test_fine_examples_stand_a_run(rule: RuleFile, request: pytest.FixtureRequest) -> None:
    unless_passed(rule, request, judging.wrongly_confirmed)


def unless_passed(
    rule: RuleFile, request: pytest.FixtureRequest, complaints_of: Callable[[RuleFile, PageRunner], Sequence[str]]
) -> None:
    """Run the page's examples and fail with the complaints, unless this has passed before with everything the same."""
    if passed_runs.has_passed(rule, complaints_of.__name__):
        return
    none_of(complaints_of(rule, request.getfixturevalue("runner")))
    passed_runs.note_pass(rule, complaints_of.__name__)
