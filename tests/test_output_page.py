"""What docs/output.md shows works, and it names every form."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from lintrain.cli import run
from lintrain.settings.settings import FORMATS
from tests.support.notebooks import notebook
from tests.test_cli_report_merge import write_check

PAGE = (Path(__file__).parent.parent / "docs" / "output.md").read_text()
COMMANDS = [line.strip() for line in re.findall(r"^    (lintrain .+)$", PAGE, flags=re.MULTILINE)]
SCRIPT = "from transformers import TrainingArguments\n\nx = 1; TrainingArguments('out', evaluation_strategy='no')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "lintrain.toml").write_text('[target-versions]\ntransformers = "4.57.6"\n')
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "train.ipynb").write_text(notebook("#md x", SCRIPT))
    (tmp_path / "src").mkdir()
    return tmp_path


def test_every_form_is_in_the_table_and_no_other() -> None:
    assert sorted(re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, flags=re.MULTILINE)) == sorted(FORMATS)


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("lintrain check")])
def test_a_command_of_a_check_writes_what_it_says(
    project: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    words = shlex.split(command)[1:]
    assert run(words) == 1
    file = words[words.index("--output-file") + 1] if "--output-file" in words else None
    text = (project / file).read_text() if file else capsys.readouterr().out
    assert text.count("evaluation_strategy") >= 2 if file != "report.html" else "evaluation_strategy" in text


@pytest.mark.parametrize("command", [one for one in COMMANDS if one.startswith("lintrain probe")])
def test_a_command_of_a_probe_has_these_options(capsys: pytest.CaptureFixture[str], command: str) -> None:
    run(["probe", "--help"])
    known = capsys.readouterr().out
    assert [word for word in shlex.split(command) if word.startswith("--") and word not in known] == []


def test_the_reports_are_joined_as_shown(project: Path) -> None:
    (command,) = [one for one in COMMANDS if one.startswith("lintrain report merge")]
    write_check("check.json")
    write_check("evidence.json")
    assert run(shlex.split(command)[1:]) == 1
    assert (project / "lintrain.sarif").exists()


def test_a_notebook_is_shown_as_it_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (shown,) = re.findall(r"^    (train\.ipynb:.+)$", PAGE, flags=re.MULTILINE)
    run(["check", "train.ipynb", "--output-format", "pylint", "--target", "transformers=4.57.6"])
    said = capsys.readouterr().out
    pattern = re.sub(r"\d+", r"\\d+", re.escape(shown).replace(r"\ \(cell", r".* \(cell"))
    assert re.match(pattern, said) is not None
