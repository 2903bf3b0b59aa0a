"""A probe that is killed, or whose server is: nothing of the script runs on, and no file of the probe stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lintrain.runtime.parent import processes
from lintrain.runtime.parent.processes import Adoption
from lintrain.runtime.parent.supervisor import LONGEST_END, own_children
from tests.conftest import ROOT
from tests.support.language_client import start_process
from tests.test_faults_signals import nobody_stays_in, processes_in
from tests.test_probe_bad_input import WAITS, has_child, wait_for_child

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

HIDES = WAITS.replace("start_new_session=True", "start_new_session=True, env={}")
"""Its child is in no session of the probe, and says nothing of it in its environment."""


@pytest.fixture
def temporary(tmp_path: Path) -> Iterator[Path]:
    """Where probes keep their files; after the test nothing lies there, and no process is left."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    yield folder
    assert nobody_stays_in(tmp_path)
    assert not has_child(str(tmp_path))
    assert list(folder.iterdir()) == []


def start_probe(folder: Path, temporary: Path, *options: str) -> subprocess.Popen[bytes]:
    """A probe under way: the script has started a process of its own."""
    running = subprocess.Popen(
        [sys.executable, "-m", "lintrain", "probe", *options, "train.py", "--", str(folder)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_child(str(folder))
    return running


@pytest.mark.parametrize("script", [WAITS, HIDES])
def test_a_killed_probe_leaves_nothing(tmp_path: Path, temporary: Path, script: str) -> None:
    (tmp_path / "train.py").write_text(script)
    running = start_probe(tmp_path, temporary)
    assert list(temporary.iterdir()) != []
    running.kill()
    running.communicate()


def test_a_killed_probe_leaves_nothing_where_nobody_collects_its_processes(tmp_path: Path, temporary: Path) -> None:
    """As in a container whose first process is no init: what has ended stays in the list of processes."""
    adoption = Adoption()
    try:
        (tmp_path / "train.py").write_text(WAITS)
        running = start_probe(tmp_path, temporary)
        running.kill()
        running.communicate()
        began = time.monotonic()
        assert nobody_stays_in(tmp_path)
        assert time.monotonic() - began < LONGEST_END / 2
    finally:
        adoption.end()
        for pid in own_children() - adoption.others:
            os.waitpid(pid, os.WNOHANG)


@pytest.mark.turns(one_in=3, of="file")
def test_a_probe_whose_group_of_processes_is_killed_leaves_nothing(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    script = f"exec {sys.executable} -m lintrain probe train.py -- {tmp_path}"
    shell = subprocess.Popen(
        ["sh", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_for_child(str(tmp_path))
    os.killpg(shell.pid, signal.SIGKILL)
    shell.wait()


@pytest.mark.turns(one_in=3, of="file")
def test_a_script_that_ends_leaves_no_process_that_waits_for_the_death_of_its_probe(
    tmp_path: Path, temporary: Path
) -> None:
    (tmp_path / "train.py").write_text("print('no training')\n")
    subprocess.run(
        [sys.executable, "-m", "lintrain", "probe", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        capture_output=True,
        check=False,
    )
    assert processes_in(tmp_path) == []


@pytest.mark.turns(one_in=3, of="file")
def test_a_probe_goes_on_without_input_unless_it_is_told_to_end_with_it(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    running = start_probe(tmp_path, temporary)
    assert running.stdin is not None
    running.stdin.close()
    with pytest.raises(subprocess.TimeoutExpired):
        running.wait(1)
    running.terminate()
    assert running.wait(30) == 130


@pytest.mark.turns(one_in=3, of="file")
def test_a_probe_that_is_told_so_ends_with_its_input(tmp_path: Path, temporary: Path) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    running = start_probe(tmp_path, temporary, "--until-stdin-ends")
    running.communicate(timeout=30)
    assert running.returncode == 130


@pytest.mark.turns(one_in=3, of="file")
@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "left by its editor"])
def test_a_probe_ends_with_the_server_that_started_it(tmp_path: Path, temporary: Path, *, is_killed: bool) -> None:
    (tmp_path / "train.py").write_text(WAITS.replace("sys.argv[1]", repr(str(tmp_path))))
    process, client = start_process(tmp_path, {"TMPDIR": str(temporary)})
    client.start([tmp_path])
    uri = client.open(tmp_path / "train.py")
    client.ask("workspace/executeCommand", {"command": "lintrain.probe", "arguments": [uri]})
    wait_for_child(str(tmp_path))
    if is_killed:
        process.kill()
    process.communicate(timeout=30)  # closes the server's input


REPRODUCES = """
import sys
import time
from lintrain.cli._probe import kept_failure
from lintrain.evidence.run import Failure
from lintrain.report.reproduction import SCRIPT, _verify_error

with kept_failure(is_wanted=True) as kept:
    (kept / SCRIPT).write_text(open("train.py").read().replace("sys.argv[1]", repr(sys.argv[1])))
    _verify_error(sys.executable, kept, Failure("ValueError", "", None))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_reproduction_that_is_tried_out_ends_with_the_probe(
    tmp_path: Path, temporary: Path, number: signal.Signals
) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    running = subprocess.Popen(
        [sys.executable, "-c", REPRODUCES, str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
    )
    wait_for_child(str(tmp_path))
    running.send_signal(number)
    assert running.wait(30) == -number


@pytest.mark.parametrize("written", ["1\n", "", "12", "-3\n", "x\n", "0\n"])
def test_a_number_that_is_no_process_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, written: str
) -> None:
    killed: list[tuple[int, int]] = []

    def note(process: int, number: int) -> None:
        killed.append((process, number))

    monkeypatch.setattr(os, "killpg", note)
    monkeypatch.setattr(os, "kill", note)
    (tmp_path / "folder" / "pass").mkdir(parents=True)
    (tmp_path / "folder" / f"pass{processes.STARTED}").write_text(written)
    processes.end_what_is_left(str(tmp_path / "folder"), time.time())
    assert killed == []
    assert not (tmp_path / "folder").exists()
