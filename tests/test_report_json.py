"""The report for programs, and its schema."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it ships no types

from lintrain.check.fixing import TextEdit, TextEdits
from lintrain.check.result import CheckResult, Crash, FileOutcome, Reported, Silenced
from lintrain.model.finding import Finding, Related
from lintrain.model.fixes import Fix, Replace
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.model.verdict import Verdict
from lintrain.report.machine.compact import expanded
from lintrain.report.machine.document import as_json, check_report_schema, plain_entries
from lintrain.report.machine.entries import check_report, finding_entries
from lintrain.source.reading import read_bytes
from lintrain.source.source import Source
from lintrain.source.suppression import Suppression
from tests.support.notebooks import notebook

CELLS = ("#md x", "a = 1", "!ls\nf(a)")


def outcome() -> CheckResult:
    source = read_bytes("n.ipynb", notebook(*CELLS).encode())
    at = Location("n.ipynb", 5, 3, 5, 4)
    finding = Finding(
        "raw-dataset",
        Level.ERROR,
        at,
        "`é` is raw",
        "why",
        "help",
        (Related(Location("n.ipynb", 2, 1, 2, 2), "made here"),),
        "train_dataset",
        claim={"num_labels": 2, "known": True, "name": None, "rate": 0.5},
    )
    reported = Reported(
        finding, Fix.of("write it", safe=True), Verdict.confirmed("3 of 4", columns=["a", {"b": 1}], ratio=0.75)
    )
    silenced = Silenced(Reported(finding), Suppression(at, (), 5, reason="known"))
    crash = Crash("n.ipynb", "unwell", "ValueError: no")
    file = FileOutcome("n.ipynb", source, (reported,), (crash,), (silenced, silenced))
    return CheckResult((file, FileOutcome("gone.py", None)))


def test_everything_about_a_finding_is_in_the_report() -> None:
    text = as_json(check_report(outcome(), outcome().sources.get, fixed=1))
    written = expanded(json.loads(text), {})
    (finding,) = written["findings"]
    assert "f(a)" in notebook(*CELLS).split("\n")[finding["location"].pop("file_line") - 1]
    assert finding["location"] == {
        "path": "n.ipynb",
        "cell": 3,
        "line": 2,
        "column": 3,
        "end_line": 2,
        "end_column": 4,
        "file_column": 8,
        "file_end_line": 48,
        "file_end_column": 9,
    }
    assert [(reason["location"]["cell"], reason["note"]) for reason in finding["related"]] == [(2, "made here")]
    assert finding["fix"] == {"title": "write it", "safe": True, "edits": []}
    assert [(one["reason"], one["comment"]["line"]) for one in written["suppressed"]] == [("known", 2), ("known", 2)]
    assert finding["verdict"]["measured"] == {"columns": ["a", {"b": 1}], "ratio": 0.75}
    assert written["crashes"] == [{"path": "n.ipynb", "rule": "unwell", "error": "ValueError: no"}]
    assert written["summary"] == {
        "files": 2,
        "findings": 1,
        "levels": {"error": 1, "warning": 0, "note": 0},
        "rules": {"raw-dataset": 1},
        "suppressed": 2,
        "fixed": 1,
        "known": 0,
    }


def test_what_another_key_says_and_nulls_are_absent() -> None:
    written = json.loads(as_json(check_report(outcome(), outcome().sources.get), {"raw-dataset": "page"}))
    assert "null" not in json.dumps(written["findings"])
    assert "claim" not in written["findings"][0]
    assert "path" not in written["findings"][0]["related"][0]["location"]
    assert written["summary"] == {"files": 2, "findings": 1, "suppressed": 2}


def test_a_report_is_the_same_after_it_was_written_and_read() -> None:
    report = check_report(outcome(), outcome().sources.get)
    whys = {one.rule: one.why for one in report.findings}
    for known in ({}, whys):
        assert expanded(json.loads(as_json(report, known)), known) == json.loads(json.dumps(plain_entries(report)))


def test_the_course_script_is_reported_in_5_kilobytes() -> None:
    root = Path(__file__).parent.parent
    words = ["check", "--isolated", "--no-cache", "--output-format", "json", "fixtures/course/as_published.py"]
    done = subprocess.run([sys.executable, "-m", "lintrain", *words], cwd=root, capture_output=True, check=False)
    assert len(json.loads(done.stdout)["findings"]) == 7
    assert len(done.stdout) < 5_000


def test_the_report_obeys_its_schema() -> None:
    schema = check_report_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(as_json(check_report(outcome(), outcome().sources.get))), schema)


def test_the_schema_refuses_what_is_no_report() -> None:
    written = json.loads(as_json(check_report(outcome(), outcome().sources.get)))
    written["findings"][0]["level"] = "fatal"
    assert not jsonschema.Draft202012Validator(check_report_schema()).is_valid(written)


def test_each_file_is_parsed_once_for_all_of_its_fixes() -> None:
    texts = {path: read_bytes(path, b"first = 1\nsecond = 2\n") for path in ("a.py", "b.py")}

    def replaced(path: str, line: int) -> Reported:
        name = ("first", "second")[line - 1]
        location = Location(path, line, 1, line, len(name) + 1)
        fix = Fix.of("rename", Replace(location, f"new_{name}"), safe=True)
        return Reported(Finding("some-rule", Level.ERROR, location, f"line {line}"), fix)

    asked: list[str] = []
    edits = TextEdits()

    def counted(source: Source, fix: Fix) -> tuple[TextEdit, ...]:
        if asked[-1:] != [source.path]:
            asked.append(source.path)
        return edits(source, fix)

    found = [replaced("a.py", 1), replaced("b.py", 1), replaced("a.py", 2)]
    entries = finding_entries(found, texts.get, counted)
    assert asked == ["a.py", "b.py"]
    written = [(entry.location.path, entry.fix.edits[0].text) for entry in entries if entry.fix]
    assert written == [("a.py", "new_"), ("b.py", "new_"), ("a.py", "new_")]
