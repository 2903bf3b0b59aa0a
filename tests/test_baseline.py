"""The findings that a project puts off: what is known again, what wakes, and what is mended."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import lintrain.cli._baseline
import lintrain.cli._check
from lintrain.cli import run
from tests.support.notebooks import notebook
from tests.support.planted import HEAD, ONLY_MEASURED, PLANTED, UNWELL

BAD = f"{HEAD}def mistake(*_): ...\nmistake()\n"
FILE = "lintrain-baseline.json"
Said = Callable[..., str]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for module in (lintrain.cli._check, lintrain.cli._baseline):
        monkeypatch.setattr(module, "find_rules", lambda: (PLANTED, ONLY_MEASURED))
    (tmp_path / "t.py").write_text(BAD)
    return tmp_path


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str]) -> Said:
    def call(*arguments: str) -> str:
        capsys.readouterr()
        run(list(arguments))
        written = capsys.readouterr()
        return written.out + written.err

    return call


def test_known_findings_are_hidden_counted_and_shown_on_request(project: Path, said: Said) -> None:
    assert said("baseline") == f"lintrain: recorded 1 finding (1 new, 0 removed) in {FILE}\n"
    assert run(["check"]) == 0
    assert said("check") == (f"no findings in 1 file\nlintrain: {FILE} hides 1 finding (`--no-baseline` shows them)\n")
    assert run(["check", "--no-baseline"]) == run(["check", "--isolated"]) == 1
    assert said("check", "-q") == ""


def test_the_file_is_sorted_one_line_for_a_finding(project: Path, said: Said) -> None:
    (project / "s.py").write_text(f'{HEAD}def mistake(_): ...\nmistake("a  b")  # why\nif True:\n\tmistake("a  b")\n')
    said("baseline")
    assert (
        (project / FILE).read_text()
        == """{
  "format": 1,
  "findings": {
    "s.py": [
      {"rule": "planted", "code": "mistake(\\"a b\\")", "count": 2}
    ],
    "t.py": [
      {"rule": "planted", "code": "mistake()"}
    ]
  }
}
"""
    )


@pytest.mark.parametrize(
    "text",
    [
        f"'''Moved down.'''\n\n\n{BAD}",
        BAD.replace("\nmistake()", "\nif True:\n    mistake()  # lintrain reads this"),
        BAD.replace("\ndef mistake(*_): ...", "; from x import mistake"),
    ],
)
def test_code_that_moves_stays_known(project: Path, text: str) -> None:
    run(["baseline"])
    (project / "t.py").write_text(text)
    assert run(["check"]) == 0


def test_one_more_than_before_and_other_code_are_new(project: Path, said: Said) -> None:
    run(["baseline"])
    (project / "t.py").write_text(f"{BAD}mistake()\n")
    assert "t.py:4:1: error[planted]" in said("check")
    (project / "t.py").write_text(BAD.replace("\nmistake()", "\nmistake(1)"))
    assert "t.py:3:1: error[planted]" in said("check")


def test_cells_of_a_notebook_may_change_places(project: Path) -> None:
    first, second = f"{HEAD}from x import mistake", "mistake()"
    (project / "n.ipynb").write_text(notebook(first, second))
    run(["baseline"])
    (project / "n.ipynb").write_text(notebook("#md words", first, "y = 2", second, indent=None))
    assert run(["check"]) == 0


def test_what_is_mended_is_said_by_a_check_of_the_whole_and_pruned(project: Path, said: Said) -> None:
    (project / "s.py").write_text(BAD)
    run(["baseline"])
    (project / "t.py").write_text(HEAD)
    (project / "s.py").write_text(f"{BAD}mistake(2)\n")
    remark = f"{FILE} has 1 fixed finding (`lintrain baseline --prune` removes them)"
    assert remark in said("check", "--no-cache")
    assert remark not in said("check", "t.py")
    assert said("baseline", "--prune") == f"lintrain: recorded 1 finding (0 new, 1 removed) in {FILE}\n"
    assert list(json.loads((project / FILE).read_text())["findings"]) == ["s.py"]
    assert "mistake(2)" in said("check")


def test_pruning_keeps_what_could_not_be_heard(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "s.py").write_text(BAD)
    run(["baseline"])
    (project / "t.py").write_text("x = (\n")
    monkeypatch.setattr(lintrain.cli._baseline, "find_rules", lambda: (ONLY_MEASURED, UNWELL))
    run(["baseline", "--prune"])
    assert list(json.loads((project / FILE).read_text())["findings"]) == ["s.py", "t.py"]


def test_a_file_that_cannot_be_read_is_never_put_off(project: Path) -> None:
    (project / "t.py").write_text("x = (\n")
    run(["baseline"])
    assert json.loads((project / FILE).read_text())["findings"] == {}
    assert run(["check"]) == 1


def test_known_findings_get_no_fix_and_no_comment(project: Path) -> None:
    text = f"{HEAD}from x import mistake, right\nmistake()\n"
    (project / "t.py").write_text(text)
    run(["baseline"])
    (project / "t.py").write_text(f"{text}mistake(1)\n")
    run(["check", "--fix"])
    run(["check", "--add-ignores", "later"])
    assert (project / "t.py").read_text() == f"{text}right()\n"


def test_the_file_is_found_from_below_and_may_be_configured(project: Path, said: Said) -> None:
    below = project / "a" / "b"
    below.mkdir(parents=True)
    (below / "t.py").write_text(BAD)
    run(["baseline"])
    assert run(["check", "a/b/t.py"]) == 0
    (project / FILE).rename(project / "known.json")
    assert run(["check", "a/b"]) == 1
    (project / "lintrain.toml").write_text('baseline = "known.json"')
    assert run(["check", "a/b"]) == 0
    assert run(["check", "--baseline", "known.json"]) == 0


def test_the_whole_project_is_put_off_from_any_folder_of_it(
    project: Path, monkeypatch: pytest.MonkeyPatch, said: Said
) -> None:
    (project / "lintrain.toml").write_text("")
    (project / "sub").mkdir()
    monkeypatch.chdir(project / "sub")
    assert said("baseline") == f"lintrain: recorded 1 finding (1 new, 0 removed) in ../{FILE}\n"
    assert list(json.loads((project / FILE).read_text())["findings"]) == ["t.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "known.json: no such baseline; `lintrain baseline` writes it"),
        ("{", "known.json: not JSON"),
        ('{"format": 9}', "known.json: not a baseline of this version of lintrain"),
        ('{"format": 1, "findings": {"t.py": [{}]}}', "known.json: an entry is not understood"),
    ],
)
def test_a_file_that_is_no_baseline_is_refused(
    project: Path, capsys: pytest.CaptureFixture[str], text: str | None, message: str
) -> None:
    if text is not None:
        (project / "known.json").write_text(text)
    assert run(["check", "--baseline", "known.json"]) == 2
    assert capsys.readouterr().err.startswith(f"lintrain: {message}")


def test_a_baseline_that_a_merge_broke_is_written_anew(project: Path) -> None:
    (project / FILE).write_text("<<<<<<< HEAD\n")
    assert run(["baseline"]) == 0
    assert run(["check"]) == 0


def merged(text: str) -> str:
    """The text as a merge leaves it that met another finding in the last lines."""
    *lines, entry, end, rest, last, nothing = text.split("\n")
    theirs = entry.replace('"rule": "', '"rule": "other-')
    marks = ["<<<<<<< HEAD", entry, "||||||| 1f3c2d0", "=======", theirs, ">>>>>>> branch"]
    return "\n".join([*lines, *marks, end, rest, last, nothing])


@pytest.mark.parametrize("broken", [merged, lambda text: text[:-20], lambda _: "", lambda text: text.replace("1", "9")])
def test_a_baseline_in_any_state_is_written_anew(project: Path, broken: Callable[[str], str]) -> None:
    run(["baseline"])
    whole = (project / FILE).read_text()
    assert whole.count("rule") == 1
    (project / FILE).write_text(broken(whole))
    assert broken(whole) != whole
    assert run(["baseline"]) == 0
    assert (project / FILE).read_text() == whole


@pytest.mark.parametrize("is_named", [True, False], ids=["on the command line", "in the configuration"])
@pytest.mark.parametrize(
    "content",
    [b"import torch\n", b'{"name": "x"}\n', b"[1]\n", b'"format": 1\nx\n', b"\xff\n", b'{"format": 1}', b"1"],
)
def test_a_file_that_is_something_else_is_not_overwritten(
    project: Path, capsys: pytest.CaptureFixture[str], content: bytes, *, is_named: bool
) -> None:
    (project / "other.py").write_bytes(content)
    if not is_named:
        (project / "lintrain.toml").write_text("baseline = 'other.py'\n")
    assert run(["baseline", *(["--baseline", "other.py"] if is_named else [])]) == 2
    told = "other.py: not a lintrain baseline, so it is not overwritten; name another file or remove this one\n"
    assert capsys.readouterr().err.endswith(told)
    assert (project / "other.py").read_bytes() == content


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")
def test_no_baseline_is_written_into_a_pipe(project: Path) -> None:
    os.mkfifo(project / FILE)
    assert run(["baseline", "--baseline", FILE]) == 2


def test_the_json_report_counts_what_is_hidden(project: Path, said: Said) -> None:
    run(["baseline"])
    assert json.loads(said("check", "--output-format", "json", "-q"))["summary"]["known"] == 1
