"""The checklist of a probe: plain lines in a pipe, a list that grows in place on a terminal, nothing when quiet."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import pexpect  # type: ignore[import-untyped]
import pytest

from lintrain.report.text.stages import open_checklist
from tests.conftest import ROOT

EVENTS: list[dict[str, Any]] = [
    {"event": "started"},
    {"event": "stage-started", "stage": "batch"},
    {"event": "progress", "stage": "batch", "done": 1, "of": 4},
    {"event": "stage", "stage": {"name": "batch", "status": "failed", "seconds": 0.5}},
    {"event": "asks"},
    {"event": "going-on", "repairs": ["line 24: write `eval_strategy`", "line 30: add `import evaluate`"]},
    {"event": "stand-in", "text": "a collator that pads"},
    {"event": "again", "reason": "the script uses `add_column` on mapped data"},
]


def test_a_pipe_gets_one_line_for_each_stage() -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with open_checklist(quiet=False, stream=stream) as checklist:
        for event in EVENTS:
            checklist.listen(event)
    stream.seek(0)
    assert stream.read().splitlines() == [
        "probe: running the script up to its training call",
        "probe: ✗ batch (0.50 s)",
        "probe: going on with line 24: write `eval_strategy`; line 30: add `import evaluate`",
        "probe: going on with a collator that pads (stand-in)",
        "probe: running again with all data: the script uses `add_column` on mapped data",
    ]


def test_quiet_is_quiet() -> None:
    stream = io.StringIO()
    with open_checklist(quiet=True, stream=stream) as checklist:
        for event in EVENTS:
            checklist.listen(event)
    assert stream.getvalue() == ""


@pytest.mark.slow
def test_a_terminal_sees_the_stage_that_runs_and_then_only_the_report(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(0.6)\n")
    environment = {"PYTHONPATH": str(ROOT), "TERM": "xterm", "PATH": "", "COLUMNS": "80", "PYTHONUTF8": "1"}
    running = pexpect.spawn(
        sys.executable, ["-m", "lintrain", "probe", "train.py"], cwd=str(tmp_path), env=environment, encoding="utf-8"
    )
    running.expect(r"script \(0 s\)")
    running.expect("could not judge: the script ended without training")
    running.expect(pexpect.EOF)
    running.close()
    assert running.exitstatus == 3
