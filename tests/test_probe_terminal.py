"""What a script that is probed finds of the terminal: its size, and nobody who types."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from tests.conftest import ROOT
from tests.support.probing import WARM_PYTHON, path_for_lintrain, probe

ASKS = """
import getpass
import os
import shutil
import subprocess
import sys

stty = subprocess.run(["stty", "size"], capture_output=True, text=True).stdout.split()
asked = []
for ask in (input, getpass.getpass, input):
    try:
        asked.append(ask())
    except EOFError:
        asked.append(None)
sizes = [os.get_terminal_size().columns, shutil.get_terminal_size().columns]
sys.exit(f"{sizes} {stty} {sys.stdin.isatty()} {asked}")
"""


def test_a_script_sees_a_terminal_as_large_as_that_of_the_probe_and_nobody_at_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ASKS)
    environment = {"PYTHONPATH": str(ROOT), "TERM": "xterm", "PATH": os.environ["PATH"], "PYTHONUTF8": "1"}
    running: Any = pexpect.spawn(
        sys.executable,
        ["-m", "lintrain", "probe", "-v", "train.py"],
        cwd=str(tmp_path),
        env=environment,
        encoding="utf-8",
        dimensions=(31, 97),
        timeout=20,
    )
    running.expect_exact("[97, 97] ['31', '97'] True [None, None, None]")
    running.expect(pexpect.EOF)
    running.close()
    assert running.exitstatus == 3


def test_without_a_terminal_a_script_finds_none_as_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    monkeypatch.delenv(WARM_PYTHON, raising=False)
    probed = probe(tmp_path, "import os, sys\nprint(sys.stdin.isatty(), sys.stdin.read())\nos.get_terminal_size()\n")
    assert probed.code == 1
    assert probed.document["reason"].startswith("the script fails before any training call: OSError:")
