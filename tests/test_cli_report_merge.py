"""`lintrain report merge`: a check's findings and the verdicts of probes in one report."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lintrain._version import __version__
from lintrain.cli import run
from lintrain.evidence.stages import Ending, EndingKind
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.report.machine.compact import expanded
from lintrain.report.machine.document import CheckReport, VerdictEntry, as_json
from lintrain.report.machine.entries import check_report
from lintrain.runtime.parent.record import SCHEMA, Record, plain, write_record
from lintrain.settings.settings import FORMATS
from tests.support.notebooks import notebook
from tests.support.reports import CELLS, CODE, NOTEBOOK, SCRIPT, outcome


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path(SCRIPT).parent.mkdir()
    Path(SCRIPT).write_bytes(CODE.encode())
    Path(NOTEBOOK).write_bytes(notebook(*CELLS).encode())


def unjudged() -> CheckReport:
    """The report of the check alone, without the rule that fails."""
    report = check_report(outcome(), outcome().sources.get)
    return replace(report, findings=tuple(replace(one, verdict=None) for one in report.findings), crashes=())


def write(name: str, text: str) -> None:
    Path(name).write_bytes(text.encode("utf-8", "replace"))


def write_check(name: str = "check.json") -> str:
    write(name, as_json(unjudged()))
    return name


def write_probe(name: str, *outcomes: Outcome, code: int = 0, more: str = "") -> str:
    """A probe of the script that says this of its findings, and `more` that only it saw."""
    report = unjudged()
    judged = [
        replace(entry, verdict=VerdictEntry(outcome, f"said by {name}", {"rows": 3}))
        for entry, outcome in zip(report.findings, outcomes, strict=False)
    ]
    judged += [replace(judged[-1], message=more)] if more else []
    document: dict[str, Any] = {
        "format": 3,
        "lintrain": "0.1.0",
        "exit_code": code,
        "reason": "2 mistakes confirmed",
        "findings": [asdict(one) for one in judged],
        "sources": report.sources,
        "probe": {"script": SCRIPT},
    }
    write(name, json.dumps(plain(document), ensure_ascii=False))
    return name


def merged(*words: str) -> dict[str, Any]:
    run(["report", "merge", *words, "--output-format", "json", "--output-file", "merged.json"])
    return expanded(json.loads(Path("merged.json").read_text()), {})


def outcomes(document: dict[str, Any]) -> list[str | None]:
    return [one["verdict"] and one["verdict"]["outcome"] for one in document["findings"]]


def test_findings_get_their_verdicts_and_keep_their_fixes() -> None:
    document = merged(write_check(), write_probe("probe.json", Outcome.CONFIRMED, Outcome.REFUTED, code=1))
    assert outcomes(document) == ["confirmed", None, "refuted", None, None]
    assert [one["rule"] for one in document["findings"]][1:3] == ["logits-in-metric", "raw-dataset"]
    assert [one["location"]["path"] for one in document["findings"]] == [*[SCRIPT] * 4, NOTEBOOK]
    assert len(document["findings"][0]["fix"]["edits"]) == 2
    assert document["probes"] == [{"script": SCRIPT, "exit_code": 1, "reason": "2 mistakes confirmed"}]
    assert document["summary"]["findings"] == 5
    assert [one["reason"] for one in document["suppressed"]] == ["rows are ids, [sic]"]


def test_the_order_of_the_files_changes_nothing_and_the_result_can_be_joined_again() -> None:
    check, probe = write_check(), write_probe("probe.json", Outcome.CONFIRMED)
    first = merged(check, probe)
    assert merged(probe, check) == first
    Path("again.json").write_text(json.dumps(first))
    assert merged("again.json", check) == first


def test_of_several_probes_the_strongest_verdict_counts() -> None:
    weak = write_probe("weak.json", Outcome.INCONCLUSIVE, Outcome.REFUTED)
    strong = write_probe("strong.json", Outcome.REFUTED, Outcome.CONFIRMED)
    document = merged(write_check(), weak, strong)
    assert outcomes(document) == ["refuted", None, "confirmed", None, None]


def test_what_only_a_probe_saw_is_added_with_a_fingerprint_of_its_own() -> None:
    document = merged(write_check(), write_probe("probe.json", Outcome.CONFIRMED, more="only measured"))
    assert len(document["findings"]) == 6
    assert len({one["fingerprint"] for one in document["findings"]}) == 6


def test_verdicts_on_another_state_of_the_script_are_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    probe = write_probe("probe.json", Outcome.CONFIRMED, code=1)
    document = json.loads(Path(probe).read_text())
    document["sources"][SCRIPT] = "another"
    Path(probe).write_text(json.dumps(document))
    joined = merged(write_check(), probe)
    assert (outcomes(joined), joined["probes"]) == ([None] * 5, [])
    assert capsys.readouterr().err == (
        f"lintrain: {SCRIPT}: changed between check and probe, so verdicts on it are left out\n"
    )


@pytest.mark.parametrize(
    ("said", "probe_code", "code"),
    [(Outcome.REFUTED, 0, 0), (Outcome.INCONCLUSIVE, 0, 1), (Outcome.CONFIRMED, 1, 1), (Outcome.REFUTED, 1, 1)],
)
def test_the_exit_code_tells_whether_something_is_left_to_do(said: Outcome, probe_code: int, code: int) -> None:
    files = [write_check(), write_probe("probe.json", *[said] * 5, code=probe_code)]
    assert run(["report", "merge", *files]) == code
    assert run(["report", "merge", *files, "--exit-zero"]) == 0


def test_a_failed_rule_of_the_check_is_2() -> None:
    write("check.json", as_json(check_report(outcome(), outcome().sources.get)))
    assert run(["report", "merge", "check.json"]) == 2


@pytest.mark.parametrize("name", FORMATS)
def test_every_form_can_be_written(name: str) -> None:
    files = [write_check(), write_probe("probe.json", Outcome.CONFIRMED, Outcome.REFUTED)]
    assert run(["report", "merge", *files, "--output-format", name, "--output-file", "out/report"]) == 1
    assert "`raw` is raw" in Path("out/report").read_text() or "<code>raw</code>" in Path("out/report").read_text()


def test_the_full_form_shows_the_code_as_long_as_the_file_is_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    check = write_check()
    run(["report", "merge", check, "--output-format", "full"])
    shown = capsys.readouterr().out
    assert "n.ipynb:cell 3:2:7: error[raw-dataset]" in shown
    assert "2 │ train(raw, '😀')\n  │       ^^^" in shown
    Path(NOTEBOOK).write_text(notebook("x"))
    run(["report", "merge", check, "--output-format", "full"])
    shown = capsys.readouterr().out
    assert "train(raw, '😀')" not in shown
    assert '4 │ x = "😀é"; train(raw, 1)' in shown


def test_evidence_is_judged_with_todays_rules(capsys: pytest.CaptureFixture[str]) -> None:
    finding = Finding("raw-dataset", Level.ERROR, Location("gone.py", 3, 1, 3, 4), "`raw` is raw")
    ending = Ending(EndingKind.NO_TRAINING, "no training call was reached")
    write_record(Record(SCHEMA, "0.1.0", "gone.py", "0", "python3", ending, (), (finding,)), Path("evidence.json"))
    document = merged("evidence.json")
    assert [(one["rule"], one["verdict"]["outcome"]) for one in document["findings"]] == [
        ("raw-dataset", "inconclusive")
    ]
    assert document["probes"][0]["exit_code"] == 3


NOT_A_REPORT = "not a lintrain report; `lintrain check --output-format json` writes one"
OTHER_FORMAT = f"but lintrain {__version__} reads format 3; write the report again with this version"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x", "not a lintrain report: not valid JSON (Expecting value: line 1 column 1 (char 0))"),
        ("[]", NOT_A_REPORT),
        ('{"summary": {}}', NOT_A_REPORT),
        ('{"probe": [], "format": 1}', f"report format 1, {OTHER_FORMAT}"),
        ('{"summary": {}, "format": 1}', f"report format 1, {OTHER_FORMAT}"),
        ('{"summary": {}, "findings": [], "format": 3}', "`lintrain`: field required"),
        ('{"schema": 99}', "evidence schema 99 comes from a newer lintrain; this one reads 3; probe the script again"),
    ],
)
def test_what_is_no_report_is_refused(capsys: pytest.CaptureFixture[str], text: str, said: str) -> None:
    Path("x.json").write_text(text)
    assert run(["report", "merge", "x.json"]) == 2
    assert capsys.readouterr().err == f"lintrain: x.json: {said}\n"
