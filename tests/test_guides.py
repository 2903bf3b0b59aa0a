"""What the pages on adoption and CI show works: commands run, configurations are read, files obey their schemas."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types
from check_jsonschema import main as check_jsonschema  # type: ignore[import-untyped]  # it ships no types
from click.testing import CliRunner

from lintrain.cli import run
from tests.support.commands import commands_python

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
ADOPTION = (ROOT / "docs" / "adoption.md").read_text()
CI = (ROOT / "docs" / "ci.md").read_text()
PROGRAMS = Path(sys.executable).parent


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


def schema_errors(name: str, *files: Path) -> str:
    # Started within this process: as a program it would take a second for its imports each time.
    done = CliRunner().invoke(check_jsonschema, ["--builtin-schema", f"vendor.{name}", *map(str, files)])
    return "" if done.exit_code == 0 else f"{done.output}{done.exception!r}"


def shown(folder: Path, mark: str) -> Path:
    """The block of the CI page that holds these words, as a file."""
    (block,) = [block for block in blocks(CI, "yaml") if mark in block]
    (folder / "shown.yml").write_text(block)
    return folder / "shown.yml"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text((ROOT / "fixtures/course/as_published.py").read_text())
    (tmp_path / "loop.py").write_text((ROOT / "fixtures/course/loop.py").read_text())
    (tmp_path / "notebook.ipynb").write_text((ROOT / "fixtures/course/notebook.ipynb").read_text())
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-qm", "begin"]):
        subprocess.run([*git, *words], cwd=tmp_path, check=True)
    return tmp_path


def test_the_configuration_of_the_page_on_adoption_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = [block for block in blocks(ADOPTION, "toml") if "per-file-ignores" in block]
    (tmp_path / "pyproject.toml").write_text(block)
    monkeypatch.chdir(tmp_path)
    assert run(["check", "--show-settings"]) == 0
    assert capsys.readouterr().err == ""


def test_the_options_that_are_named_exist(capsys: pytest.CaptureFixture[str]) -> None:
    known = ""
    for command in ("check", "baseline", "init", "probe", "trust"):
        run([command, "--help"])
        known += capsys.readouterr().out
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", ADOPTION + CI)) - {
        "--all-files",
        "--hook-stage",
    }  # pre-commit's
    assert {option for option in named if option not in known} == set()


@pytest.mark.parametrize(
    ("schema", "file", "right", "wrong"),
    [
        ("github-actions", "action.yml", "using: composite", "using: magic"),
        ("gitlab-ci", "ci/gitlab.yml", "image: python:3.12-slim", "image: [1]"),
        ("azure-pipelines", "ci/azure.yml", "- task: UsePythonVersion@0", "- job: UsePythonVersion@0"),
    ],
)
def test_a_file_for_ci_obeys_its_schema(schema: str, file: str, right: str, wrong: str, tmp_path: Path) -> None:
    assert schema_errors(schema, ROOT / file) == ""
    (tmp_path / "broken.yml").write_text((ROOT / file).read_text().replace(right, wrong))
    assert schema_errors(schema, tmp_path / "broken.yml") != ""


@pytest.mark.parametrize(
    ("schema", "mark"),
    [
        ("github-workflows", "security-events"),
        ("github-workflows", "lintrain probe"),
        ("gitlab-ci", "include:"),
        ("azure-pipelines", "vmImage"),
    ],
)
def test_a_pipeline_that_the_page_shows_obeys_its_schema(schema: str, mark: str, tmp_path: Path) -> None:
    assert schema_errors(schema, shown(tmp_path, mark)) == ""


def test_the_hooks_that_the_page_shows_are_those_there_are(tmp_path: Path) -> None:
    (repository,) = yaml.safe_load(shown(tmp_path, "id: lintrain-fix").read_text())["repos"]
    manifest = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in repository["hooks"]] == [hook["id"] for hook in manifest]


def test_every_page_names_the_repository_by_the_same_placeholder() -> None:
    pages = [(ROOT / "README.md").read_text(), *(page.read_text() for page in (ROOT / "docs").rglob("*.md"))]
    owners = [owner for page in pages for owner in re.findall(r"(?:github\.com/|uses: )([^/\s]+)/lintrain\b", page)]
    assert {*owners} == {"OWNER"}
    assert len(owners) >= 4


def test_the_hook_that_the_readme_shows_is_accepted_by_pre_commit(tmp_path: Path) -> None:
    (block,) = re.findall(r"((?:^    .*\n)*^    - repo: .*\n(?:^    .*\n)*)", README, flags=re.MULTILINE)
    file = tmp_path / ".pre-commit-config.yaml"
    file.write_text(f"repos:\n{block}")
    command = [str(PROGRAMS / "pre-commit"), "validate-config", str(file)]
    assert subprocess.run(command, capture_output=True, text=True, check=False).stdout == ""


def step(name: str) -> dict[str, Any]:
    (found,) = [
        each for each in yaml.safe_load((ROOT / "action.yml").read_text())["runs"]["steps"] if each["name"] == name
    ]
    return dict(found)


def add_own_rule(project: Path) -> None:
    """A rule of the project's own, and a script with what it finds."""
    command = [commands_python(), "-m", "lintrain", "rules", "new", "no-tracker"]
    subprocess.run(command, cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True)
    with (project / "pyproject.toml").open("a") as file:
        file.write('[tool.lintrain]\nrules = ["lint/rules"]\n')
    tracked = "from transformers import TrainingArguments\nTrainingArguments('out', report_to='none')\n"
    (project / "tracked.py").write_text(tracked)


@pytest.mark.slow
@pytest.mark.usefixtures("warm_command")
@pytest.mark.parametrize(
    ("inputs", "code", "results"),
    [
        ({"PATHS": "."}, "1", {"train.py", "notebook.ipynb", "loop.py"}),
        ({"PATHS": "train.py loop.py", "OPTIONS": "--select loop"}, "1", {"loop.py"}),
        ({"PATHS": ".", "CHANGED_SINCE": "HEAD"}, "0", set()),
        ({"PATHS": ".", "OPTIONS": "--select no-tracker", "TRUST_RULES": "true"}, "1", {"tracked.py"}),
        ({"PATHS": ".", "OPTIONS": "--select no-tracker", "TRUST_RULES": "false"}, "0", set()),
    ],
)
def test_the_action_checks_writes_sarif_and_passes_the_code_on(
    project: Path, inputs: dict[str, str], code: str, results: set[str]
) -> None:
    program = project / ".git" / "lintrain"
    program.write_text(f'#!/bin/sh\nexec "{commands_python()}" -m lintrain "$@"\n')
    program.chmod(0o755)
    outputs = project / ".git" / "outputs"
    given = {"OPTIONS": "", "CHANGED_SINCE": "", "SARIF_FILE": "out.sarif", **inputs}
    if "TRUST_RULES" in inputs:
        add_own_rule(project)
    environment = {
        **os.environ,
        **given,
        "XDG_DATA_HOME": str(project / ".git" / "data"),
        "LINTRAIN": str(program),
        "GITHUB_OUTPUT": str(outputs),
        "PYTHONPATH": str(ROOT),
    }
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step("Check")["run"]]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert outputs.read_text() == f"exit-code={code}\n"
    report = yaml.safe_load((project / "out.sarif").read_text())
    found = report["runs"][0]["results"]
    assert {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in found} == results


def test_the_action_fails_with_the_code_of_the_check() -> None:
    for code in ("0", "1"):
        command = ["bash", "-e", "-c", step("Fail on findings")["run"]]
        assert subprocess.run(command, env={"CODE": code}, check=False).returncode == int(code)
