"""Reports link a finding to its rule's page where the project says at which address the pages are, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lintrain.cli import run

SCRIPT = "from transformers import TrainingArguments\n\nTrainingArguments('out', evaluation_strategy='no')\n"
SETTING = 'documentation = "https://docs.example.org/lintrain/"\n[target-versions]\ntransformers = "4.57.6"\n'
PAGE = "https://docs.example.org/lintrain/rules/removed-argument.html"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "lintrain.toml").write_text(SETTING)
    return tmp_path


def checked(capsys: pytest.CaptureFixture[str], form: str) -> str:
    assert run(["check", "--output-format", form]) == 1
    return capsys.readouterr().out


def test_sarif_has_it_as_the_address_of_help(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (rule,) = json.loads(checked(capsys, "sarif"))["runs"][0]["tool"]["driver"]["rules"]
    assert rule["helpUri"] == PAGE


def test_rdjson_has_it_as_the_address_of_the_code(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (one,) = json.loads(checked(capsys, "rdjson"))["diagnostics"]
    assert one["code"] == {"value": "removed-argument", "url": PAGE}


def test_a_merged_report_has_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "check.json").write_text(checked(capsys, "json"))
    assert run(["report", "merge", "check.json", "--output-format", "sarif"]) == 1
    assert PAGE in capsys.readouterr().out


def test_explain_ends_with_it(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "removed-argument"]) == 0
    assert capsys.readouterr().out.endswith(f"\n\n{PAGE}\n")
    assert run(["explain", "removed-argument", "--output-format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["address"] == PAGE


def test_without_the_setting_nothing_links_anywhere(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "lintrain.toml").write_text(SETTING.partition("\n")[2])
    assert "helpUri" not in checked(capsys, "sarif")
    assert '"url"' not in checked(capsys, "rdjson")
    assert run(["explain", "removed-argument"]) == 0
    assert "://" not in capsys.readouterr().out.rpartition("\n\n")[2]


def test_an_address_that_is_none_is_said(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "lintrain.toml").write_text('documentation = "docs.example.org"\n')
    for command in (["explain", "removed-argument"], ["check"]):
        assert run(command) == 2
        assert "`documentation`: `docs.example.org` is not a website" in capsys.readouterr().err
