"""Options for teams: which findings end a check with 1, counts by folder, colours, progress, and filters of rules."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pexpect  # type: ignore[import-untyped]
import pytest

from lintrain.check.result import Reported
from lintrain.cli import run
from lintrain.cli._check import fails
from lintrain.cli._output import Progress
from lintrain.model.finding import Finding
from lintrain.model.level import Level
from lintrain.model.location import Location
from lintrain.settings.settings import Settings
from tests.conftest import ROOT

LOOP = (ROOT / "fixtures" / "course" / "loop.py").read_text()
NOTE = "from transformers import TrainingArguments\nTrainingArguments('out', report_to='none')\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "loops" / "deep").mkdir(parents=True)
    for name in ("loops/a.py", "loops/b.py", "loops/deep/c.py"):
        (tmp_path / name).write_text(LOOP)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def reported(**counts: int) -> list[Reported]:
    where = Location("a.py", 1, 1, 1, 2)
    levels = [Level(level) for level, count in counts.items() for _ in range(count)]
    return [Reported(Finding("rule", level, where, "message")) for level in levels]


@pytest.mark.parametrize(
    ("fail_on", "most", "failing", "passing"),
    [
        (None, None, [{"note": 1}, {"warning": 1}, {"error": 1}], [{}]),
        ("note", None, [{"note": 1}], [{}]),
        ("warning", None, [{"warning": 1}, {"error": 1}], [{"note": 9}]),
        ("error", None, [{"error": 1}], [{"note": 9, "warning": 9}]),
        (None, 2, [{"error": 1}, {"warning": 3}], [{"note": 9, "warning": 2}]),
        ("error", 0, [{"warning": 1}], [{"note": 9}]),
        ("warning", 2, [{"warning": 3}], [{"note": 9, "warning": 2}]),
        ("note", 2, [{"note": 1}], [{"warning": 2}]),
    ],
)
def test_what_ends_a_check_with_1(
    fail_on: str | None, most: int | None, failing: list[dict[str, int]], passing: list[dict[str, int]]
) -> None:
    settings = Settings(Path("/"), fail_on=fail_on, max_warnings=most)
    assert [fails(reported(**counts), settings) for counts in failing] == [True] * len(failing)
    assert [fails(reported(**counts), settings) for counts in passing] == [False] * len(passing)


def test_the_options_and_settings_that_say_so(project: Path) -> None:
    check = ["check", "--no-cache", "--select", "missing-no-grad,eval-mode-in-training"]  # six warnings
    assert run(check) == 1
    assert run([*check, "--fail-on", "error"]) == 0
    assert run([*check, "--max-warnings", "5"]) == 1
    assert run([*check, "--max-warnings", "6"]) == 0
    (project / "lintrain.toml").write_text('fail-on = "error"\n')
    assert run(check) == 0
    assert run([*check, "--fail-on", "warning"]) == 1
    assert run([*check, "--max-warnings", "0"]) == 1
    (project / "lintrain.toml").write_text("max-warnings = 6\n")
    assert run(check) == 0
    assert run(["check", "--no-cache"]) == 1
    assert run(["check", "--no-cache", "--fail-on", "error", "--exit-zero"]) == 0


def test_findings_are_counted_by_folder(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--no-cache", "--statistics-by", "folder"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "8  loops  (4 errors, 4 warnings)",
        "4  loops/deep  (2 errors, 2 warnings)",
    ]
    run(["check", "--no-cache", "--statistics-by", "folder", "--output-format", "json"])
    assert json.loads(capsys.readouterr().out) == [
        {"folder": "loops", "count": 8, "error": 4, "warning": 4, "note": 0},
        {"folder": "loops/deep", "count": 4, "error": 2, "warning": 2, "note": 0},
    ]
    run(["check", "--no-cache", "--statistics-by", "rule"])
    by_rule = capsys.readouterr().out
    run(["check", "--no-cache", "--statistics"])
    assert capsys.readouterr().out == by_rule


def test_colors_are_used_as_asked(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    check = ["check", "--no-cache", "loops/a.py"]

    def is_coloured(*words: str) -> bool:
        run([*check, *words])
        return "\x1b[" in capsys.readouterr().out

    assert [is_coloured("--color", choice) for choice in ("always", "never", "auto")] == [True, False, False]
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert [is_coloured("--color", choice) for choice in ("always", "never", "auto")] == [True, False, True]
    assert is_coloured()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_after_a_second_and_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = [0.5]
    monkeypatch.setattr("time.perf_counter", lambda: seconds[0])
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    progress = Progress(0.0)
    progress.show(lambda: "early")
    for seconds[0] in (1.1, 1.15, 1.3):
        progress.show(lambda: f"at {seconds[0]}")
    progress.clear()
    progress.clear()
    assert terminal.getvalue() == "\r\x1b[2Klintrain: at 1.1\r\x1b[2Klintrain: at 1.3\r\x1b[2K"
    for stream, is_shown in ((io.StringIO(), True), (Terminal(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        Progress(0.0, is_shown=is_shown).show(lambda: "never")
        assert stream.getvalue() == ""


@pytest.mark.slow
def test_a_long_check_says_how_far_it_is(project: Path) -> None:
    for number in range(600):
        (project / "loops" / f"more{number}.py").write_text(f"# {number}\n{LOOP}")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "LINTRAIN_CACHE_DIR": str(project / "cache")}
    words = ["-P", "-m", "lintrain", "check", "--statistics", "--jobs", "1"]
    terminal = pexpect.spawn(sys.executable, words, env=environment, cwd=str(project), encoding="utf-8", timeout=120)
    terminal.expect(r"lintrain: checked \d+ of 60\d files")
    terminal.expect("findings")
    terminal.expect(pexpect.EOF)
    assert "checked" not in terminal.before


def names(capsys: pytest.CaptureFixture[str], *words: str) -> list[str]:
    assert run(["rules", "--json", *words]) == 0
    return [each["name"] for each in json.loads(capsys.readouterr().out)]


def test_rules_are_filtered(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    everything = names(capsys)
    loops = names(capsys, "--stage", "loop")
    assert set(loops) < set(names(capsys, "--stage", "loop", "--stage", "data")) < set(everything)
    levels = [set(names(capsys, "--level", level.value)) for level in Level]
    assert set.union(*levels) == set(everything)
    assert sum(map(len, levels)) == len(everything)
    safe, unsafe, fixable = (names(capsys, "--fixable", word) for word in ("safe", "unsafe", "any"))
    assert set(safe) | set(unsafe) == set(fixable) < set(everything)
    assert "keras-input-rank" in names(capsys, "--framework", "keras")
    assert "missing-zero-grad" in names(capsys, "--framework", "torch")
    assert "missing-zero-grad" not in names(capsys, "--framework", "keras")
    assert "missing-zero-grad" in names(capsys, "--text", "gradients are NOT cleared", "--stage", "loop")
    assert names(capsys, "--text", "no rule has this text") == []


def test_an_unknown_filter_is_named(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["rules", "--framework", "jax"]) == 2
    assert capsys.readouterr().err.startswith("lintrain: --framework jax: one of transformers, trl,")
    assert run(["rules", "--stage", "loops"]) == 2
    assert "--stage loops: one of " in capsys.readouterr().err


def test_every_rule_is_about_a_framework(capsys: pytest.CaptureFixture[str], project: Path) -> None:
    run(["rules", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert [each["name"] for each in listed if not each["frameworks"] and each["stage"] != "file"] == []
