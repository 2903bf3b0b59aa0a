"""`lintrain init`: what it sees, what it writes, and what it leaves alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]  # it ships no types

from lintrain.cli import run
from lintrain.cli._agents import BEGIN, END, SECTION, SERVER
from lintrain.cli.init import hook_entry, with_hook
from tests.support.notebooks import notebook

HOOK = {
    "repo": "local",
    "hooks": [
        {
            "id": "lintrain",
            "name": "lintrain",
            "entry": "lintrain check --force-exclude",
            "language": "system",
            "types_or": ["python", "jupyter", "yaml", "json"],
            "require_serial": True,
        }
    ],
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    (tmp_path / "train.py").write_text("import transformers\n")
    (tmp_path / "n.ipynb").write_text(notebook("import torch"))
    (tmp_path / "other.py").write_text("import os\n")
    return tmp_path


def test_a_new_project_gets_its_configuration_and_its_hook(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "requirements.txt").write_text("torch==2.6.0\ntransformers==4.57.6\n")
    assert run(["init"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        ".: 1 script and 1 notebook use a training library",
        "  written for torch 2.6.0 (requirements.txt:1)",
        "  written for transformers 4.57.6 (requirements.txt:2)",
        "lintrain.toml: create",
        ".pre-commit-config.yaml: create with the hook `lintrain` (`pre-commit install` enables it)",
        "next: `lintrain check` shows the current findings, `lintrain baseline` records them",
    ]
    assert yaml.safe_load((project / ".pre-commit-config.yaml").read_text()) == {"repos": [HOOK]}
    assert run(["check", "--show-settings"]) == 0
    assert capsys.readouterr().out.startswith(f"# from {project / 'lintrain.toml'}")


def test_a_second_run_changes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "x"')
    run(["init"])
    files = {path: path.read_bytes() for path in project.iterdir() if path.is_file()}
    assert run(["init"]) == 0
    assert {path: path.read_bytes() for path in project.iterdir() if path.is_file()} == files
    said = capsys.readouterr().out
    assert "pyproject.toml: already configures lintrain, not changed" in said
    assert ".pre-commit-config.yaml: already has the hook `lintrain`, not changed" in said


def test_a_dry_run_shows_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[project]\nname = "x"\n')
    before = sorted(project.iterdir())
    assert run(["init", "--dry-run", "--no-hook"]) == 0
    assert sorted(project.iterdir()) == before
    assert (project / "pyproject.toml").read_text() == '[project]\nname = "x"\n'
    assert "\n    [tool.lintrain]\n" in capsys.readouterr().out


def test_other_people_s_folders_are_left_out_and_silent_versions_named(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lintrain.knowledge.versions.interpreter_folders", lambda: ())
    (project / "src/third_party/deep/vendor").mkdir(parents=True)
    (project / "src/third_party/deep/vendor/m.py").write_text("import torch\n")
    (project / "vendor").mkdir()
    (project / "vendor/plain.py").write_text("import os\n")
    (project / ".gitmodules").write_text('[submodule "apex"]\n\tpath = libs/apex\n\turl = x\n')
    run(["init"])
    assert (project / "lintrain.toml").read_text() == (
        "# `lintrain check --show-settings` prints every key with its value\n"
        'extend-exclude = ["libs/apex", "src/third_party"]\n'
        "\n"
        "# No lock file, requirements or environment determines these versions:\n"
        "# [target-versions]\n"
        '# torch = "…"\n'
        '# transformers = "…"\n'
    )
    assert run(["check", "--show-settings"]) == 0


def test_a_project_inside_a_repository_has_its_hook_at_the_top(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "a.b").mkdir()
    (project / "a.b/pyproject.toml").write_text("")
    monkeypatch.chdir(project / "a.b")
    run(["init"])
    (entry,) = yaml.safe_load((project / ".pre-commit-config.yaml").read_text())["repos"]
    assert entry["hooks"][0]["files"] == r"^a\.b/"
    assert "[tool.lintrain]" in (project / "a.b/pyproject.toml").read_text()


def test_outside_a_repository_there_is_no_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["lintrain.toml"]
    assert "no git repository, so no pre-commit hook" in capsys.readouterr().out


def test_a_configuration_that_cannot_be_read_is_refused(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text("[tool.lintrain\n")
    assert run(["init"]) == 2
    assert capsys.readouterr().err.startswith("lintrain: pyproject.toml: invalid TOML")
    assert not (project / ".pre-commit-config.yaml").exists()


def test_a_thousand_blanks_take_no_time(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    blanks = 60_000
    (project / ".gitmodules").write_text(
        f"[submodule]\n path = a{' ' * blanks}b\n path =\n{' ' * blanks}\n path = lib\n"
    )
    (project / ".pre-commit-config.yaml").write_text("\n" * blanks + "x")
    started = time.process_time()
    assert run(["init", "--dry-run"]) == 0
    assert time.process_time() - started < 4
    assert "lib" in capsys.readouterr().out


def test_hooks_that_are_no_text_are_left_alone(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / ".pre-commit-config.yaml").write_bytes(b"repos:\n# \xff\n")
    assert run(["init"]) == 0
    assert ".pre-commit-config.yaml: unusual format, not changed; add this" in capsys.readouterr().out
    assert (project / ".pre-commit-config.yaml").read_bytes() == b"repos:\n# \xff\n"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")
@pytest.mark.parametrize("name", [".pre-commit-config.yaml", "lintrain.toml", ".gitmodules", "pyproject.toml"])
def test_no_pipe_is_waited_for(project: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    os.mkfifo(project / name)
    code = run(["init"])
    said = capsys.readouterr()
    assert (code, said.err) == (
        (2, f"lintrain: {project / name}: a pipe or a device, not a file\n") if name == "lintrain.toml" else (0, "")
    )


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_what_lies_behind_a_link_out_of_the_project_is_left_alone(
    project: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path_factory.mktemp("foreign") / "pyproject.toml"
    foreign.write_text("[project]\nname = 'x'\n")
    (project / "pyproject.toml").symlink_to(foreign)
    assert run(["init"]) == 2
    assert f"not written, because a link leads out of the project; name `{foreign}` itself" in capsys.readouterr().err
    assert foreign.read_text() == "[project]\nname = 'x'\n"


@pytest.mark.parametrize(
    "text",
    [
        "repos:\n- repo: x\n  rev: v1\n  hooks:\n  - id: a\n",
        "repos:\n  - repo: x\n    hooks:\n      - id: a  # lintrain\n\n\nfail_fast: true\n",
        "# ours\ndefault_stages: [manual]\nrepos:  # all of them\n    -   repo: x\n        hooks:\n        -   id: a",
        "repos:\n# a comment at the margin\n  - repo: x\n    hooks: [{id: a}]\n# the end\n",
        "ci: {}\nrepos:\n",
    ],
)
def test_the_hook_comes_last_and_nothing_else_changes(text: str) -> None:
    after = with_hook(text, hook_entry(""))
    assert after
    before = yaml.safe_load(text)
    assert yaml.safe_load(after) == {**before, "repos": [*(before["repos"] or ()), HOOK]}
    left = iter(after.splitlines())
    assert all(line in left for line in text.splitlines())


@pytest.mark.parametrize("text", ["repos: []\n", "hooks: 1\n", "repos: [{repo: x}]\n"])
def test_a_file_that_is_written_otherwise_is_left_as_it_is(
    project: Path, capsys: pytest.CaptureFixture[str], text: str
) -> None:
    (project / ".pre-commit-config.yaml").write_text(text)
    assert run(["init"]) == 0
    assert (project / ".pre-commit-config.yaml").read_text() == text
    assert "unusual format, not changed; add this to its `repos`:\n    - repo: local\n" in capsys.readouterr().out


@pytest.fixture
def with_agents(project: Path) -> Path:
    for name in (".cursor", ".vscode", ".claude"):
        (project / name).mkdir()
    (project / "AGENTS.md").write_text("# Ours\n\nBe brief.\n")
    (project / ".mcp.json").write_text('{"mcpServers": {"other": {"command": "x"}}, "more": [1]}\n')
    (project / ".vscode" / "mcp.json").write_text("{\n  // ours\n}\n")
    (project / ".claude" / "settings.json").write_text("{}")
    return project


def test_what_agents_read_is_added_and_nothing_else_changes(
    with_agents: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["init", "--agents"]) == 0
    assert (with_agents / "AGENTS.md").read_text() == f"# Ours\n\nBe brief.\n\n{SECTION}"
    assert json.loads((with_agents / ".mcp.json").read_text()) == {
        "mcpServers": {"lintrain": SERVER, "other": {"command": "x"}},
        "more": [1],
    }
    assert '"other": {"command": "x"}}, "more": [1]}' in (with_agents / ".mcp.json").read_text()
    assert json.loads((with_agents / ".cursor" / "mcp.json").read_text()) == {"mcpServers": {"lintrain": SERVER}}
    assert (with_agents / ".vscode" / "mcp.json").read_text() == "{\n  // ours\n}\n"
    (hook,) = json.loads((with_agents / ".claude" / "settings.json").read_text())["hooks"]["PostToolUse"]
    assert "lintrain check" in hook["hooks"][0]["command"]
    assert "mcp.json: unusual format, not changed; add this by hand:\n    {\n" in capsys.readouterr().out


EDITED = {
    "session_id": "abc123",
    "transcript_path": "transcripts/x.jsonl",
    "permission_mode": "default",
    "hook_event_name": "PostToolUse",
    "tool_name": "Write",
    "tool_use_id": "toolu_01ABC123",
}
"""What Claude Code writes on the standard input of a hook after an edit, as its documentation shows it."""


@pytest.mark.skipif(sys.platform == "win32", reason="the hook is a command of a POSIX shell")
def test_the_hook_of_claude_code_sends_findings_back_and_nothing_else(project: Path) -> None:
    (project / ".claude").mkdir()
    run(["init", "--agents"])
    (hook,) = json.loads((project / ".claude" / "settings.json").read_text())["hooks"]["PostToolUse"]
    programs = project / ".programs"
    programs.mkdir()
    (programs / "lintrain").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lintrain "$@"\n')
    (programs / "lintrain").chmod(0o755)
    script = project / "train.py"

    def edit(code: str) -> tuple[int, str]:
        script.write_text(code)
        event = EDITED | {"cwd": str(project), "tool_input": {"file_path": str(script), "content": code}}
        event |= {"tool_response": {"filePath": str(script), "success": True}}
        environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
        done = subprocess.run(
            hook["hooks"][0]["command"],
            shell=True,
            cwd=project,
            input=json.dumps(event),
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == ""
        return done.returncode, done.stderr

    wrong = 'from transformers import TrainingArguments\nargs = TrainingArguments("out", lerning_rate=2e-5)\n'
    assert edit(wrong)[0] == 0, "without a commit there is nothing to compare with"
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "add", "-A"], cwd=project, check=True, capture_output=True)
    subprocess.run([*git, "commit", "-qm", "start"], cwd=project, check=True, capture_output=True)
    code, report = edit(wrong + "# edited\n")
    assert (code, "unknown-argument at train.py:2" in report) == (2, True)
    assert edit(wrong.replace("lerning", "learning"))[0] == 0


def test_a_second_run_for_agents_changes_nothing(with_agents: Path) -> None:
    run(["init", "--agents"])
    first = {path: path.read_bytes() for path in with_agents.rglob("*") if path.is_file() and ".git/" not in str(path)}
    run(["init", "--agents"])
    assert {path: path.read_bytes() for path in first} == first


def test_without_agents_nothing_is_written_for_them(with_agents: Path) -> None:
    run(["init"])
    assert (with_agents / "AGENTS.md").read_text() == "# Ours\n\nBe brief.\n"
    assert not (with_agents / ".cursor" / "mcp.json").exists()


def test_an_older_section_is_replaced_and_a_broken_one_is_left(project: Path) -> None:
    before, after = "# Ours\n\n", "\n\n# More\n"
    (project / "AGENTS.md").write_text(f"{before}{BEGIN}\nold\n{END}{after}")
    run(["init", "--agents"])
    assert (project / "AGENTS.md").read_text() == f"{before}{SECTION.rstrip()}{after}"
    (project / "AGENTS.md").write_text(f"{before}{BEGIN}\nold\n")
    run(["init", "--agents"])
    assert (project / "AGENTS.md").read_text() == f"{before}{BEGIN}\nold\n"


def test_other_hooks_of_an_agent_are_left_alone(with_agents: Path) -> None:
    settings = with_agents / ".claude" / "settings.json"
    settings.write_text('{"hooks": {"PostToolUse": [{"matcher": "x", "hooks": []}]}}')
    run(["init", "--agents"])
    assert settings.read_text() == '{"hooks": {"PostToolUse": [{"matcher": "x", "hooks": []}]}}'
