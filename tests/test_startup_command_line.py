"""A command line that is read without click means what click reads in it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

import lintrain.cli._check
from lintrain.cli._options import CheckOptions, plain_reader, read_options
from lintrain.cli.check import command
from tests.conftest import ROOT

OPTIONS = [each for each in command.params if isinstance(each, click.Option)]
EVERY_WORD = [word for each in OPTIONS for word in (*each.opts, *each.secondary_opts) if word.startswith("--")]


ACCEPTED = {
    "--jobs": "12",
    "--max-warnings": "3",
    "--output-format": "json",
    "--fail-on": "warning",
    "--statistics-by": "folder",
    "--color": "never",
}
"""A value for each option that does not take any text."""


def read_by_click(words: list[str], monkeypatch: pytest.MonkeyPatch) -> CheckOptions:
    read: list[CheckOptions] = []
    monkeypatch.setattr(lintrain.cli._check, "check", read.append)
    command.main(words, standalone_mode=False)
    return read[0]


def arguments_with(word: str) -> list[str]:
    if not isinstance(plain_reader().options[word][1], type):
        return [word]
    return [word, ACCEPTED.get(word, "one,two")]


def test_every_option_of_click_is_known() -> None:
    assert sorted(plain_reader().options) == sorted(EVERY_WORD)


@pytest.mark.parametrize("word", EVERY_WORD)
def test_an_option_is_read_as_click_reads_it(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for words in (
        [*arguments_with(word), "a.py"],
        ["a.py", *arguments_with(word), "-", *arguments_with(word), "-q", "-v"],
    ):
        assert read_options(words) == read_by_click(words, monkeypatch)


@pytest.mark.parametrize("word", [word for word in EVERY_WORD if len(arguments_with(word)) > 1])
def test_a_value_may_stand_behind_an_equals_sign(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["=".join(arguments_with(word)), "a.py"]
    assert read_options(words) == read_by_click(words, monkeypatch)


@pytest.mark.parametrize(
    "words",
    [
        ["--help"],
        ["--nothing"],
        ["--select"],
        ["--fix=yes"],
        ["--output-format", "poem"],
        ["-qv"],
        ["--jobs", "0"],
        ["--jobs", "257"],
        ["--jobs", "9" * 5000],
        ["--jobs=two"],
        ["--fail-on", "all"],
        ["--statistics-by", "file"],
        ["--color", "red"],
        ["--max-warnings", "-1"],
        ["--", "-a.py"],
    ],
)
def test_what_is_not_written_plainly_is_left_to_click(words: list[str]) -> None:
    assert read_options(words) is None


def test_a_report_that_is_a_folder_is_left_to_click(tmp_path: Path) -> None:
    assert read_options(["--output-file", str(tmp_path)]) is None
    assert read_options(["--output-file", str(tmp_path / "report")]) is not None


@pytest.mark.parametrize("unneeded", ["click", "json", "subprocess", "lintrain.model.finding", "lintrain.rule"])
def test_a_check_of_a_file_without_a_run_imports_no(unneeded: str, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("import os\n\nprint(os.getcwd())\n")
    code = f"import sys; from lintrain.cli import run; run(['check', 'plain.py']); print({unneeded!r} in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["no findings in 1 file", "False"]
