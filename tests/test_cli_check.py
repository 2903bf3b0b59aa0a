"""The command line of `lintrain check`."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import pytest

import lintrain.cli._check
from lintrain.cli import run
from lintrain.report.schema import check_report_schema
from lintrain.rulebook import RuleFile
from tests.notebooks import notebook
from tests.planted import CLUMSY, HEAD, ONLY_MEASURED, PLANTED, UNWELL

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
        "1 finding (1 error) in 1 file; can be fixed: 1 safely (`--fix`)",
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
  = fix: write `right()` (`--fix` writes it)

1 finding (1 error) in 1 file; can be fixed: 1 safely (`--fix`)
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
    assert [(one["rule"], one["position"]["line"]) for one in report["findings"]] == [("planted", 3)]
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
        "n.ipynb:cell 1:3:1: error[planted] `mistake()` is planted (line 22 of the file)",
        "n.ipynb:cell 2:1:1: error[undefined-name] `nowhere` is never defined or imported (line 42 of the file)",
    ]


def test_fix_writes_the_files_and_reports_the_rest(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(f"{HEAD}def right(): ...\nmistake = gamble = right\nmistake()\ngamble()\n")
    assert run(["check", "--fix"]) == 1
    assert (project / "t.py").read_text().endswith("\nright()\ngamble()\n")
    assert capsys.readouterr().out.splitlines()[-1].startswith("1 finding fixed; 1 finding (1 error) in 1 file")
    assert run(["check", "--fix", "--unsafe-fixes"]) == 0
    assert (project / "t.py").read_text().endswith("\nright()\nright()\n")


FIXABLE = f"{HEAD}def right(): ...\nmistake = gamble = right\nmistake()\nmistake()\n"


def test_fix_only_says_nothing_of_what_is_left(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(f"{FIXABLE}gamble()\n")
    assert run(["check", "--fix-only"]) == 0
    assert (project / "t.py").read_text().endswith("\nright()\nright()\ngamble()\n")
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "lintrain: 2 findings fixed in 1 file\n")


def test_exit_non_zero_on_fix_tells_that_a_file_changed(project: Path) -> None:
    (project / "t.py").write_text(FIXABLE)
    assert run(["check", "--fix", "--exit-non-zero-on-fix"]) == 1
    assert run(["check", "--fix", "--exit-non-zero-on-fix"]) == 0
    (project / "t.py").write_text(FIXABLE)
    assert run(["check", "--fix-only", "--exit-non-zero-on-fix"]) == 1
    (project / "t.py").write_text(FIXABLE)
    assert run(["check", "--fix", "--exit-non-zero-on-fix", "--exit-zero"]) == 0


@pytest.mark.parametrize("option", ["--fix", "--fix-only", "--diff"])
def test_show_fixes_lists_what_was_fixed_by_file_and_rule(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (project / "t.py").write_text(FIXABLE)
    (project / "u.py").write_text(BAD)
    run(["check", option, "--show-fixes"])
    assert capsys.readouterr().err.splitlines()[-4:] == ["t.py:", "  2  planted", "u.py:", "  1  planted"]


@pytest.mark.parametrize("option", ["--unsafe-fixes", "--show-fixes", "--exit-non-zero-on-fix"])
def test_an_option_about_fixes_alone_does_nothing_and_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (project / "t.py").write_text(BAD)
    assert run(["check", option]) == 2
    assert capsys.readouterr().err.startswith(f"lintrain: {option} ")


def test_a_fix_that_cannot_be_written_is_said_on_stderr(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_rules(monkeypatch, CLUMSY)
    (project / "t.py").write_text(f"{HEAD}def right(): ...\nmistake = gamble = right\nmistake()\ngamble()\n")
    assert run(["check", "--fix"]) == 1
    assert (project / "t.py").read_text().endswith("\nright()\ngamble()\n")
    said = capsys.readouterr()
    assert said.err.startswith("lintrain: t.py:5:1: a fix could not be written (write `right(`): ")
    assert "t.py:5:1: error[clumsy]" in said.out


def test_diff_shows_and_writes_nothing(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "t.py").write_text(BAD)
    assert run(["check", "--diff"]) == 1
    assert (project / "t.py").read_text() == BAD
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-2:] == ["-mistake()", "+right()"]
    assert shown.err == "lintrain: `--fix` would mend 1 finding\n"
    (project / "t.py").write_text(CLEAN)
    assert run(["check", "--diff"]) == 0


def test_a_diff_of_a_notebook_goes_cell_by_cell(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "n.ipynb").write_text(notebook(BAD, "#md x", "!ls\nmistake()"))
    run(["check", "--diff"])
    assert capsys.readouterr().out.splitlines()[-5:] == [
        "+++ n.ipynb:cell 3",
        "@@ -1,2 +1,2 @@",
        " !ls",
        "-mistake()",
        "+right()",
    ]


def test_what_comes_through_stdin_is_fixed_to_stdout(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(BAD.replace("\n", "\r\n").encode())))
    run(["check", "--fix", "-"])
    assert capfdbinary.readouterr().out == BAD.replace("\nmistake()", "\nright()").replace("\n", "\r\n").encode()


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


def test_a_rule_that_fails_is_named_and_the_exit_code_is_2(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_rules(monkeypatch, UNWELL, PLANTED)
    (project / "t.py").write_text(BAD)
    assert run(["check"]) == 2
    shown = capsys.readouterr()
    assert "planted" in shown.out
    assert shown.err == "lintrain: `unwell` failed on t.py: ValueError: no luck today; this is a fault of lintrain\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", "plantd"], "the command line: no rule or stage `plantd`; nearest: `planted`"),
        (["--unsafe-fixes"], "--unsafe-fixes says which fixes --fix or --diff may write; name one of them too"),
        (["--per-file-ignores", "planted"], "--per-file-ignores planted: write it as `PATTERN:NAME,NAME`"),
        (["--target", "transformers"], "--target transformers: `` is not a version; write it as `transformers=4.57.6`"),
        (["--config", "none.toml"], "none.toml: no such configuration file"),
        (
            ["--stdin-filename", "x.py"],
            "--stdin-filename names what comes through standard input; give `-` as the path",
        ),
        (["-", "x.py"], "`-` reads standard input alone, without other paths"),
    ],
)
def test_what_cannot_be_done_is_said_and_exits_with_2(
    project: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert run(["check", *options]) == 2
    assert capsys.readouterr().err == f"lintrain: {message}\n"


def test_verbose_tells_what_was_suppressed_and_how_long_it_took(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "t.py").write_text(BAD.replace("mistake()\n", "mistake()  # lintrain: ignore[planted]\n"))
    assert run(["check", "-v"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "t.py: 1 finding suppressed"
    assert lines[1].startswith("read 1 file in ")


def lintrain_process(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "lintrain", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_control_c_is_one_line_and_130(project: Path) -> None:
    (project / "t.py").write_text(CLEAN)
    os.mkfifo(project / "never.py")
    process = lintrain_process("check", "t.py", "never.py")
    # The process opens the pipe once it is at work, and waits for what nobody writes.
    with (project / "never.py").open("w"):
        process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert (process.returncode, out, errors.strip()) == (130, "", "lintrain: interrupted")


def test_a_reader_that_goes_away_is_no_error(project: Path) -> None:
    (project / "t.py").write_text("".join(f"print(nowhere{number})\n" for number in range(3000)) + "import torch\n")
    command = f"{sys.executable} -m lintrain check --exit-zero t.py | head -1; echo ${{PIPESTATUS[0]}}"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(["bash", "-c", command], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["t.py:1:7: error[undefined-name] `nowhere0` is never defined or imported", "0"]


@pytest.mark.parametrize("heavy", ["torch", "pydantic", "rich", "libcst", "astroid", "pathspec", "jsonschema"])
def test_a_check_of_one_script_imports_nothing_heavy(project: Path, heavy: str) -> None:
    (project / "t.py").write_text(BAD)
    code = f"import sys; from lintrain.cli import run; run(['check', 't.py']); print({heavy!r} in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "False"
