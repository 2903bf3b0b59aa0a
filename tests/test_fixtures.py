"""Whole scripts, checked and probed: exactly the findings that they are marked with, exactly the verdicts listed.

A line of a fixture that ends in `# <- rule` is reported by that rule, once for each mark; no other line is reported.
`fixtures/course/expected.toml` tells what a probe says.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lintrain.evidence.run import Evidence
from lintrain.model.finding import Finding
from lintrain.model.location import Location
from lintrain.model.verdict import Outcome
from lintrain.rulebook import load_rules
from lintrain.runtime.parent.record import Record, read_record
from lintrain.source.source import Source
from tests.pages.assembly import Script, marked_rules
from tests.pages.demands import findings_of
from tests.pages.judging import moved
from tests.support.commands import commands_python

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
COURSE = FIXTURES / "course"
EXPECTED: dict[str, dict[str, Any]] = tomllib.loads((COURSE / "expected.toml").read_text())
Marks = Counter[tuple[int | None, int, str]]
"""How often a rule reports a line: cell (None in a script), line, rule."""


def fixture_files() -> list[str]:
    found = [*FIXTURES.rglob("*.py"), *FIXTURES.rglob("*.ipynb")]
    return sorted(path.relative_to(ROOT).as_posix() for path in found if "assets" not in path.relative_to(ROOT).parts)


def marks_of(path: Path) -> Marks:
    if path.suffix == ".ipynb":
        cells = json.loads(path.read_text())["cells"]
        return Counter(mark for number, cell in enumerate(cells, start=1) for mark in marks_in(cell["source"], number))
    return Counter(marks_in(path.read_text().splitlines(), None))


def marks_in(lines: list[str], cell: int | None) -> Iterator[tuple[int | None, int, str]]:
    for number, line in enumerate(lines, start=1):
        for rule in marked_rules(line):
            yield cell, number, rule


@pytest.fixture(scope="session")
def checked(assets: Path) -> dict[str, Marks]:
    """What `lintrain check` finds in the fixtures, by file: one run for each project, for each has its own versions."""
    found: dict[str, Marks] = {path: Counter() for path in fixture_files()}
    for project in sorted({project_of(path) for path in found}):
        for finding in check([path for path in found if project_of(path) == project]):
            location = finding["location"]
            found[location["path"]][location.get("cell"), location["line"], finding["rule"]] += 1
    return found


def project_of(path: str) -> str:
    """The folder whose requirements a fixture is written for."""
    folder = (ROOT / path).parent
    return folder.as_posix() if (folder / "requirements.txt").is_file() else ROOT.as_posix()


def check(paths: list[str]) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "lintrain", "check", "--isolated", "--output-format", "json", *paths]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    findings: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
    return findings


@pytest.mark.parametrize("path", fixture_files())
def test_a_fixture_gives_exactly_the_findings_that_it_is_marked_with(path: str, checked: dict[str, Marks]) -> None:
    marked = marks_of(ROOT / path)
    complaints = [f"{described(mark)} is reported and not marked" for mark in (checked[path] - marked).elements()]
    complaints += [f"{described(mark)} is marked and not reported" for mark in (marked - checked[path]).elements()]
    if complaints:
        pytest.fail("\n".join(complaints), pytrace=False)


def described(mark: tuple[int | None, int, str]) -> str:
    cell, line, rule = mark
    return f"{f'cell {cell}, ' if cell else ''}line {line}: {rule}"


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.usefixtures("warm_command")
def test_a_probe_gives_exactly_the_listed_verdicts(name: str, assets: Path, warm_python: str, tmp_path: Path) -> None:
    document, record = probe(name, warm_python, tmp_path)
    expected = EXPECTED[name]
    failed = next((stage for run in record.runs for stage in run.stages if stage.status == "failed"), None)
    assert {
        "exit": document["exit_code"],
        "fails": failed.name if failed else None,
        "confirmed": ruled(document, "confirmed"),
        "inconclusive": ruled(document, "inconclusive"),
        "refuted": ruled(document, "refuted"),
        "planted": verdicts_on_planted(name, record),
    } == {
        "exit": expected["exit"],
        "fails": expected.get("fails"),
        "confirmed": expected["confirmed"],
        "inconclusive": expected["inconclusive"],
        "refuted": [],
        "planted": {rule: {Outcome.REFUTED} for rule in expected.get("planted", [])},
    }
    assert [claim_of_a_gone_import(name, evidence) for evidence in record.runs] == [Outcome.REFUTED] * len(record.runs)


def probe(name: str, python: str, folder: Path) -> tuple[dict[str, Any], Record]:
    """The JSON report of a probe, and the evidence that it wrote."""
    evidence = folder / "evidence.json"
    words = ["probe", "-q", "--json", "--python", python, "--evidence", str(evidence)]
    command = [commands_python(), "-m", "lintrain", *words]
    done = subprocess.run([*command, f"fixtures/course/{name}"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout), read_record(evidence)


def ruled(document: dict[str, Any], outcome: str) -> list[str]:
    """The rules of the findings with a ruling, in order, once for each finding."""
    return sorted(
        finding["rule"]
        for finding in document["findings"]
        if finding["verdict"] and finding["verdict"]["outcome"] == outcome
    )


def verdicts_on_planted(name: str, record: Record) -> dict[str, set[Outcome]]:
    """What the evidence says of claims that were true of another script and are false of this one."""
    expected = EXPECTED[name]
    rules = {rule.name: rule.rule for rule in load_rules()}
    verdicts: dict[str, set[Outcome]] = {}
    for claim in claims(expected["claimed_by"], name) if "planted" in expected else []:
        if claim.rule in expected["planted"]:
            rule = rules[claim.rule]
            outcomes = {rule.verify(rule.restored(claim), evidence).outcome for evidence in record.runs}
            verdicts.setdefault(claim.rule, set()).update(outcomes)
    return verdicts


def claim_of_a_gone_import(name: str, evidence: Evidence) -> Outcome:
    """What the evidence says of a claim that no script may get away with: that an import which works has no target."""
    lines = (COURSE / name).read_text().splitlines()
    line = next(number for number, text in enumerate(lines, start=1) if "AutoTokenizer" in text)
    location = Location(f"fixtures/course/{name}", line, 1, line, 2)
    claim = {"module": "transformers", "name": "AutoTokenizer", "is_certain": True}
    (rule,) = (each.rule for each in load_rules() if each.name == "removed-name")
    finding = rule.finding(location, "`AutoTokenizer` was removed", claim=claim)
    return rule.verify(rule.restored(finding), evidence).outcome


def claims(maker: str, subject: str) -> list[Finding]:
    """The findings of one script, as if made of the lines of another that stand in their place."""
    before, after = script_of(maker), script_of(subject)
    path = f"fixtures/course/{subject}"
    return [moved(finding, before, after, path) for finding in static_findings(maker)]


def script_of(name: str) -> Script:
    text = (COURSE / name).read_text()
    return Script(text, text, 0)


@cache
def static_findings(name: str) -> tuple[Finding, ...]:
    return tuple(findings_of(load_rules(), script_of(name)))


def test_every_script_that_can_run_here_has_its_verdicts_listed() -> None:
    runnable = {path.name for path in COURSE.glob("*.py")}
    assert runnable - set(EXPECTED) == {"loop.py", "loop_mended.py"}


def test_the_script_for_measuring_speed_has_its_150_lines() -> None:
    assert len((FIXTURES / "speed" / "functions_150.py").read_text().splitlines()) == 150


def test_no_mended_fixture_is_marked() -> None:
    marked = [path for path in fixture_files() if "mended" in path and marks_of(ROOT / path)]
    assert marked == []


def test_no_fixture_has_a_line_that_python_cannot_read() -> None:
    for path in FIXTURES.rglob("*.py"):
        if "assets" not in path.relative_to(ROOT).parts:
            assert Source(path.name, path.read_text()).tree.body
