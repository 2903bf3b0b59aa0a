"""A page's real run is left out only while nothing that it rests on has changed, and never in CI."""

from __future__ import annotations

from pathlib import Path

import pytest

from lintrain.rulebook import RuleFile
from tests.pages import passed_runs
from tests.pages.assembly import assemble
from tests.pages.running import PageRunner

pytestmark = pytest.mark.libraries


@pytest.fixture
def rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RuleFile:
    """A rule whose page has passed."""
    monkeypatch.setattr(passed_runs, "FOLDER", tmp_path / "passed")
    monkeypatch.delenv("CI", raising=False)
    (tmp_path / "rule.py").write_text("code")
    found = RuleFile(tmp_path / "rule.py")
    passed_runs.note_pass(found, "unconfirmed")
    return found


def test_what_has_passed_is_known_for_its_own_test(rule: RuleFile) -> None:
    assert passed_runs.has_passed(rule, "unconfirmed")
    assert not passed_runs.has_passed(rule, "unrefuted")


def test_a_changed_rule_is_run_again(rule: RuleFile) -> None:
    rule.path.write_text("other code")
    assert not passed_runs.has_passed(rule, "unconfirmed")


def test_changed_surroundings_are_run_again(rule: RuleFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(passed_runs, "_surroundings", lambda: b"another version")
    assert not passed_runs.has_passed(rule, "unconfirmed")


def test_ci_runs_every_page(rule: RuleFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    assert not passed_runs.has_passed(rule, "unconfirmed")


def test_the_surroundings_hold_the_engine_the_pages_and_the_models() -> None:
    files = {path.relative_to(passed_runs.ROOT).as_posix() for path in passed_runs.files_it_rests_on()}
    assert {"lintrain/rule.py", "tests/pages/judging.py", "tools/build_fixtures.py"} <= files
    assert not [path for path in files if path.endswith(".pyc")]


TRAINING = """
trainer = Trainer(
    model,
    TrainingArguments("out", num_train_epochs=2, eval_strategy="epoch"),
    train_dataset=tokenized["train"],
    eval_dataset=tokenized["validation_matched"],
    data_collator=collator,
)
trainer.train()
evaluated = [line["step"] for line in trainer.state.log_history if "eval_loss" in line]
print("steps:", trainer.state.global_step, "of", trainer.state.max_steps, "evaluated at", evaluated)
"""


@pytest.mark.slow
def test_a_trainer_without_a_probe_goes_through_short_epochs(runner: PageRunner) -> None:
    done = runner.run(assemble(TRAINING))
    # A progress bar may be drawn once more after it.
    said = [line for line in done.output.splitlines() if line.startswith("steps:")]
    assert (done.error, said) == (None, ["steps: 8 of 120 evaluated at [4, 8]"])
