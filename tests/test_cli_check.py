"""The command line of `lintrain check`."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

import lintrain.cli._check
from lintrain.check.executor import WORTH_A_PROCESS
from lintrain.cli import run
from lintrain.report.machine.document import check_report_schema
from lintrain.rulebook import RuleFile
from tests.support.notebooks import notebook
from tests.support.planted import HEAD, ONLY_MEASURED, PLANTED

ROOT = Path(__file__).parent.parent
BAD = f"{HEAD}def mistake(): ...\nmistake()\n"
CLEAN = f"{HEAD}x = 1\n"


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    use_rules(monkeypatch, PLANTED, ONLY_MEASURED)
    return tmp_path


def use_rules(monkeypatch: pytest.MonkeyPatch, *rules: RuleFile) -> None:
    monkeypatch.setattr(lintrain.cli._check, "find_rules", lambda: rules)


@pytest.mark.parametrize(("text", "code"), [(CLEAN, 0), (BAD, 1), ("x = (", 1)])
def test_the_exit_code_tells_findings_from_none(project: Path, text: str, code: int) -> None:
    (project / "t.py").write_text(text)
    assert run(["check", "t.py"]) == code


def test_elsewhere_than_on_a_terminal_the_report_is_concise(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    run(["check"])
    assert capsys.readouterr().out.splitlines() == [
        "t.py:3:1: error[planted] `mistake()` is planted",
        "1 finding (1 error) in 1 file; fixable: 1 with `--fix`",
    ]


def test_full_shows_the_code(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    run(["check", "--output-format", "full"])
    assert (
        capsys.readouterr().out
        == """\
t.py:3:1: error[planted] `mistake()` is planted
  │
3 │ mistake()
  │ ^^^^^^^^^
  = why: It hurts every test that meets it.
  = fix: write `right()` (fixable with `--fix`)

