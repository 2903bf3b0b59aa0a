"""Every shell line of the README and of the guides is executed: on a script without training, so that it takes no time.

What a probe measures is tested elsewhere; here its command line is carried out to its end. The pages on adoption, CI,
reports and Python have tests of their own, and so have the configurations.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import commands_python

pytestmark = pytest.mark.usefixtures("warm_command")

ROOT = Path(__file__).parent.parent
GUIDES = (
    "README.md",
    "docs/index.md",
    "docs/commands.md",
    "docs/install.md",
    "docs/probe.md",
    "docs/reading.md",
    "docs/more-measurements.md",
)
FENCED = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    ((?:lintrain|pip|python) .+)$", re.MULTILINE)
PROGRAM = re.compile(r"^(?:lintrain|pip|python) ")
NOT_HERE = {
    "pip": "installs from a package index; `python tools/dev.py test` installs the wheel and uses it",
    "python": "makes an environment; it is the command that runs these tests",
}
WAITING = {
    "lintrain check --watch": "runs until Ctrl-C; tests/test_watch.py runs it",
    "lintrain server": "waits for an editor; tests/test_server_start.py starts it",
}
PREPARED = {
    "lintrain explain traceback.txt": ["echo \"NameError: name 'x' is not defined\" > traceback.txt"],
    "lintrain trust": [
        "lintrain rules new no-tracker",
        "printf '[tool.lintrain]\\nrules = [\"lint/rules\"]\\n' >> pyproject.toml",
    ],
    "lintrain judge": ["lintrain probe train.py --evidence evidence.json"],
    "lintrain report merge": [
        "lintrain check --output-format json --output-file check.json",
        "lintrain probe train.py --evidence evidence.json",
    ],
}
"""What makes the files that a line reads."""
KEPT_BATCH = "lintrain-batch-"
"""A file that only a watched run keeps."""

NOT_JUDGED = ("lintrain probe ", "lintrain judge ")
SCRIPT = """\
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=1e-3)
print(parser.parse_args().lr)
"""
NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


def shell_lines() -> list[str]:
    lines: list[str] = []
    for name in GUIDES:
        text = (ROOT / name).read_text(encoding="utf-8")
        lines += [line for block in FENCED.findall(text) for line in block.splitlines()]
        lines += INDENTED.findall(FENCED.sub("", text))
    return sorted({line.partition(" #")[0].strip() for line in lines})


def test_the_guides_show_commands_and_nothing_else() -> None:
    lines = shell_lines()
    assert len(lines) > 20
    assert [line for line in lines if not PROGRAM.match(line)] == []


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "package").mkdir(parents=True)
    (folder / "package" / "__init__.py").touch()
    for name in ("train.py", "package/train.py"):
        (folder / name).write_text(SCRIPT)
    (folder / "train.ipynb").write_text(NOTEBOOK)
    (folder / "outputs").mkdir()
    (folder / "outputs" / "metrics.csv").write_text("step,loss\n" + "".join(f"{n},{1 / (1 + n)}\n" for n in range(9)))
    (folder / "pyproject.toml").write_text('[project]\nname = "mine"\n')
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q", "-b", "main"], ["add", "."], ["commit", "-qm", "begin"]):
        subprocess.run([*git, *words], cwd=folder, check=True)
    (folder / ".venv" / "bin").mkdir(parents=True)
    (folder / ".venv" / "bin" / "python").symlink_to(sys.executable)
    return folder


def carried_out(line: str, folder: Path) -> subprocess.CompletedProcess[str]:
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    (programs / "lintrain").write_text(f'#!/bin/sh\nexec "{commands_python()}" -m lintrain "$@"\n')
    (programs / "lintrain").chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "LINTRAIN_CACHE_DIR": str(folder.parent / "cache"),
        "XDG_DATA_HOME": str(folder.parent / "data"),
    }
    return subprocess.run(line, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("line", shell_lines())
def test_a_shell_line_is_carried_out(line: str, project: Path) -> None:
    if reason := NOT_HERE.get(line.split()[0]) or WAITING.get(line):
        pytest.skip(reason)
    if KEPT_BATCH in line:
        pytest.skip("needs a batch that a watched run has kept; tests/diagnoses/069-watch-to-the-end.md makes one")
    if line.startswith(NOT_JUDGED) or "evidence.json" in line:
        pytest.importorskip("torch", reason="a probe needs torch")
    for before in (each for begin, lines in PREPARED.items() if line.startswith(begin) for each in lines):
        carried_out(before, project)
    done = carried_out(line, project)
    assert "Traceback" not in done.stderr
    assert done.returncode == (3 if line.startswith(NOT_JUDGED) else 0), done.stderr


def test_a_line_with_an_option_that_there_is_not_would_fail(project: Path) -> None:
    assert carried_out("lintrain probe train.py --over-fit 20", project).returncode == 2
