"""How bad a project says that findings are, and rules that are heard only on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lintrain.cli._check
from lintrain.cli import run
from lintrain.report.text.pages import page_text, pages, table
from lintrain.report.text.style import Style
from tests.support.planted import HEAD, ONLY_MEASURED, PLANTED, Planted, rule_file


class Sapling(Planted):
    name = "sapling"
    is_preview = True


SAPLING = rule_file(Sapling)
BAD = f"{HEAD}def mistake(): ...\nmistake()\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lintrain.cli._check, "find_rules", lambda: (PLANTED, SAPLING, ONLY_MEASURED))
    (tmp_path / "t.py").write_text(BAD)
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *options: str) -> dict[str, str]:
    capsys.readouterr()
    run(["check", "--output-format", "json", *options])
    return {each["rule"]: each["level"] for each in json.loads(capsys.readouterr().out)["findings"]}


@pytest.mark.parametrize(
    ("levels", "level"),
    [
        ('planted = "note"', "note"),
        ('garden = "warning"', "warning"),
        ('ALL = "note"\ngarden = "warning"', "warning"),
        ('planted = "note"\ngarden = "warning"', "note"),
        ("", "error"),
    ],
)
def test_a_rule_is_as_bad_as_the_project_says(
    project: Path, capsys: pytest.CaptureFixture[str], levels: str, level: str
) -> None:
    (project / "lintrain.toml").write_text(f"[levels]\n{levels}\n")
    assert found(capsys) == {"planted": level}
    assert run(["check"]) == 1


def test_a_module_s_findings_and_builtin_ones_have_levels_too(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "lintrain.toml").write_text('[levels]\nfile = "note"\n')
    (project / "t.py").write_text(f"{HEAD}x = y  # lintrain: ignore[planted]\n")
    assert found(capsys) == {"undefined-name": "note", "unused-suppression": "note"}


def test_an_unknown_rule_in_the_levels_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "lintrain.toml").write_text('[levels]\nplnted = "note"\n')
    assert run(["check"]) == 2
    assert capsys.readouterr().err.endswith("lintrain.toml: no rule or stage `plnted`; nearest: `planted`\n")


def test_a_young_rule_is_heard_only_on_request(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert set(found(capsys)) == set(found(capsys, "--extend-select", "garden")) == {"planted"}
    assert set(found(capsys, "--preview")) == {"planted", "sapling"}
    (project / "lintrain.toml").write_text("preview = true\n")
    assert set(found(capsys)) == {"planted", "sapling"}
    assert set(found(capsys, "--no-preview")) == {"planted"}
    assert set(found(capsys, "--ignore", "sapling")) == {"planted"}


def test_who_selects_a_young_rule_by_its_name_is_told_why_it_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--select", "sapling"]) == 0
    assert capsys.readouterr().err == "lintrain: `sapling` is a preview rule and runs only with --preview\n"
    assert run(["check", "--select", "sapling", "--preview"]) == 1
    assert capsys.readouterr().err == ""


def test_where_nothing_is_in_preview_the_option_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(lintrain.cli._check, "find_rules", lambda: (PLANTED,))
    run(["check", "--preview"])
    assert capsys.readouterr().err == "lintrain: this version has no preview rules, so --preview has no effect\n"


def test_comments_for_young_rules_are_not_called_unused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(f"{HEAD}x = 1  # lintrain: ignore[sapling]\ny = 1  # lintrain: ignore\n")
    run(["check"])
    assert [line.split(" ", 1)[0] for line in capsys.readouterr().out.splitlines()] == ["t.py:3:8:", "1"]
    assert set(found(capsys, "--preview")) == {"unused-suppression"}


def test_tables_and_pages_say_what_is_in_preview() -> None:
    lines = list(table(pages([PLANTED, SAPLING]), Style(120)))
    assert [line.endswith("A call that was planted. (in preview)") for line in lines[1:3]] == [False, True]
    young, old = (page_text(page, Style()) for page in pages([SAPLING, PLANTED])[:2])
    said = "in preview: heard only with `--preview`, and may still change"
    assert said in young.replace("\n", " ")
    assert said not in old
