"""The report in the forms of CI services and review tools, read as those read them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from junitparser import Error, Failure, JUnitXml

from lintrain.check.result import CheckResult, FileOutcome, Reported
from lintrain.report.machine.choice import program_text
from lintrain.report.machine.document import CheckReport, ProbeEntry
from lintrain.report.machine.entries import check_report, no_edits
from lintrain.settings.settings import FOR_PEOPLE, FORMATS
from lintrain.source.reading import read_bytes
from tests.support.reports import CODE, NOTEBOOK, SCRIPT, line_in_notebook, outcome

PROGRAMS = [name for name in FORMATS if name not in FOR_PEOPLE and name != "html"]


@pytest.fixture(autouse=True)
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CI_PROJECT_DIR", raising=False)
    return tmp_path


def report(*, judged: bool = False) -> CheckReport:
    document = check_report(outcome(), outcome().sources.get)
    return replace(document, probes=(ProbeEntry(SCRIPT, 1, "1 mistake\nconfirmed"),)) if judged else document


def text(name: str, *, judged: bool = False) -> str:
    return program_text(name, report(judged=judged), outcome().sources.get, ())


def test_json_lines_are_the_findings_of_json() -> None:
    lines = text("json-lines").removesuffix("\n").split("\n")
    assert [json.loads(line) for line in lines] == json.loads(text("json"))["findings"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_report_is_the_same_every_time_and_has_no_half_characters_or_escapes(name: str) -> None:
    written = text(name)
    assert written == text(name)
    assert written.endswith("\n")
    if not name.startswith("json"):
        written.encode()
        assert "\x1b" not in written


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_clean_check_gives_a_report_that_says_so(name: str) -> None:
    source = read_bytes("t.py", b"x = 1\n")
    document = check_report(CheckResult((FileOutcome("t.py", source),)), {"t.py": source}.get)
    written = program_text(name, document, {"t.py": source}.get, ())
    if name in ("github", "azure", "pylint", "json-lines"):
        assert written == ""
    elif name == "agent":
        assert written.startswith("lintrain: no findings in 1 file.")
    elif name == "junit":
        (suite,) = JUnitXml.fromstring(written.encode())
        assert [(case.name, case.is_passed) for case in suite] == [("no findings", True)]
    else:
        assert json.loads(written) is not None


def unescaped(escaped: str, escapes: dict[str, str]) -> str:
    """A text as a runner reads it."""
    return re.sub("|".join(map(re.escape, escapes)), lambda found: escapes[found[0].upper()], escaped, flags=re.I)


GITHUB = {"%0D": "\r", "%0A": "\n", "%3A": ":", "%2C": ",", "%25": "%"}
AZURE = {"%0D": "\r", "%0A": "\n", "%5D": "]", "%3B": ";", "%AZP25": "%"}


def commands(written: str, pattern: str, split: str, escapes: dict[str, str]) -> list[dict[str, str]]:
    """The commands of a log as the runner takes them apart: their properties, and the message as `text`."""
    found: list[dict[str, str]] = []
    for line in written.splitlines():
        match = re.fullmatch(pattern, line)
        assert match is not None
        pairs = [pair.split("=", 1) for pair in match["properties"].split(split) if pair]
        found.append({name: unescaped(value, escapes) for name, value in pairs})
        found[-1] |= {"text": unescaped(match["text"], escapes), "kind": match["kind"]}
    return found


def test_github_reads_back_what_was_meant(repository: Path) -> None:
    pattern = r"::(?P<kind>\w+) (?P<properties>[^:]*)::(?P<text>.*)"
    first, second, third, fourth, fifth = commands(text("github"), pattern, ",", GITHUB)
    assert [one["kind"] for one in (first, third, fourth)] == ["error", "warning", "notice"]
    assert first["file"] == str(repository / SCRIPT)
    assert (first["line"], first["col"], first["endLine"], first["endColumn"]) == ("4", "17", "4", "20")
    assert first["text"].split("\n") == [
        f"{SCRIPT}:4:17: raw-dataset: `raw` is raw (confirmed by a probe)",
        "  probe: confirmed, 3 of 4 rows",
        "  why: It ends the run.",
        "  fix: pass `encoded`",
    ]
    assert "`a]b;c,d:e%0A%` [x](1) <b>&" in third["text"]
    assert "col" not in fourth
    assert fourth["endLine"] == "9"
    assert second["title"] == "lintrain (raw-dataset)"
    assert (fifth["file"], fifth["line"]) == (str(repository / NOTEBOOK), str(line_in_notebook()))
    assert "(cell 3, line 2)" in fifth["text"]


def test_azure_reads_back_what_was_meant(repository: Path) -> None:
    pattern = r"##vso\[task\.logissue (?P<properties>[^\]]*)\](?P<text>(?P<kind>).*)"
    first, _, third, fourth, fifth = commands(text("azure"), pattern, ";", AZURE)
    assert [one["type"] for one in (first, third, fourth)] == ["error", "warning", "warning"]
    assert first["sourcepath"] == str(repository / SCRIPT)
    assert (first["linenumber"], first["columnnumber"], first["code"]) == ("4", "17", "raw-dataset")
    assert third["text"].startswith("`a]b;c,d:e%0A%` [x](1) <b>&")
    assert fifth["linenumber"] == str(line_in_notebook())


PARSEABLE = re.compile(
    r"(?P<path>(?:[A-Z]:\\)?[^:]*)(?::(?P<module>.*))?:(?P<line>\d+): "
    r"\[(?P<type>(?P<category>[A-Z])\d*)?(?:\((?P<symbol>.*)\), )?.*?\] (?P<message>.*)"
)
"""How the plugin of Jenkins reads pylint."""


def test_readers_of_pylint_find_file_line_level_rule_and_message() -> None:
    found = [PARSEABLE.fullmatch(line) for line in text("pylint").splitlines()]
    read = [match.group("path", "line", "category", "symbol", "message") for match in found if match]
    assert read[0] == (SCRIPT, "4", "E", "raw-dataset", "`raw` is raw (confirmed by a probe)")
    assert [one[2] for one in read] == ["E", "E", "W", "I", "E"]
    assert read[2][4].startswith("`a]b;c,d:e%0A%` [x](1)")
    assert read[4][:2] == (NOTEBOOK, str(line_in_notebook()))


def test_gitlab_gets_paths_of_its_project_and_fingerprints_that_differ(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CI_PROJECT_DIR", str(repository / "a b"))
    issues: list[dict[str, Any]] = json.loads(text("gitlab"))
    assert issues[0]["location"]["path"] == SCRIPT.removeprefix("a b/")
    monkeypatch.delenv("CI_PROJECT_DIR")
    issues = json.loads(text("gitlab"))
    assert issues[0]["location"] == {
        "path": SCRIPT,
        "positions": {"begin": {"line": 4, "column": 17}, "end": {"line": 4, "column": 20}},
    }
    assert len({issue["fingerprint"] for issue in issues}) == 5
    assert [issue["severity"] for issue in issues] == ["major", "major", "minor", "info", "major"]
    assert issues[4]["location"]["positions"]["begin"]["line"] == line_in_notebook()
    assert "(cell 3, line 2)" in issues[4]["description"]


def moved(one: Reported, lines: int) -> Reported:
    location = one.finding.location
    location = replace(location, line=location.line + lines, end_line=location.end_line + lines)
    return replace(one, finding=replace(one.finding, location=location))


def fingerprints(code: str) -> list[str]:
    """Those of the same findings in another state of the script."""
    document = outcome()
    script, book = document.files
    reported = tuple(moved(one, code.count("\n") - CODE.count("\n")) for one in script.reported)
    script = replace(script, source=read_bytes(SCRIPT, code.encode()), reported=reported, silenced=())
    changed = replace(document, files=(script, book))
    return [one.fingerprint for one in check_report(changed, changed.sources.get, 0, no_edits).findings]


def test_a_fingerprint_stays_when_its_line_moves_and_goes_when_the_line_changes() -> None:
    before = fingerprints(CODE)
    assert fingerprints(f"# more\n\n{CODE}") == before
    after = fingerprints(CODE.replace('"😀é"', '"z"'))
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, True, True, True]


def test_junit_is_read_by_its_parser() -> None:
    parsed = JUnitXml.fromstring(text("junit").encode())
    suites = {suite.name: list(suite) for suite in parsed}
    assert list(suites) == [SCRIPT, NOTEBOOK, "lintrain crashed"]
    assert (parsed.tests, parsed.failures, parsed.errors) == (6, 5, 1)
    first = suites[SCRIPT][0]
    assert first.name == "raw-dataset: `raw` is raw"
    assert first.classname == SCRIPT.removesuffix(".py")
    assert isinstance(first.result[0], Failure)
    assert "fix: pass `encoded`" in first.result[0].text
    assert isinstance(suites["lintrain crashed"][0].result[0], Error)
    assert len({(case.classname, case.name) for cases in suites.values() for case in cases}) == 6
    assert f'line="{line_in_notebook()}"' in text("junit")


def test_after_a_probe_the_refuted_pass_in_junit_and_are_left_out_elsewhere() -> None:
    parsed = JUnitXml.fromstring(text("junit", judged=True).encode())
    suites = {suite.name: list(suite) for suite in parsed}
    assert [case.is_passed for case in suites[SCRIPT]] == [False, False, False, True]
    assert suites["lintrain probe"][0].result[0].message == "1 mistake confirmed"
    for name in ("github", "azure", "pylint"):
        assert len(text(name, judged=True).splitlines()) == 4
        assert len(text(name).splitlines()) == 5
    assert (
        len(json.loads(text("gitlab", judged=True))) == len(json.loads(text("rdjson", judged=True))["diagnostics"]) == 4
    )


def test_rdjson_counts_bytes_and_suggests_what_the_fix_writes() -> None:
    document = json.loads(text("rdjson"))
    first, *_, last = document["diagnostics"]
    lines = CODE.encode().split(b"\n")
    at = first["location"]["range"]
    assert lines[at["start"]["line"] - 1][at["start"]["column"] - 1 : at["end"]["column"] - 1] == b"raw"
    put_in, replaced = first["suggestions"]
    assert (put_in["text"], replaced["text"]) == ("import math\n", "math.encoded")
    span = replaced["range"]
    assert lines[span["start"]["line"] - 1][span["start"]["column"] - 1 : span["end"]["column"] - 1] == b"raw"
    assert first["code"] == {"value": "raw-dataset"}
    assert [one["severity"] for one in document["diagnostics"]] == ["ERROR", "ERROR", "WARNING", "INFO", "ERROR"]
    assert first["related_locations"][0]["location"]["range"]["start"]["line"] == 3
    assert last["location"]["range"]["start"]["line"] == line_in_notebook()


def test_only_forms_that_tell_edits_find_them_out() -> None:
    from lintrain.report.machine.choice import WITH_EDITS

    document = check_report(outcome(), outcome().sources.get, 0, no_edits)
    for name in PROGRAMS:
        same = program_text(name, document, outcome().sources.get, ()) == text(name)
        assert same is (name not in WITH_EDITS), name
