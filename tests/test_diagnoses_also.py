"""Every question of `also.toml`: its command is one, its rules can answer it, and its texts are in what is printed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from lintrain.cli._group import group
from lintrain.evidence.stages import Failure
from lintrain.report.text.causes import asking_for_help
from lintrain.rulebook import RuleFile, load_rules
from tests.diagnoses.reading import Question, diagnoses, questions
from tests.support.probing import MENDED, Probed, command, path_for_lintrain, warm_option

RULES = {rule.name: rule for rule in load_rules()}
LOG = "".join(
    f"{{'loss': {loss}, 'grad_norm': 1.0, 'learning_rate': 5e-05, 'epoch': {epoch / 10}}}\n"
    for epoch, loss in enumerate([2.0, 1.8, 1.6, 1.5, "nan", "nan", "nan"])
)
"""What a Trainer logs of a run that ends with NaN."""

Report = Callable[[str], Probed]


@pytest.fixture(scope="module")
def report(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Report:
    """What a command prints of a sound script and of a log, each run once."""

    @cache
    def printed(line: str) -> Probed:
        folder = tmp_path_factory.mktemp("also")
        put_into(folder)
        name, *words = Question("", "", line).words
        return command(folder, name, *(warm_option() if name == "probe" else ()), *words)

    return printed


def put_into(folder: Path) -> None:
    (folder / "train.py").write_text(MENDED)
    (folder / "train.log").write_text(LOG)


@pytest.mark.parametrize("question", questions(), ids=lambda question: question.asks)
def test_the_command_is_one_and_its_rules_can_answer(
    question: Question, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_into(tmp_path)
    monkeypatch.chdir(tmp_path)
    group.make_context("lintrain", question.words).close()
    name, *words = question.words
    context = group.make_context("lintrain", [name])
    found = group.get_command(context, name)
    assert found is not None
    found.make_context(name, words, parent=context).close()
    assert question.rules or question.texts
    assert [rule for rule in question.rules if not answers(RULES[rule], name)] == []


def answers(rule: RuleFile, name: str) -> bool:
    """Whether a command reports a rule without a further option."""
    return not rule.rule.is_preview and (rule.reads_text or (name == "probe" and rule.reads_evidence))


def test_each_question_is_asked_once() -> None:
    asked = [question.asks for question in questions()] + [diagnosis.title for diagnosis in diagnoses()]
    assert sorted(set(asked)) == sorted(asked)


@pytest.mark.turns(one_in=3)
@pytest.mark.slow
@pytest.mark.libraries
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize("question", [one for one in questions() if one.texts], ids=lambda question: question.asks)
def test_the_texts_are_in_what_is_printed(question: Question, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    monkeypatch.setenv("COLUMNS", "400")
    printed = report(question.command)
    text = " ".join((printed.out + printed.err).split())
    assert [each for each in question.texts if each not in text] == [], text


@pytest.mark.parametrize(
    ("failure", "is_said"),
    [
        (Failure("RuntimeError", "Invalid number of data points (0) specified", None), True),
        (Failure("IndexError", "Target 2 is out of bounds.", None), False),
        (Failure("ValueError", "no rows", None, code='    raise ValueError("no rows")'), False),
        (Failure("RuntimeError", "INTERNAL ASSERT FAILED at x.cpp", None), False),
    ],
)
def test_asking_for_help_is_said_where_nothing_explains_an_error(failure: Failure, is_said: bool) -> None:
    assert ("--export-repro" in asking_for_help(failure, "train.py")) == is_said
