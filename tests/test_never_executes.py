"""Whatever a project holds, a check reads it: nothing of it runs, nothing is written, nothing waits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import pytest

from lintrain.cli.check import command
from tests.support.language_client import PULLS
from tests.test_server import Connect, connect
from tests.trapped.tree import build, git

__all__ = ["connect"]

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes among files")

ROOT = Path(__file__).parent.parent

MOST_MEMORY = 900 * (2**20 if sys.platform == "darwin" else 2**10)
"""Of a process that has carried out every command line; in the unit of the system."""

VALUES: Mapping[str, Sequence[Sequence[str]]] = {
    "select": (["ALL"],),
    "extend_select": (["data"],),
    "ignore": (["optimizer"],),
    "per_file_ignores": (["../**/*:raw-dataset"],),
    "baseline": (["bad.parquet"], ["pipe.csv"], ["../../etc/passwd"]),
    "changed_since": (["HEAD"], ["--upload-pack=touch ran"]),
    "output_file": (["{out}/report.txt"],),
    "add_ignores": (["known"],),
    "exclude": (["../*,/etc/*," + "*a" * 30 + "b"],),
    "extend_exclude": (["**/../**"],),
    "targets": (["torch=2.0"],),
    "jobs": (["2"],),
    "max_warnings": (["0"],),
    "cache_dir": (["{out}/cache"], ["/dev/null"]),
    "config": (["ruff.toml"], ["pipe.csv"], ["pyproject.toml"]),
    "stdin_filename": (["train.py", "-"], ["../../etc/x.py", "-"]),
}
"""What an option that takes a value is given here; one that is not named is an error of this test."""

WRITES = {"fix", "fix_only", "add_ignores"}
NEEDS = {"unsafe_fixes": ["--diff"], "show_fixes": ["--diff"], "exit_non_zero_on_fix": ["--fix"], "hide_suppressed": []}
APART = {"watch"}
"""Options with a test of their own: a watch ends by Ctrl-C."""


def command_lines(folder: Path, out: Path) -> list[list[str]]:
    """A check with every option there is, in every form; in one process, where the hook sees everything."""
    lines: list[list[str]] = [[]]
    for option in command.params:
        if not isinstance(option, click.Option) or option.name in APART or not option.name:
            continue
        for word in (*option.opts, *option.secondary_opts)[:2]:
            if option.is_flag:
                lines.append([word, *NEEDS.get(option.name, [])])
            elif isinstance(option.type, click.Choice):
                lines += [[word, str(choice)] for choice in option.type.choices]
            else:
                assert option.name in VALUES, f"say in VALUES what {word} is given"
                lines += [[word, *(part.format(out=out) for part in given)] for given in VALUES[option.name]]
    reading = ["--no-baseline"]
    named = [["-q", *reading, name] for name in ("pipe.py", "endless.py", "self.py", "outside.py", "loop", "/dev/zero")]
    lines = [line if {"--baseline", "--no-baseline"} & {*line} else [*reading, *line] for line in lines] + named
    by_itself = [line if "--jobs" in line else ["--jobs", "1", *line] for line in lines]
    return [["check", *line] for line in (reading, *by_itself)]


def carried_out(commands: Iterable[Sequence[str]], folder: Path, **variables: str) -> list[dict[str, Any]]:
    """What became of each command line, carried out in the folder under the eyes of an audit hook."""
    asked = json.dumps({"folder": str(folder), "commands": [*commands]})
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **variables}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "tests.trapped.watched"],
        cwd=folder,
        env=environment,
        input=asked,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def contents(folder: Path) -> dict[str, object]:
    """Every file of a folder with what it holds; of links where they lead."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            found[str(path)] = path.readlink()
        elif path.is_file() and path.name != "index":  # git itself notes there what it has looked at
            state = path.stat()
            found[str(path)] = path.read_bytes() if state.st_size < 2**30 else (state.st_size, state.st_mtime_ns)
        else:
            found[str(path)] = "folder, pipe or device"
    return found


