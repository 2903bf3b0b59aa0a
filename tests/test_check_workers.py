"""Files read by several processes: as by one, whatever happens to a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

import lintrain.check.executor
import lintrain.check.workers
from lintrain.check.check_run import CheckRun
from lintrain.check.executor import SerialExecutor, executor_for, processors
from lintrain.check.files import FileReader
from lintrain.check.result import CheckResult
from lintrain.check.selection import CheckRequest, Choice, choose, known_names
from lintrain.check.workers import Workers, portions
from lintrain.cli._check import report_text
from lintrain.cli._options import CheckOptions, selection_of, settings_of
from lintrain.cli._request import request_of
from lintrain.knowledge.versions import TargetVersions
from lintrain.rulebook import RuleFile, load_rules, read_rule_file
from lintrain.settings.settings import FORMATS, Settings
from tests.support.planted import HEAD

ROOT = Path(__file__).parent.parent

DEADLY = '''\
"""A file that ends the process which reads it.

For tests.
"""

import os
import signal

from lintrain.rule import Level, Rule


class Deadly(Rule):
    level = Level.ERROR

    def check(self, pipeline):
        if "deadly" in pipeline.source.path:
            os.kill(os.getpid(), signal.SIGKILL)
        yield self.finding(pipeline.source.location(pipeline.source.tree.body[0]), "was read")
'''


@pytest.fixture(autouse=True)
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is worth a process, and a portion of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lintrain.check.executor, "WORTH_A_PROCESS", 1)
    monkeypatch.setattr(lintrain.check.workers, "PORTION", -1)


def no_targets(_folder: Path) -> TargetVersions:
    return TargetVersions()


def outcome_of(names: Sequence[str], rules: Sequence[RuleFile], jobs: int) -> CheckResult:
    for name in names:
        Path(name).write_text(f"{HEAD}trainer = transformers.Trainer()\n")
    selection = choose(known_names(rules), Choice("c", str(Path.cwd()), ["deadly"]), Choice("l", "/"))
    return CheckRun(CheckRequest(names, rules, selection, no_targets, jobs=jobs)).check()


def deadly_rule() -> RuleFile:
    file = Path("rules/garden/deadly.py").absolute()
    file.parent.mkdir(parents=True)
    file.write_text(DEADLY)
    return read_rule_file(file)


@pytest.mark.parametrize(
    ("sizes", "runs"),
    [
        ([], []),
        ([9.0], [[0]]),
        ([1.0, 1.0, 1.0, 9.0, 1.0], [[0, 1], [2], [3], [4]]),
        ([0.0, 0.0, 0.0], [[0, 1, 2]]),
    ],
)
def test_a_portion_holds_neighbours_and_a_large_file_alone(sizes: list[float], runs: list[list[int]]) -> None:
    assert [list(each) for each in portions(sizes, 2.0)] == runs


def test_processes_are_started_only_where_they_pay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lintrain.check.executor, "WORTH_A_PROCESS", 50)
    for name, size in {"a.py": 60, "b.py": 60, "c.py": 29, "d.ipynb": 290}.items():
        Path(name).write_text("#" * size)
    selection = choose({}, Choice("c", ""), Choice("l", ""))

    def processes(names: Sequence[str], jobs: int) -> int:
        executor = executor_for(FileReader(CheckRequest(names, (), selection, no_targets, jobs=jobs)), names)
        number = len(executor.workers) if isinstance(executor, Workers) else 1
        executor.stop()
        return number

    assert processes(["a.py", "b.py"], 4) == 2
    assert processes(["a.py", "b.py"], 1) == 1
    assert processes(["a.py", "c.py"], 4) == 1
    assert processes(["a.py", "d.ipynb", "gone.py"], 4) == 1
    assert isinstance(
        executor_for(FileReader(CheckRequest(["a.py"], (), selection, no_targets, jobs=4)), ["a.py"]), SerialExecutor
    )


def test_a_repository_asks_for_no_more_processes_than_there_are_cpus(tmp_path: Path) -> None:
    selection = choose({}, Choice("c", ""), Choice("l", ""))
    settings, asked = Settings(tmp_path, jobs=200), CheckOptions(no_cache=True, jobs=200)
    assert request_of(CheckOptions(no_cache=True), settings, (), selection, ["a.py"]).jobs == processors()
    assert request_of(asked, settings, (), selection, ["a.py"]).jobs == 200


def test_answers_come_in_the_order_of_the_request_the_largest_file_read_first() -> None:
    names = ["c.py", "a.py", "d.py", "b.py"]
    for size, name in enumerate(names):
        Path(name).write_text("#" * size * 1000)
    selection = choose({}, Choice("c", ""), Choice("l", ""))
    executor = executor_for(FileReader(CheckRequest(names, (), selection, no_targets, jobs=2)), names)
    assert isinstance(executor, Workers)
    assert [list(each) for each in executor.waiting] == [[3], [2], [1], [0]]
    assert [file.path for file in executor.read()] == names


def test_every_report_is_the_same_to_the_byte(assets: Path) -> None:
    options = CheckOptions(isolated=True)
    settings, rules = settings_of(options), load_rules()
    selection = selection_of(options, settings, rules)
    found = sorted(path.as_posix() for path in (ROOT / "fixtures").rglob("*.*") if path.suffix in (".py", ".ipynb"))
    files = [path for path in found if "assets" not in path][::-1]
    request = request_of(options, settings, rules, selection, files)
    alone, together = (CheckRun(replace(request, jobs=jobs)).check() for jobs in (1, 4))
    assert len(alone.reported) > 30
    assert alone.notes == together.notes
    for form in FORMATS:
        asked = replace(settings, output_format=form)
        texts = [report_text(options, asked, outcome, rules) for outcome in (alone, together)]
        assert texts[0] == texts[1], form


def test_a_file_that_a_process_dies_on_is_named_and_all_others_are_read() -> None:
    names = ["a.py", "b_deadly.py", "c.py", "d_deadly.py", "e.py", "f_deadly.py", "g.py"]
    outcome = outcome_of(names, [deadly_rule()], jobs=2)
    assert [file.path for file in outcome.files] == names
    assert [one.finding.location.path for one in outcome.reported] == ["a.py", "c.py", "e.py", "g.py"]
    said = "the process that read it was ended by SIGKILL, as it is when memory runs out"
    assert [(crash.path, crash.rule, crash.error) for crash in outcome.crashes] == [
        (name, "reader", said) for name in names if "deadly" in name
    ]


def test_the_rest_of_a_portion_is_read_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lintrain.check.workers, "PORTION", 1e9)
    names = [f"{number:02}.py" for number in range(16)]
    names[4] = "04_deadly.py"
    outcome = outcome_of(names, [deadly_rule()], jobs=2)
    assert [one.finding.location.path for one in outcome.reported] == [name for name in names if "deadly" not in name]


def test_a_process_that_is_not_forked_imports_nothing_from_the_working_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lintrain.check.workers, "_has_one_thread", lambda: False)
    for name in ("multiprocessing", "runpy", "pickle", "lintrain"):
        Path(f"{name}.py").write_text("open('was_run', 'w')\n")
    for name in ("a.py", "b.py"):
        Path(name).write_text("x = 1\n")
    selection = choose({}, Choice("c", ""), Choice("l", ""))
    executor = executor_for(
        FileReader(CheckRequest(["a.py", "b.py"], (), selection, no_targets, jobs=2)), ["a.py", "b.py"]
    )
    assert isinstance(executor, Workers)
    assert [(file.path, file.reading.crashes) for file in executor.read()] == [("a.py", ()), ("b.py", ())]
    assert not Path("was_run").exists()
    assert "PYTHONSAFEPATH" not in os.environ


DRIVER = """
import lintrain.check.executor, lintrain.check.workers
lintrain.check.executor.WORTH_A_PROCESS = 0.001
lintrain.check.workers.PORTION = -1
from lintrain.cli import main
main()
"""


PIPES_ALLOWED = """
import stat
from lintrain.source import reading
reading.AT_ONCE = 0
stat.S_ISREG = lambda mode: True
"""
"""Pipes are read like files, which no check does: so the test knows when a process is at work."""


def test_control_c_ends_every_process_at_once() -> None:
    for name in ("a.py", "b.py"):
        os.mkfifo(name)
    Path("c.py").write_text("import torch\n")
    command = [sys.executable, "-c", PIPES_ALLOWED + DRIVER, "check", "--jobs", "2"]
    command += ["--select", "missing-zero-grad", "a.py", "b.py", "c.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)
    # Each of the two opens a pipe once it is at work, and waits for what nobody writes.
    with Path("a.py").open("w") as first, Path("b.py").open("w") as second:
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        assert (process.returncode, out, errors.strip()) == (130, "", "lintrain: interrupted")
        for each in (first, second):
            with pytest.raises(BrokenPipeError):
                os.write(each.fileno(), b"nobody reads this")