1 finding (1 error) in 1 file; fixable: 1 with `--fix`
"""
    )


def test_a_clean_run_says_how_much_it_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "a.py").write_text(CLEAN)
    (project / "b.ipynb").write_text(notebook(CLEAN))
    assert run(["check", "."]) == 0
    assert capsys.readouterr().out == "no findings in 2 files\n"


def test_quiet_leaves_only_findings(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    run(["check", "-q"])
    assert capsys.readouterr().out == "t.py:3:1: error[planted] `mistake()` is planted\n"
    (project / "t.py").write_text(CLEAN)
    run(["check", "-q"])
    assert capsys.readouterr().out == ""


def test_json_obeys_the_schema_that_is_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    assert run(["check", "--output-format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert [(one["rule"], one["location"]["line"]) for one in report["findings"]] == [("planted", 3)]
    assert run(["schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema == check_report_schema()
    jsonschema.validate(report, schema)


def test_the_report_goes_to_a_file_without_colours(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    (project / "t.py").write_text(BAD)
    assert run(["check", "--output-file", "out/report.txt", "--output-format", "full"]) == 1
    assert capsys.readouterr().out == ""
    written = (project / "out/report.txt").read_text()
    assert written.startswith("t.py:3:1: error[planted]")


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({}, False),
        ({"FORCE_COLOR": "1"}, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        ({"FORCE_COLOR": "0"}, False),
    ],
)
def test_colours_follow_the_usual_variables(
    project: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    environment: dict[str, str],
    coloured: bool,
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    (project / "t.py").write_text(BAD)
    run(["check"])
    assert ("\x1b[" in capsys.readouterr().out) is coloured


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--select", "planted"], 1),
        (["--select", "garden"], 1),
        (["--select", "only-measured,file"], 0),
        (["--ignore", "planted"], 0),
        (["--ignore", "ALL", "--extend-select", "planted"], 1),
        (["--per-file-ignores", "t.py:planted"], 0),
        (["--per-file-ignores", "u.py:planted"], 1),
    ],
)
def test_rules_are_chosen_by_name_stage_and_file(project: Path, options: list[str], found: int) -> None:
    (project / "t.py").write_text(BAD)
    assert run(["check", *options]) == found


@pytest.mark.parametrize(
    ("options", "files"),
    [
        ([], "a.py\nsub/b.py\n"),
        (["--exclude", "sub"], "a.py\nold/build/c.py\n"),
        (["--extend-exclude", "a.py"], "sub/b.py\n"),
        (["old/build/c.py"], "old/build/c.py\n"),
        (["old/build/c.py", "--force-exclude"], ""),
    ],
)
def test_files_are_chosen_by_the_options(
    project: Path, capsys: pytest.CaptureFixture[str], options: list[str], files: str
) -> None:
    for name in ("a.py", "sub/b.py", "old/build/c.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(CLEAN)
    assert run(["check", "--show-files", *options]) == 0
    assert capsys.readouterr().out == files


def test_patterns_of_the_command_line_count_from_the_working_folder(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "lintrain.toml").write_text("")
    (project / "sub" / "x").mkdir(parents=True)
    (project / "sub" / "x" / "b.py").write_text(BAD)
    monkeypatch.chdir(project / "sub")
    run(["check", "--show-files", "--extend-exclude", "x/b.py"])
    assert capsys.readouterr().out == ""


def test_configuration_is_read_shown_and_left_out(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    (project / "lintrain.toml").write_text('ignore = ["planted"]\n[target-versions]\ntransformers = "4.57.6"\n')
    assert run(["check"]) == 0
    assert run(["check", "--isolated"]) == 1
    assert run(["check", "--isolated", "--config", "lintrain.toml"]) == 2
    (project / "lintrain.toml").rename(project / "other.toml")
    assert run(["check"]) == 1
    assert run(["check", "--config", "other.toml"]) == 0
    capsys.readouterr()
    assert run(["check", "--config", "other.toml", "--show-settings", "--target", "trl=0.20"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"# from {project / 'other.toml'}\n")
    assert 'ignore = ["planted"]' in shown
    assert '"transformers" = "4.57.6"\n"trl" = "0.20"' in shown
    assert "#   planted" not in shown


def test_the_output_format_may_be_configured(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(CLEAN)
    (project / "lintrain.toml").write_text('output-format = "json"')
    run(["check"])
    assert json.loads(capsys.readouterr().out)["findings"] == []


def test_stdin_is_read_under_the_name_that_is_given(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{BAD}print(nowhere)\n".encode())))
    assert run(["check", "-", "--stdin-filename", "src/t.py"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "src/t.py:3:1: error[planted] `mistake()` is planted",
        "src/t.py:4:7: error[undefined-name] `nowhere` is never defined or imported",
    ]


def test_a_notebook_may_come_through_stdin(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(notebook(BAD, "nowhere").encode())))
    assert run(["check", "-", "--stdin-filename", "n.ipynb"]) == 1
    assert capsys.readouterr().out.splitlines()[:2] == [
        "n.ipynb:cell 1:3:1: error[planted] `mistake()` is planted (file line 22)",
        "n.ipynb:cell 2:1:1: error[undefined-name] `nowhere` is never defined or imported (file line 42)",
    ]


def test_timings_have_a_line_for_each_rule(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    for _ in range(2):  # the second time, nothing comes from the cache
        run(["check", "t.py", "--timings", "--verbose"])
        rows = re.findall(r"(?m)^ +([\d.]+) s +\d+% +[\d.]+ s  (.+?)(?:  t\.py)?$", capsys.readouterr().err)
        assert {part for _, part in rows} == {"reader", "parser", "choice of rules", "planted"}
        seconds = [float(each) for each, _ in rows]
        assert seconds == sorted(seconds, reverse=True)
        assert sum(seconds) > 0


def test_timings_add_up_what_several_processes_measured(project: Path) -> None:
    for number in range(2):
        (project / f"t{number}.py").write_text(f"import torch\n# {'x' * WORTH_A_PROCESS}\n")
    words = [sys.executable, "-P", "-m", "lintrain", "check", "--jobs", "2", "--timings", "--verbose"]
    told = subprocess.run(
        words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert re.search(r"(?m)^ +[\d.]+ s +\d+% +[\d.]+ s  choice of rules  t\d\.py$", told.stderr)


def test_exit_zero_and_statistics(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(f"{BAD}mistake()\nprint(nowhere)\n")
    assert run(["check", "--exit-zero", "--statistics"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["2  error    planted", "1  error    undefined-name"]


def test_statistics_are_counted_for_programs_too(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(f"{BAD}mistake()\ny = z\n")
    run(["check", "--statistics", "--output-format", "json"])
    assert json.loads(capsys.readouterr().out) == [
        {"rule": "planted", "level": "error", "count": 2, "fixable": 2},
        {"rule": "undefined-name", "level": "error", "count": 1, "fixable": 0},
    ]