@pytest.fixture
def trapped(tmp_path: Path) -> tuple[Path, Path]:
    folder, marks = tmp_path / "project", tmp_path / "marks"
    folder.mkdir()
    marks.mkdir()
    build(folder, marks)
    assert [*marks.iterdir()] == []
    return folder, marks


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_the_traps_work(trapped: tuple[Path, Path]) -> None:
    folder, marks = trapped
    git(folder, "diff", "--name-only", "HEAD")
    assert "git-fsmonitor" in names(marks)
    git(folder, "-c", "core.fsmonitor=false", "diff", "--name-only", "HEAD")
    assert "git-process" in names(marks)
    subprocess.run([sys.executable, "-c", "import helpers"], cwd=folder, check=True)
    assert "helpers" in names(marks)


def test_a_check_with_any_option_runs_nothing_and_writes_only_what_it_is_told_to(
    trapped: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, marks = trapped
    before = contents(folder)
    asked = command_lines(folder, tmp_path / "out")
    reading = [line for line in asked if not any(f"--{name.replace('_', '-')}" in line for name in WRITES)]
    for answer in carried_out(reading, folder):
        assert (answer["noted"], answer["failure"]) == ([], ""), answer
        assert answer["code"] in (0, 1, 2, 3), answer
        assert "bug in lintrain" not in answer["errors"], answer
        assert answer["peak"] < MOST_MEMORY, answer
    assert names(marks) == []
    assert contents(folder) == before


def test_a_watch_runs_nothing_and_writes_nothing(trapped: tuple[Path, Path]) -> None:
    folder, marks = trapped
    before = contents(folder)
    (answer,) = carried_out([["check", "--no-baseline", "--watch"]], folder)
    assert (answer["noted"], answer["failure"], answer["code"]) == ([], "", 0), answer
    assert answer["errors"].count("waiting for changes") == 2
    assert names(marks) == []
    assert contents(folder) == before


@pytest.mark.turns(one_in=2)
@pytest.mark.parametrize("location", [".cache", "."])
def test_answers_that_the_project_keeps_are_not_opened(
    trapped: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, location: str
) -> None:
    folder, _ = trapped
    before = contents(folder)
    monkeypatch.delenv("LINTRAIN_CACHE_DIR")
    lines = [["check", "--no-baseline"], ["check", "--no-baseline", "train.py"], ["clean"], ["explain", "raw-dataset"]]
    for answer in carried_out(lines, folder, HOME=str(tmp_path / "home"), XDG_CACHE_HOME=location):
        assert (answer["noted"], answer["failure"]) == ([], ""), answer
    assert contents(folder) == before


def test_a_check_that_writes_touches_scripts_of_the_project_and_runs_nothing(
    trapped: tuple[Path, Path], tmp_path: Path
) -> None:
    folder, marks = trapped
    before = contents(folder)
    lines = [["check", "--no-baseline", *words] for words in (["--fix", "--unsafe-fixes"], ["--add-ignores", "known"])]
    for answer in carried_out(lines, folder):
        assert {Path(path).suffix for event, path, *_ in answer["noted"]} <= {".py", ".ipynb"}, answer
        assert {event for event, *_ in answer["noted"]} <= {"open"}, answer
        assert answer["failure"] == "", answer
    after = contents(folder)
    changed = {Path(path).name for path in before if before[path] != after.get(path)}
    assert "train.py" in changed
    assert {Path(name).suffix for name in changed} <= {".py", ".ipynb"}
    assert {*after} == {*before}
    assert names(marks) == []


def test_the_server_runs_nothing(connect: Connect, trapped: tuple[Path, Path]) -> None:
    folder, marks = trapped
    before = contents(folder)
    client = connect(PULLS, None, [folder])
    for name in ("train.py", "decorated.py", "bidi.py", "nested.py", "silent.py", "spaces.py", "helpers.py"):
        client.ask("textDocument/diagnostic", {"textDocument": {"uri": client.open(folder / name)}})
    assert names(marks) == []
    assert contents(folder) == before
