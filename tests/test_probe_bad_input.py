"""Scripts that cannot be judged: each ends with a clear message, the documented exit code, and nothing left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.probing import path_for_lintrain, probe, probe_file

WAITS = """
import subprocess, sys, time
command = [sys.executable, "-c", "import time; time.sleep(600)", "child of " + sys.argv[1]]
subprocess.Popen(command, start_new_session=True)
print("started", flush=True)
while True:
    time.sleep(0.05)
"""


@pytest.fixture(autouse=True)
def _path(monkeypatch: pytest.MonkeyPatch, warm_command: None) -> None:
    path_for_lintrain(monkeypatch)


def has_child(name: str) -> bool:
    """Whether the process that the script called `name` started is there; one that has ended has no command line."""
    return any(f"child of {name}".encode() in command_line(folder) for folder in Path("/proc").glob("[0-9]*"))


def command_line(folder: Path) -> bytes:
    try:
        return (folder / "cmdline").read_bytes()
    except OSError:
        return b""


def test_a_missing_script_is_a_usage_error(tmp_path: Path) -> None:
    probed = probe_file(tmp_path, "absent.py")
    assert (probed.code, probed.err) == (2, "lintrain: absent.py: no such file\n")


def test_a_folder_is_a_usage_error(tmp_path: Path) -> None:
    probed = probe_file(tmp_path, ".")
    assert (probed.code, probed.err) == (2, "lintrain: .: is a folder; name a training script\n")


def test_an_evidence_file_in_no_folder_is_refused_before_the_run(tmp_path: Path) -> None:
    probed = probe(tmp_path, "print('ran')", "--evidence", "absent/file.json")
    assert (probed.code, probed.err) == (2, "lintrain: absent/file.json: the folder does not exist\n")


def test_a_measurement_that_there_is_not_is_refused_by_name(tmp_path: Path) -> None:
    probed = probe(tmp_path, "print('ran')", "--also", "overfit,speed")
    assert probed.code == 2
    assert probed.err.startswith("lintrain: --also speed: no such measurement; there are rows, overfit")


def test_an_interpreter_without_torch_cannot_judge(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    probed = probe(tmp_path, "print('ran')", "--python", str(bare / "bin" / "python"))
    assert probed.code == 3
    assert "has no torch" in probed.err


def test_a_script_that_never_trains_cannot_be_judged(tmp_path: Path) -> None:
    probed = probe(tmp_path, "print('all done')", "--text")
    assert probed.code == 3
    assert "the script ended without training" in probed.out
    assert "all done" in probed.err


def test_a_script_that_wants_other_arguments_cannot_be_judged(tmp_path: Path) -> None:
    script = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--rate')\nparser.parse_args()\n"
    probed = probe(tmp_path, script, "--text", arguments=("--speed", "1"))
    assert probed.code == 3
    assert "the script refuses its arguments: unrecognized arguments: --speed 1" in probed.out
    assert "unrecognized arguments: --speed 1" in probed.err


def test_a_crash_before_training_shows_the_users_own_line(tmp_path: Path) -> None:
    probed = probe(tmp_path, "def load():\n    return {}['train']\n\nload()\n")
    assert probed.code == 1
    assert probed.stages["script"] == "failed"
    failure = probed.run["stages"][0]["failure"]
    assert (failure["type"], failure["location"]["path"], failure["location"]["line"]) == ("KeyError", "train.py", 2)
    assert failure["code"] == "return {}['train']"


def test_a_script_that_ends_itself_cannot_be_judged(tmp_path: Path) -> None:
    probed = probe(tmp_path, "import os\nos._exit(7)\n")
    assert probed.code == 3
    assert "exited with status 7" in probed.document["reason"]


def test_a_process_that_is_killed_is_told_as_such(tmp_path: Path) -> None:
    probed = probe(tmp_path, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert probed.code == 3
    assert "signal 11 (SIGSEGV)" in probed.document["reason"]


def test_the_time_bound_ends_a_script_and_its_processes(tmp_path: Path) -> None:
    probed = probe(tmp_path, WAITS, "--timeout", "1.5", arguments=(str(tmp_path),))
    assert probed.code == 3
    assert "1.5 s passed" in probed.document["reason"]
    if sys.platform == "linux":
        assert probed.document["reason"].endswith(", at train.py:7: `time.sleep(0.05)`")
    assert "started" in probed.document["probe"]["ending"]["output"]
    assert not has_child(str(tmp_path))


def test_what_was_replaced_is_listed_where_the_time_is_over_before_any_training(tmp_path: Path) -> None:
    probed = probe(tmp_path, "import visdom\nimport time\ntime.sleep(60)\n", "--timeout", "6", "--stand-ins")
    notes = probed.document["probe"]["ending"]["notes"]
    assert "stand-in: visdom → an empty package: none of its functions does anything" in notes


def test_the_memory_bound_ends_a_script(tmp_path: Path) -> None:
    hungry = "import time\nheld = []\nwhile True:\n    held.append(bytearray(2**26))\n    time.sleep(0.02)\n"
    probed = probe(tmp_path, hungry, "--memory", "0.3")
    assert probed.code == 3
    assert "GiB of 0.3" in probed.document["reason"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "train.py").write_text(WAITS)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    running = subprocess.Popen(
        [sys.executable, "-m", "lintrain", "probe", "train.py", "--", str(tmp_path)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    wait_for_child(str(tmp_path))
    running.send_signal(number)
    _, err = running.communicate(timeout=20)
    assert running.returncode == 130
    assert b"interrupted" in err
    assert not has_child(str(tmp_path))
    assert list(temporary.iterdir()) == []


def wait_for_child(name: str) -> None:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and not has_child(name):
        time.sleep(0.05)
    assert has_child(name)
