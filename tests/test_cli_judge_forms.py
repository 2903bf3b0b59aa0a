"""What a probe says, in the forms that a check has; judged from stored evidence, so nothing runs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from junitparser import JUnitXml

from lintrain.cli import run
from lintrain.evidence.run import Evidence
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.location import Location
from lintrain.runtime.parent.record import SCHEMA, Record, write_record
from lintrain.settings.settings import FORMATS

SCRIPT = """\
from transformers import Trainer, TrainingArguments

args = TrainingArguments("out", evaluation_strategy="no")
Trainer(model, args).train()
"""


@pytest.fixture(autouse=True)
def evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("lintrain.toml").write_text('[target-versions]\ntransformers = "4.57.6"\n')
    Path("train.py").write_text(SCRIPT)
    run_of_it = Evidence(
        script="train.py",
        framework="transformers",
        trainer="Trainer",
        call=Location("train.py", 4, 1, 4, 29),
        construction=None,
        device="cpu",
        versions={},
    )
    digest = hashlib.sha256(SCRIPT.encode()).hexdigest()
    record = Record(SCHEMA, "0.1", "train.py", digest, "python3", Ending(EndingKind.MEASURED), (run_of_it,))
    write_record(record, Path("evidence.json"))


def judged(*words: str) -> int:
    return run(["judge", "evidence.json", *words])


@pytest.mark.parametrize("name", FORMATS)
def test_every_form_names_the_finding_and_the_exit_code_stays(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    plain = judged()
    capsys.readouterr()
    assert judged("--output-format", name) == plain
    shown = capsys.readouterr().out
    assert judged("--output-format", name, "--output-file", "report") == plain
    assert Path("report").read_text() == shown
    assert "undefined-name" in shown


def test_json_is_the_same_under_both_options(capsys: pytest.CaptureFixture[str]) -> None:
    judged("--json")
    short = capsys.readouterr().out
    judged("--output-format", "json")
    assert capsys.readouterr().out == short
    assert list(json.loads(short)["sources"]) == ["train.py"]
    assert judged("--json", "--output-format", "sarif") == 2
    said = "lintrain: --json and --output-format sarif cannot be combined\n"
    assert capsys.readouterr().err == said


def test_junit_has_a_test_for_the_probe_itself(capsys: pytest.CaptureFixture[str]) -> None:
    code = judged("--output-format", "junit")
    suites = {suite.name: list(suite) for suite in JUnitXml.fromstring(capsys.readouterr().out.encode())}
    (case,) = suites["lintrain probe"]
    assert (case.name, case.is_passed) == ("train.py", code == 0)


def test_a_report_that_cannot_be_written_is_said_before_anything_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    assert judged("--output-file", "none/report") == 2
    assert capsys.readouterr().err == "lintrain: none/report: the folder does not exist\n"
