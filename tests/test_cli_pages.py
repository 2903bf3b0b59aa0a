"""`lintrain rules`, `lintrain explain`, and the group of commands."""

from __future__ import annotations

import json
import re

import pytest

from lintrain._version import __version__
from lintrain.builtin import BUILTINS
from lintrain.cli import run
from lintrain.report.text.pages import page_text, pages, table
from lintrain.report.text.style import Style
from lintrain.rulebook import load_rules
from lintrain.text import for_terminal
from tests.support.planted import ONLY_MEASURED, PLANTED


def test_the_table_groups_rules_by_stage() -> None:
    lines = list(table(pages([PLANTED, ONLY_MEASURED]), Style(120)))
    assert lines[:4] == [
        "garden",
        "  planted             error    text       fix         A call that was planted.",
        "  only-measured       warning                         A call that was planted.",
        "",
    ]
    assert lines[4] == "file"
    assert len(lines) == 5 + len(BUILTINS)


def test_in_a_narrow_terminal_titles_stand_below_their_rules() -> None:
    lines = list(table(pages([PLANTED]), Style(60)))
    assert lines[1:3] == ["  planted             error    text       fix", "    A call that was planted."]


def test_no_line_of_the_table_is_wider_than_the_terminal() -> None:
    assert max(map(len, table(pages(load_rules()), Style(80)))) <= 80


def test_rules_are_listed_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in listed] == [*(rule.name for rule in load_rules()), *BUILTINS]
    assert {"name", "stage", "level", "text", "probe", "fix", "preview", "frameworks", "title"} == set(listed[0])


def listed_names(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    assert run(["rules", *arguments, "--json"]) == 0
    return [one["name"] for one in json.loads(capsys.readouterr().out)]


def test_words_list_the_rules_of_a_stage_or_about_them(capsys: pytest.CaptureFixture[str]) -> None:
    everything = load_rules()
    assert listed_names(capsys, "loop") == [rule.name for rule in everything if rule.stage == "loop"]
    assert "missing-labels" in listed_names(capsys, "labels")
    assert "missing-step" not in listed_names(capsys, "labels")
    assert "ignored-warmup" not in listed_names(capsys, "learning", "rate", "--level", "error")
    assert "ignored-warmup" in listed_names(capsys, "learning", "rate", "--level", "warning")
    assert listed_names(capsys, "missing-step") == ["missing-step"]


def test_filters_count_before_and_after_the_words(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = (
        listed_names(capsys, "--fixable", "safe", "labels"),
        listed_names(capsys, "labels", "--fixable", "safe"),
    )
    assert before == after
    assert "missing-labels" in before
    assert "mispaired-labels" not in before


@pytest.mark.parametrize(
    ("name", "safety"),
    [("discarded-map", "safe"), ("raw-dataset", "unsafe"), ("mlm-on-causal-model", "either"), ("label-imbalance", "")],
)
def test_a_rule_says_how_safe_its_fix_is(name: str, safety: str) -> None:
    assert next(rule.fix_safety for rule in load_rules() if rule.name == name) == safety


def test_a_page_is_printed_with_its_sections_and_examples() -> None:
    assert (
        page_text(pages([PLANTED])[0], Style(30))
        == """\
planted: A call that was planted.

stage: garden    level: error
found by `lintrain check`; fixable with `--fix`, in some scripts with `--unsafe-fixes`

It hurts every test that meets
it.

And more is said about it.

Bad

    mistake()  # <- planted
"""
    )


def test_a_page_in_colours_says_the_same() -> None:
    import re

    page = pages([PLANTED])[0]
    coloured = for_terminal(page_text(page, Style(80, coloured=True)))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == page_text(page, Style(80))


@pytest.mark.parametrize("name", [*BUILTINS, "undefined_name"])
def test_built_in_findings_have_pages(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", name]) == 0
    assert "When it is fine" in capsys.readouterr().out


def test_a_page_is_printed_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "undefined-name", "--output-format", "json"]) == 0
    page = json.loads(capsys.readouterr().out)
    assert page["name"] == "undefined-name"
    assert set(page["sections"]) == {"Bad", "Good", "When it is fine", "References"}


def test_an_unknown_rule_gets_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "undefind-name"]) == 2
    assert capsys.readouterr().err == "lintrain: unknown rule `undefind-name` (did you mean `undefined-name`?)\n"


def test_an_unknown_command_gets_the_nearest_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["chek"]) == 2
    assert capsys.readouterr().err == "lintrain: unknown command `chek` (did you mean `check`?)\n"


def test_an_unknown_option_exits_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--selekt", "x"]) == 2
    assert "--select" in capsys.readouterr().err


def test_help_lists_the_commands_and_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    shown = re.sub(" +", " ", capsys.readouterr().out)
    for line in ("check Find mistakes", "explain Explain a rule, a stage", "rules List the rules", "schema Print"):
        assert line in shown
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"lintrain {__version__}\n"


def test_the_exit_codes_are_told_by_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--help"]) == 0
    assert "Exit codes:\n    0  no findings\n" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("asked", "first", "absent"),
    [
        ("loop", "loop", "\nmodel\n"),
        ("learning rate warmup", "optimizer", "raw-dataset"),
        ("padding", "model", "\nx"),
    ],
)
def test_rules_are_explained_by_stage_and_by_words(
    asked: str, first: str, absent: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", asked]) == 0
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == first
    assert absent not in shown
    assert shown.endswith("`lintrain explain RULE` shows a page\n")


def test_rules_about_words_are_listed_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "learning rate warmup", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "warmup-exceeds-training"


def test_words_on_no_page_are_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "xyzzy plugh"]) == 2
    assert "no known error is in this text" in capsys.readouterr().err


@pytest.mark.parametrize("before", [[], ["--"]])
def test_a_text_that_begins_with_a_dash_is_a_text(before: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    text = "--load_best_model_at_end requires the save and eval strategy to match"
    assert run(["explain", *before, text]) == 0
    assert "unmatched-save-strategy" in capsys.readouterr().out


def test_an_option_that_is_none_of_explain_says_how_to_write_a_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "--load_best_model_at_end"]) == 2
    assert capsys.readouterr().err == (
        "lintrain: `--load_best_model_at_end` is no option of explain; a text that begins with a dash follows `--`:"
        " `lintrain explain -- --load_best_model_at_end`\n"
    )
    assert run(["explain", "--output-fromat", "json", "loop"]) == 2
    assert "--output-format" in capsys.readouterr().err
