"""Signals, killed children and children out of memory: an ending that is told, and no process or file left behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.language_client import start_process
from tests.support.probing import path_for_lintrain, probe
from tests.test_check_workers import DRIVER, PIPES_ALLOWED
from tests.test_probe_bad_input import WAITS, has_child, wait_for_child

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")

LOOP = """
import os, resource, signal, torch

net = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(9):
    optimizer.zero_grad()
    net(torch.ones(3, 4)).sum().backward()
    FAULT
    optimizer.step()
"""

KILLED = "os.kill(os.getpid(), signal.SIGKILL)"
STARVED = (
    "size = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize();"
    " resource.setrlimit(resource.RLIMIT_AS, (size + 2**26, size + 2**26)); held = bytearray(2**30)"
)


def processes_in(folder: Path) -> list[int]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if each.readlink() == folder and int(each.parent.name) != os.getpid():
                found.append(int(each.parent.name))
        except OSError:
            continue
    return found


def nobody_stays_in(folder: Path) -> bool:
    deadline = time.monotonic() + 20
    while processes_in(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not processes_in(folder)


@pytest.mark.turns(one_in=3, of="file")
def test_a_script_that_is_killed_in_its_training_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, LOOP.replace("FAULT", KILLED))
    assert probed.code == 3
    assert "signal 9 (SIGKILL)" in probed.document["reason"]
    assert nobody_stays_in(tmp_path)


@pytest.mark.turns(one_in=3, of="file")
def test_a_script_out_of_memory_has_that_as_its_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path_for_lintrain(monkeypatch)
    probed = probe(tmp_path, LOOP.replace("FAULT", STARVED))
    assert (probed.code, probed.document["reason"]) == (
        3,
        "could not judge the step stage: the machine has too little memory",
    )
    assert probed.stages["step"] == "failed"
    assert [stage["failure"]["type"] for stage in probed.run["stages"] if stage["failure"]] == ["MemoryError"]
    assert "Traceback" not in probed.err
    assert nobody_stays_in(tmp_path)


def test_a_closed_terminal_ends_a_probe_and_all_that_it_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    running = subprocess.Popen(
        [sys.executable, "-m", "lintrain", "probe", "train.py", "--", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for_child(str(tmp_path))
    running.send_signal(signal.SIGHUP)
    running.communicate(timeout=30)
    assert running.returncode == 130
    assert not has_child(str(tmp_path))
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_a_check_that_is_ended_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    for name in ("a.py", "b.py"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "c.py").write_text("import torch\n")
    command = [sys.executable, "-c", PIPES_ALLOWED + DRIVER, "check", "--jobs", "2", "a.py", "b.py", "c.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*command, "--select", "missing-zero-grad"], cwd=tmp_path, env=environment, stdout=pipe, stderr=pipe
    )
    # Each of the two processes opens a pipe once it is at work, and waits for what nobody writes.
    with (tmp_path / "a.py").open("w"), (tmp_path / "b.py").open("w"):
        process.send_signal(number)
        process.wait(30)
    process.communicate(timeout=30)
    assert process.returncode == -number
    assert nobody_stays_in(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.py", "b.py", "c.py"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_server_that_is_ended_leaves_no_process(tmp_path: Path, number: signal.Signals) -> None:
    process, client = start_process(tmp_path, {"TMPDIR": str(tmp_path)})
    client.start([tmp_path])
    process.send_signal(number)
    process.communicate(timeout=30)
    assert nobody_stays_in(tmp_path)
    assert list(tmp_path.iterdir()) == []
