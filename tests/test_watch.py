"""`lintrain check --watch`: checked again when a file changes, and ended by Ctrl-C."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect  # type: ignore[import-untyped]  # it ships no types
import pytest

from lintrain.cli import run
from lintrain.cli._options import CheckOptions
from lintrain.cli._request import filter_of
from lintrain.settings.settings import Settings

ROOT = Path(__file__).parent.parent
BROKEN = "x = (\n"
CLEAR = "\x1b[H\x1b[2J\x1b[3J"


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[pexpect.spawn]:
    (tmp_path / "t.py").write_text("x = 1\n")
    environment = {"PYTHONPATH": str(ROOT), "PATH": "", "NO_COLOR": "1", "TERM": "xterm"}
    child = pexpect.spawn(
        sys.executable, ["-m", "lintrain", "check", "--watch"], cwd=str(tmp_path), env=environment, encoding="utf-8"
    )
    yield child
    child.close(force=True)


def settle(child: pexpect.spawn) -> str:
    child.expect("waiting for changes, Ctrl-C stops", timeout=60)
    return str(child.before)


@pytest.mark.slow
def test_a_terminal_is_cleared_and_shows_the_state_after_every_change(tmp_path: Path, watching: pexpect.spawn) -> None:
    first = settle(watching)
    assert first.startswith(CLEAR)
    assert "no findings in 1 file" in first
    (tmp_path / "u.py").write_text(BROKEN)
    assert "u.py:1:5" in settle(watching)
    (tmp_path / "lintrain.toml").write_text("slect = 1")
    assert "lintrain.toml: unknown key `slect`" in settle(watching)
    (tmp_path / "lintrain.toml").write_text('extend-exclude = ["u.py"]')
    last = settle(watching)
    assert last.count(CLEAR) == 1
    assert "no findings in 1 file" in last
    watching.sendintr()
    watching.expect(pexpect.EOF, timeout=60)
    watching.wait()
    assert (watching.exitstatus, "Traceback" in watching.before) == (0, False)


@pytest.mark.slow
def test_without_the_library_it_says_what_to_install(tmp_path: Path) -> None:
    blocked = "import sys; sys.modules['watchfiles'] = None; from lintrain.cli import run; sys.exit(run(sys.argv[1:]))"
    command = [sys.executable, "-c", blocked, "check", "--watch"]
    done = subprocess.run(
        command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    reason, _, install = done.stderr.partition(": `")
    assert (done.returncode, reason) == (2, "lintrain: --watch needs watchfiles")
    assert install.startswith(f"{sys.executable} -m pip install ")
    assert "watchfiles" in install


def test_only_what_can_change_a_report_wakes_it(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    wakes = filter_of(CheckOptions(output_file=report), Settings(root=tmp_path))
    names = (
        "a/t.py",
        "n.ipynb",
        "lintrain.toml",
        "settings.yaml",
        "model.bin",
        "build/t.py",
        ".venv/x.py",
        "report.json",
    )
    assert [name for name in names if wakes(None, str(tmp_path / name))] == [
        "a/t.py",
        "n.ipynb",
        "lintrain.toml",
        "settings.yaml",
    ]


@pytest.mark.parametrize(("option", "named"), [("--fix", "--fix"), ("--diff", "--diff"), ("-", "standard input")])
def test_it_only_reads_files(capsys: pytest.CaptureFixture[str], option: str, named: str) -> None:
    assert run(["check", "--watch", option]) == 2
    assert capsys.readouterr().err == f"lintrain: --watch and {named} cannot be combined\n"
