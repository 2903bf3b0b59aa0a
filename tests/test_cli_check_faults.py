"""What goes wrong with `lintrain check`, and what it tells of its own work."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lintrain.check import one_file
from lintrain.cli import run
from tests.support.planted import PLANTED, SLOW, UNWELL
from tests.test_cli_check import BAD, CLEAN, ROOT, project, use_rules

__all__ = ["project"]


def test_a_rule_that_fails_is_named_and_the_exit_code_is_2(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_rules(monkeypatch, UNWELL, PLANTED)
    (project / "t.py").write_text(BAD)
    assert run(["check"]) == 2
    shown = capsys.readouterr()
    assert "planted" in shown.out
    assert shown.err == (
        "lintrain: `unwell` failed on t.py: ValueError: no luck today; this is a bug in lintrain: report it as an "
        "issue, with the file, reduced as far as it still fails; `--ignore unwell` runs without the rule\n"
    )


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--strict"], 3), (["--strict", "--exit-zero"], 3)])
def test_a_rule_that_takes_too_long_is_named_and_the_others_go_on(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: list[str], code: int
) -> None:
    monkeypatch.setattr(one_file, "RULE_SECONDS", 0.3)
    use_rules(monkeypatch, SLOW, PLANTED)
    (project / "t.py").write_text(BAD)
    assert run(["check", "--no-cache", *options]) == code
    shown = capsys.readouterr()
    assert "planted" in shown.out
    assert shown.err == "lintrain: t.py: not judged by `slow`: the rule's 2 seconds of CPU time are spent\n"


@pytest.mark.parametrize(("text", "code"), [(CLEAN, 0), (BAD, 1), ("x = (", 3)])
def test_strict_tells_a_file_that_was_not_read_from_findings(project: Path, text: str, code: int) -> None:
    (project / "t.py").write_text(text)
    assert run(["check", "--strict"]) == code
    (project / "lintrain.toml").write_text("strict = true\n")
    assert run(["check"]) == code
    assert run(["check", "--no-strict"]) == min(code, 1)


def test_a_rule_that_fails_on_many_files_is_named_once_with_the_first_of_them(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    use_rules(monkeypatch, UNWELL, PLANTED)
    for name in ("a", "b", "c", "d", "e"):
        (project / f"{name}.py").write_text(BAD)
    assert run(["check"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(
        "lintrain: `unwell` failed on a.py, b.py, c.py and 2 other files: ValueError: no luck today;"
    )
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--select", "plantd"], "the command line: no rule or stage `plantd`; nearest: `planted`"),
        (["--unsafe-fixes"], "--unsafe-fixes needs --fix, --fix-only or --diff"),
        (["--per-file-ignores", "planted"], "--per-file-ignores planted: expected `PATTERN:NAME,NAME`"),
        (
            ["--target", "transformers"],
            "--target transformers: `` is not a version; expected `PACKAGE=VERSION`, for example `transformers=4.57.6`",
        ),
        (["--config", "none.toml"], "none.toml: no such configuration file"),
        (
            ["--stdin-filename", "x.py"],
            "--stdin-filename needs `-` as the path",
        ),
        (["-", "x.py"], "`-` (standard input) cannot be combined with other paths"),
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
    assert lines[1].startswith("checked 1 file in ")


def lintrain_process(*arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "lintrain", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe, text=True)


def test_control_c_is_one_line_and_130() -> None:
    process = lintrain_process("check", "-")
    assert process.stdin is not None
    # More than a pipe holds: once it is written, the process is at work and waits for the rest.
    process.stdin.write("#" * 2**20)
    process.stdin.flush()
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
