"""`--try`: where a script gives a setting, its text with another value, and what comes of runs with each."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lintrain.evidence.run import Evidence, Trial, TrialsEvidence
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.report.text.stage_numbers import extra_lines
from lintrain.runtime.parent.entry import Entry
from lintrain.runtime.parent.timeline import Timeline
from lintrain.runtime.parent.trials import Grid, NoTrialError, Setting, read_trial, setting_of
from lintrain.runtime.passes.trials import why_no_step

SCRIPT = """
import argparse
from dataclasses import dataclass

LR, SIZE = 1e-3, 8
EPOCHS = 3


@dataclass
class Options:
    dropout: float = 0.1


def train(model, warmup=100):
    optimizer = AdamW(model.parameters(), weight_decay=0.01)
    rows = raw.map(tokenize, batch_size=1000)
    loader = DataLoader(rows, batch_size=16)
    other = DataLoader(rows, batch_size=2 * 16)
    args = TrainingArguments("out ö é", num_train_epochs=EPOCHS)
    return {"momentum": 0.9}


parser = argparse.ArgumentParser()
parser.add_argument("--max-norm", "-m", type=float)
"""


def read(given: str, text: str = SCRIPT) -> Setting:
    return read_trial(given, text, "train.py")


def changed(given: str, text: str = SCRIPT) -> list[str]:
    """The lines that have another text with the first value."""
    setting = read(given, text)
    new = setting.text_with(setting.values[0])
    assert new is not None
    ast.parse(new)
    assert len(new.splitlines()) == len(text.splitlines())
    pairs = zip(new.splitlines(), text.splitlines(), strict=True)
    return [line.strip() for line, before in pairs if line != before]


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ("EPOCHS=5,6", ["EPOCHS = 5"]),
        ("dropout=0.2,0.3", ["dropout: float = 0.2"]),
        ("warmup=1,2", ["def train(model, warmup=1):"]),
        ("batch_size=4,8", ["loader = DataLoader(rows, batch_size=4)", "other = DataLoader(rows, batch_size=4)"]),
        ("momentum=0.5,0.8", ['return {"momentum": 0.5}']),
        ("num_train_epochs=1,2", ['args = TrainingArguments("out ö é", num_train_epochs=1)']),
        ("seed=1,2", ['args = TrainingArguments("out ö é", num_train_epochs=EPOCHS, seed=1)']),
        ("optim=sgd,adafactor", ["args = TrainingArguments(\"out ö é\", num_train_epochs=EPOCHS, optim='sgd')"]),
        ("lr=1e-5,1e-4", ["optimizer = AdamW(model.parameters(), weight_decay=0.01, lr=1e-5)"]),
        ("--weight-decay=0,0.1", ["optimizer = AdamW(model.parameters(), weight_decay=0)"]),
    ],
)
def test_a_value_is_written_where_the_script_gives_the_setting(given: str, lines: list[str]) -> None:
    assert changed(given) == lines


def test_an_option_of_the_script_is_given_as_an_argument() -> None:
    setting = read("max_norm=0.5,1")
    assert setting.text_with("0.5") is None
    assert setting.arguments("0.5") == ("--max-norm", "0.5")
    assert setting.where == "the option `--max-norm`"


def test_training_arguments_that_are_options_are_given_as_arguments() -> None:
    setting = read("learning_rate=1e-5,1e-4", "parser = HfArgumentParser(TrainingArguments)\n")
    assert setting.arguments("1e-5") == ("--learning_rate", "1e-5")


def test_two_settings_are_tried_with_each_other(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT, encoding="utf-8")
    grid = setting_of(["max_norm=1,2", "weight_decay=0.1,0.2", "momentum=0.5,0.8"], Entry(script, ()))
    assert isinstance(grid, Grid)
    assert len(grid.values) == 8
    assert grid.values[1] == "1, 0.1, 0.8"
    assert grid.arguments("1, 0.1, 0.8") == ("--max-norm", "1")
    text = grid.text_with("1, 0.1, 0.8")
    assert text == SCRIPT.replace("weight_decay=0.01", "weight_decay=0.1").replace('"momentum": 0.9', '"momentum": 0.8')
    assert (grid.name, grid.where.count(" and ")) == ("max_norm and weight_decay and momentum", 2)
    with pytest.raises(NoTrialError, match="25 runs, at most 24"):
        setting_of(["max_norm=1,2,3,4,5", "momentum=1,2,3,4,5"], Entry(script, ()))


def test_a_rate_has_two_names() -> None:
    assert changed("learning_rate=1e-5,1e-4", "optimizer = SGD(net.parameters(), lr=0.1)\n") == [
        "optimizer = SGD(net.parameters(), lr=1e-5)"
    ]


def test_values_over_several_lines_are_replaced_and_the_lines_stay() -> None:
    text = "optimizer = Adam(\n    parameters,\n    betas=(\n        0.9,\n        0.99,\n    ),\n)\n"
    assert "betas=(0.5, 0.9)" in str(read("betas=(0.5, 0.9),(0.9,0.95)", text).text_with("(0.5, 0.9)"))
    assert read("betas=(0.5, 0.9),(0.9,0.95)", text).values == ("(0.5, 0.9)", "(0.9,0.95)")
    changed("betas=(0.5, 0.9),(0.9,0.95)", text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("EPOCH=5,6", "EPOCH: train.py has no option, argument or name of this kind; names that are near: EPOCHS"),
        ("droput=5,6", "names that are near: dropout"),
        ("lerning_rate=1,2", "names that are near: learning_rate"),
        ("xyzzy=1,2", "xyzzy: train.py has no option, argument or name of this kind"),
        ("lr", "expected a name and at least two values"),
        ("lr=1e-5", "expected a name and at least two values"),
    ],
)
def test_what_cannot_be_tried_is_an_error_with_names_that_are_near(given: str, text: str) -> None:
    with pytest.raises(NoTrialError) as raised:
        read(given)
    assert text in str(raised.value)


def shown(*trials: Trial, same: bool | None = True) -> dict[str, str]:
    found = TrialsEvidence("lr", "`lr` in line 9", 20, trials, same)
    evidence = Evidence("train.py", "torch", "a loop", None, None, "cpu", {}, trials=found)
    return dict(extra_lines(evidence, "trials"))


def test_trials_are_shown_next_to_each_other_with_the_lowest() -> None:
    lines = shown(Trial("1e-5", (1.0, 0.9, 0.95, 0.9), 1e-6), Trial("1e-3", (1.0, 0.5, 0.3, 0.2), 1e-3))
    assert lines["tried"] == "`lr` in line 9"
    assert lines["1e-5"] == "████ loss 1.000 to 0.900 in 4 steps, at a rate of up to 1e-06"
    assert lines["1e-3"] == "█▅▄▃ loss 1.000 to 0.200 in 4 steps"
    assert lines["lowest"] == "lr 1e-3: 0.200 at the end on the same batches"


def test_losses_that_end_close_to_each_other_have_no_lowest() -> None:
    lines = shown(Trial("1", (1.0, 0.91)), Trial("2", (1.0, 0.92)))
    assert lines["lowest"] == "none: the losses at the end are too close to each other to tell"


def test_a_value_that_fails_or_diverges_is_never_the_lowest() -> None:
    nan = float("nan")
    lines = shown(
        Trial("1", (1.0, nan)), Trial("2", error="ValueError: 2"), Trial("3", (1.0, 0.9)), Trial("4", (1.0, 0.8))
    )
    assert lines["1"] == "█? loss 1.000 to NaN in 2 steps"
    assert lines["2"] == "ValueError: 2"
    assert lines["lowest"].startswith("lr 4: ")
    assert "lowest" not in shown(Trial("1", (1.0, nan)), Trial("3", (1.0, 0.9)))


def ended(output: str = "") -> Timeline:
    return Timeline(ending=Ending(EndingKind.EXITED, output=output))


def test_a_run_without_a_step_says_why() -> None:
    wrong = ended("usage: train.py\ntrain.py: error: argument --optim: invalid choice: 'LBFGS'\n")
    assert why_no_step(wrong) == "no step was taken: train.py: error: argument --optim: invalid choice: 'LBFGS'"
    failed = ended()
    failed.facts["failure"] = "ValueError: betas\nmore"
    assert why_no_step(failed) == "ValueError: betas"
    assert why_no_step(ended()) == "no step was taken: it ended (exited)"
