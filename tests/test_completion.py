"""Completion in shells: the script of each, and what is offered while somebody types."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.cli import run

ROOT = Path(__file__).parent.parent


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A PATH on which `lintrain` is this lintrain."""
    program = folder / "lintrain"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lintrain "$@"\n')
    program.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "HOME": str(folder), **more}


def offered(folder: Path, *words: str) -> list[str]:
    asked = {"_LINTRAIN_COMPLETE": "bash_complete", "COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1)}
    done = subprocess.run(
        ["lintrain"], cwd=folder, env=environment(folder, **asked), capture_output=True, text=True, check=True
    )
    return [line.partition(",")[2] for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_commands_options_rules_and_stages_are_offered(tmp_path: Path) -> None:
    assert offered(tmp_path, "lintrain", "comp") == ["completion"]
    assert offered(tmp_path, "lintrain", "explain", "raw-d") == ["raw-dataset"]
    assert "--changed-since" in offered(tmp_path, "lintrain", "check", "--c")
    assert offered(tmp_path, "lintrain", "check", "--select", "tokenization,unused-s") == [
        "tokenization,unused-suppression"
    ]
    assert offered(tmp_path, "lintrain", "check", "--ignore", "precis") == ["precision"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_can_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], shell: str
) -> None:
    assert run(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert "_LINTRAIN_COMPLETE" in script
    program = shutil.which(shell)
    if program:
        (tmp_path / "script").write_text(script)
        subprocess.run([program, "-n", "script"], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_bash_completes_with_it(tmp_path: Path) -> None:
    typed = (
        'eval "$(lintrain completion bash)"; COMP_WORDS=(lintrain explain raw-d); COMP_CWORD=2; '
        '_lintrain_completion lintrain; echo "${COMPREPLY[@]}"; complete -p lintrain'
    )
    done = subprocess.run(
        ["bash", "-c", typed], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["raw-dataset", "complete -o nosort -F _lintrain_completion lintrain"]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_with_it(tmp_path: Path) -> None:
    typed = "lintrain completion fish | source; complete -C 'lintrain explain raw-d'"
    done = subprocess.run(
        ["fish", "-c", typed], cwd=tmp_path, env=environment(tmp_path), capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["raw-dataset"]
