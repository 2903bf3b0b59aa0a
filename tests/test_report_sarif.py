"""The report for code scanning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import unquote

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

from lintrain.report.machine.choice import program_text
from lintrain.report.machine.document import CheckReport, ProbeEntry, without_suppressed
from lintrain.report.machine.entries import check_report
from lintrain.report.machine.wording import file_uri, folder_uri, relative, uri_in
from lintrain.report.markdown import markdown
from lintrain.report.text.pages import pages
from lintrain.rulebook import load_rules
from tests.support.reports import CODE, NOTEBOOK, SCRIPT, line_in_notebook, outcome

SCHEMA = json.loads((Path(__file__).parent / "schemas" / "sarif-2.1.0.json").read_text())


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return tmp_path


def report() -> CheckReport:
    return check_report(outcome(), outcome().sources.get)


def log_of(document: CheckReport) -> dict[str, Any]:
    written = program_text("sarif", document, outcome().sources.get, load_rules())
    log: dict[str, Any] = json.loads(written)
    jsonschema.Draft202012Validator(SCHEMA).validate(log)
    assert "NaN," not in written
    return log


def run_of(document: CheckReport) -> dict[str, Any]:
    (run,) = log_of(document)["runs"]
    return dict(run)


def test_the_schema_refuses_what_is_no_log() -> None:
    log = log_of(report())
    log["runs"][0]["results"][0]["level"] = "fatal"
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid(log)


def test_a_clean_check_is_a_log_without_results() -> None:
    empty = check_report(replace(outcome(), files=()), outcome().sources.get)
    assert (run_of(empty)["results"], run_of(empty)["tool"]["driver"]["rules"]) == ([], [])


def test_files_count_from_the_root_of_the_repository(repository: Path) -> None:
    run = run_of(report())
    artifact = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
    assert artifact == {"uri": "below/a%20b/tr%C3%A4in%3B50%253B.py", "uriBaseId": "%SRCROOT%"}
    assert unquote(artifact["uri"]) == f"below/{SCRIPT}"
    assert run["originalUriBaseIds"] == {"%SRCROOT%": {"uri": repository.as_uri() + "/"}}


def test_paths_of_windows_become_uris() -> None:
    root = PureWindowsPath("C:\\my code")
    assert uri_in(PureWindowsPath("C:\\my code\\a b\\t#1.py"), root) == "a%20b/t%231.py"
    assert uri_in(PureWindowsPath("D:\\t.py"), root) is None
    assert folder_uri(root) == "file:///C:/my%20code/"
    assert file_uri(PureWindowsPath("\\\\host\\share\\é.py")) == "file://host/share/%C3%A9.py"
    assert file_uri(PurePosixPath("/a b/c.py")) == Path("/a b/c.py").as_uri()
    assert relative(PureWindowsPath("C:\\my code\\a b\\t.py"), root) == "a b/t.py"
    assert relative(PureWindowsPath("D:\\x\\t.py"), root) == "D:/x/t.py"
    assert uri_in(PurePosixPath("/r/c:x.py"), PurePosixPath("/r")) == "c%3Ax.py"


def test_columns_are_characters_and_the_log_says_so() -> None:
    run = run_of(report())
    assert run["columnKind"] == "unicodeCodePoints"
    region = run["results"][0]["locations"][0]["physicalLocation"]["region"]
    line = CODE.split("\n")[region["startLine"] - 1]
    assert line[region["startColumn"] - 1 : region["endColumn"] - 1] == "raw"


def test_regions_hold_their_code() -> None:
    results = run_of(report())["results"]
    regions = [one["locations"][0]["physicalLocation"]["region"] for one in results]
    assert [region["snippet"]["text"] for region in regions] == [
        "raw",
        "raw",
        "raw",
        "done(\n        raw)",
        "raw",
        "raw",
    ]
    (related,) = results[0]["relatedLocations"]
    assert related["physicalLocation"]["region"]["snippet"]["text"] == "raw"
    comment = results[-1]["suppressions"][0]["location"]["physicalLocation"]["region"]
    assert comment["snippet"]["text"] == "# lintrain: ignore[raw-dataset]"


def test_a_report_without_its_sources_has_no_code() -> None:
    log = json.loads(program_text("sarif", report(), lambda _: None, load_rules()))
    assert "snippet" not in json.dumps(log)


def test_the_log_names_the_address_of_the_documentation() -> None:
    def driver(documentation: str | None) -> dict[str, Any]:
        log = json.loads(program_text("sarif", report(), outcome().sources.get, load_rules(), documentation))
        jsonschema.Draft202012Validator(SCHEMA, format_checker=jsonschema.FormatChecker()).validate(log)
        return dict(log["runs"][0]["tool"]["driver"])

    assert driver("https://lint.example/docs")["informationUri"] == "https://lint.example/docs"
    assert "informationUri" not in driver(None)


def test_every_result_names_its_rule_whose_whole_page_is_there() -> None:
    run = run_of(report())
    rules = run["tool"]["driver"]["rules"]
    assert {rules[one["ruleIndex"]]["id"] == one["ruleId"] for one in run["results"]} == {True}
    assert [rule["id"] for rule in rules] == ["raw-dataset", "logits-in-metric", "unused-suppression"]
    assert "## When it is fine" in rules[0]["help"]["markdown"]
    assert rules[0]["help"]["text"].startswith(rules[0]["shortDescription"]["text"])
    assert [one["level"] for one in run["results"]] == ["error", "error", "warning", "note", "error", "error"]


def test_examples_of_every_page_are_fenced() -> None:
    for page in pages(load_rules()):
        text = markdown(page)
        assert text.count("```python\n") == text.count("\n```\n") + text.endswith("\n```"), page.name
        outside = "".join(text.split("```")[::2])
        assert "\n    " not in outside, page.name


def test_places_that_explain_a_result_are_related_to_it() -> None:
    first = run_of(report())["results"][0]
    (related,) = first["relatedLocations"]
    assert (related["message"]["text"], related["physicalLocation"]["region"]["startLine"]) == ("made here", 3)


def test_a_fix_is_the_text_that_it_puts_in() -> None:
    (fix,) = run_of(report())["results"][0]["fixes"]
    (change,) = fix["artifactChanges"]
    assert fix["description"]["text"] == "pass `encoded`"
    put_in = [one["insertedContent"]["text"] for one in change["replacements"]]
    assert put_in == ["import math\n", "math.encoded"]
    unsafe = run_of(report())["results"][4]
    assert unsafe["fixes"][0]["description"]["text"] == "mend (unsafe fix)"
    assert unsafe["properties"]["fixIsSafe"] is False


def test_a_result_in_a_notebook_stands_in_the_line_of_its_file_and_names_the_cell() -> None:
    result = run_of(report())["results"][4]
    (location,) = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == f"below/{NOTEBOOK}"
    assert location["physicalLocation"]["region"]["startLine"] == line_in_notebook()
    assert location["logicalLocations"] == [{"name": "cell 3", "fullyQualifiedName": "cell 3, line 2"}]
    assert result["message"]["text"].startswith("`raw` is raw (cell 3, line 2)")
    assert result["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"]["text"] == '\\"y\\"'


def test_fingerprints_are_all_different_and_stay_when_lines_move() -> None:
    def fingerprints(document: CheckReport) -> list[str]:
        return [one["partialFingerprints"]["lintrain/v1"] for one in run_of(document)["results"]]

    before = fingerprints(report())
    assert len(set(before)) == len(before) == 6
    assert fingerprints(report()) == before


def test_what_a_probe_measured_is_a_property() -> None:
    first = run_of(report())["results"][0]
    verdict = {"outcome": "confirmed", "reason": "3 of 4 rows", "measured": {"ratio": "NaN"}}
    assert first["properties"] == {"claim": {"rows": 3}, "subject": "raw", "verdict": verdict, "fixIsSafe": True}


def test_what_is_suppressed_in_the_source_says_by_which_comment_and_why() -> None:
    suppressed = run_of(report())["results"][-1]
    (suppression,) = suppressed["suppressions"]
    region = suppression.pop("location")["physicalLocation"]["region"]
    assert (region["startLine"], region["startColumn"]) == (6, 16)
    assert suppression == {"kind": "inSource", "status": "accepted", "justification": "rows are ids, [sic]"}
    assert not any("suppressions" in one for one in run_of(without_suppressed(report()))["results"])


def test_after_a_probe_what_it_refuted_has_passed() -> None:
    probed = replace(report(), probes=(ProbeEntry("train.py", 1, "1 mistake confirmed"),))
    run = run_of(probed)
    assert [(one["kind"], one["level"]) for one in run["results"][2:4]] == [("fail", "warning"), ("pass", "none")]
    assert run["invocations"][1]["exitCode"] == 1


def test_a_failed_rule_is_told_as_a_failure_of_the_run() -> None:
    (invocation,) = run_of(report())["invocations"]
    assert invocation["executionSuccessful"] is False
    assert invocation["toolExecutionNotifications"][0]["message"]["text"] == "`unwell` crashed: ValueError: no luck"


def test_brackets_in_a_message_are_no_links() -> None:
    assert "\\[x](1) <b>&" in run_of(report())["results"][2]["message"]["text"]


def test_what_the_baseline_hides_is_suppressed_from_outside() -> None:
    found = outcome()
    script, book = found.files
    hidden = replace(found, files=(script, replace(book, reported=(), known=book.reported)))
    last = run_of(check_report(hidden, hidden.sources.get))["results"][-1]
    suppression = {"kind": "external", "status": "accepted", "justification": "recorded in the baseline"}
    assert (last["ruleId"], last["suppressions"]) == ("raw-dataset", [suppression])
