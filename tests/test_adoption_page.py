"""A team's path on the page about adoption, carried out in a repository with 300 findings: each step, in its order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from tests.conftest import ROOT
from tests.support.language_client import start_inside

PAGE = (ROOT / "docs" / "adoption.md").read_text(encoding="utf-8")
LOOP = (ROOT / "fixtures" / "course" / "loop.py").read_text(encoding="utf-8")
FOLDERS = ("training", "research", "examples")
STEP = re.compile(r"^## (\d+)\. [^\n]+\n(.*?)(?=^## )", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```(sh|toml|yaml)\n(.*?)^```", re.MULTILINE | re.DOTALL)


class Ran(NamedTuple):
    """A command line that was carried out, in the step with this number."""

    step: int
    line: str
    code: int
    text: str


class Team:
    """A repository in which the steps of the page are carried out."""

    def __init__(self, folder: Path, lintrain: str) -> None:
        self.folder = folder / "repository"
        self.programs = folder / "programs"
        self.programs.mkdir(parents=True)
        tests = "pytest -p no:cacheprovider -c /dev/null -q"
        for name, python, module in (("lintrain", lintrain, "lintrain"), ("pytest", sys.executable, tests)):
            (self.programs / name).write_text(f'#!/bin/sh\nexec "{python}" -m {module} "$@"\n')
            (self.programs / name).chmod(0o755)
        self.variables = {
            **os.environ,
            "PATH": f"{self.programs}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "XDG_DATA_HOME": str(folder / "data"),
            "LINTRAIN_CACHE_DIR": str(folder / "cache"),
            "PRE_COMMIT_HOME": str(folder / "hooks"),
        }
        for name in FOLDERS:
            (self.folder / name).mkdir(parents=True)
            for number in range(25):
                (self.folder / name / f"train_{number:02}.py").write_text(f"# {name} {number}\n{LOOP}")
        for words in ("init -q", "add .", "-c user.name=a -c user.email=a@b commit -qm begin"):
            self.run(f"git {words}")

    def run(self, line: str) -> tuple[int, str]:
        """The exit code and the output of a command line."""
        done = subprocess.run(
            line, shell=True, cwd=self.folder, env=self.variables, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stdout + done.stderr

    def rules(self, *words: str) -> list[tuple[str, str]]:
        """The file and the rule of each finding."""
        _, text = self.run(" ".join(("lintrain check --no-cache --output-format json 2>/dev/null", *words)))
        found = json.loads(text)["findings"]
        return [(each["location"]["path"], each["rule"]) for each in found]

    def follow(self) -> Iterator[Ran]:
        """Carry out all blocks: commands line by line, settings added to the file that their first line names."""
        for number, body in STEP.findall(PAGE):
            for language, block in BLOCK.findall(body):
                if language == "sh":
                    for line in block.splitlines():
                        yield Ran(int(number), line, *self.run(line))
                else:
                    name, _, text = block.partition("\n")
                    file = self.folder / name.removeprefix("# ")
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_text((file.read_text() if file.exists() else "") + text)


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory, warm_commands: str) -> Team:
    return Team(tmp_path_factory.mktemp("team"), warm_commands)


@pytest.fixture(scope="module")
def before(team: Team) -> list[tuple[str, str]]:
    """The findings before the first step."""
    return team.rules()


@pytest.fixture(scope="module")
def ran(team: Team, before: list[tuple[str, str]]) -> dict[tuple[int, str], Ran]:
    """What all steps gave."""
    assert before
    return {(each.step, each.line): each for each in team.follow()}


pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ran")]


def test_the_repository_has_300_findings(before: list[tuple[str, str]]) -> None:
    assert len(before) == 300
    assert PAGE.count("300 findings") == 1


def test_every_command_ends_as_the_page_says(ran: dict[tuple[int, str], Ran]) -> None:
    failing = [(each.step, each.line) for each in ran.values() if each.code != 0]
    assert failing == [
        (1, "lintrain check --statistics-by folder"),
        (1, "lintrain check --statistics"),
        (1, "lintrain check --select missing-zero-grad training"),
        (5, "lintrain check --no-baseline --select ALL --statistics-by folder"),
    ], "\n".join(f"{each.line}: {each.text}" for each in ran.values() if each.code)
    assert {each.code for each in ran.values()} == {0, 1}


def test_the_findings_are_counted(ran: dict[tuple[int, str], Ran]) -> None:
    assert "100  training  (50 errors, 50 warnings)" in ran[1, "lintrain check --statistics-by folder"].text
    assert "75  error  missing-zero-grad" in re.sub(" +", "  ", ran[1, "lintrain check --statistics"].text)


def test_the_baseline_hides_all_of_them(ran: dict[tuple[int, str], Ran]) -> None:
    assert "recorded 300 findings (300 new, 0 removed)" in ran[3, "lintrain baseline"].text
    assert "hides 300 findings" in ran[3, "lintrain check"].text


def test_a_folder_has_its_own_settings(ran: dict[tuple[int, str], Ran], team: Team) -> None:
    text = ran[5, "lintrain check --show-settings research"].text
    assert f"# from {team.folder}/research/lintrain.toml" in text
    assert 'fail-on = "error"' in text
    found = team.rules("--no-baseline")
    assert {rule for path, rule in found if path.startswith("research")} == {"high-learning-rate"}


def test_the_rule_of_the_team_runs_and_its_test_passes(ran: dict[tuple[int, str], Ran], team: Team) -> None:
    assert "1 passed" in ran[6, "pytest lint/rules/test_no_tracker.py"].text
    script = team.folder / "training" / "tracked.py"
    script.write_text("from transformers import TrainingArguments\nTrainingArguments('out', report_to='none')\n")
    assert team.rules("training") == [("training/tracked.py", "no-tracker")]
    assert team.run("lintrain check")[0] == 0  # a warning
    script.unlink()


def test_a_new_error_fails_the_commit_and_a_known_one_does_not(ran: dict[tuple[int, str], Ran], team: Team) -> None:
    assert "Passed" in ran[7, "pre-commit run lintrain --all-files"].text
    script = team.folder / "training" / "new.py"
    script.write_text(LOOP)
    team.run("git add training/new.py")
    code, text = team.run("pre-commit run lintrain")
    assert (code, "new.py" in text, "train_00.py" in text) == (1, True, False)
    team.run("git rm -qf training/new.py")


def test_the_workflow_obeys_its_schema_and_its_commands_pass(team: Team) -> None:
    file = team.folder / ".github" / "workflows" / "lintrain.yml"
    program = str(Path(sys.executable).parent / "check-jsonschema")
    assert team.run(f"{program} --builtin-schema vendor.github-workflows {file}")[0] == 0
    steps = yaml.safe_load(file.read_text())["jobs"]["lintrain"]["steps"]
    commands = [step["run"] for step in steps if "run" in step]
    assert commands[0].startswith("pip install ")
    assert [team.run(command)[0] for command in commands[1:]] == [0, 0]


def test_an_editor_reads_the_same_files(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_DATA_HOME", "LINTRAIN_CACHE_DIR"):
        monkeypatch.setenv(name, team.variables[name])
    client = start_inside()
    try:
        client.start([team.folder], None, None)
        known = team.folder / "training" / "train_01.py"
        assert client.diagnostics(client.open(known)) == []
        scripts = {name: team.folder / name / "fresh.py" for name in ("training", "research")}
        found = {}
        for name, script in scripts.items():
            script.write_text(LOOP)
            found[name] = {each["code"] for each in client.diagnostics(client.open(script))}
            script.unlink()
        assert found["training"] - found["research"] == {
            "eval-mode-in-training",
            "missing-no-grad",
            "missing-zero-grad",
        }
        assert found["research"] == {"high-learning-rate"}
    finally:
        client.stop()


def test_the_rest_is_paid_off(ran: dict[tuple[int, str], Ran]) -> None:
    assert "50 removed" in ran[10, "lintrain baseline --prune"].text
