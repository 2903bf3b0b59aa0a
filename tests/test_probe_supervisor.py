"""How a script is started, followed and ended, with all that it started."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lintrain.runtime.parent import supervisor
from lintrain.runtime.parent.processes import Adoption
from lintrain.runtime.parent.supervised import ScriptProcess

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has supervisors")

SLEEPS = "import time; time.sleep(600)"
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
ENDS
"""


def started(folder: Path, code: str, **variables: str) -> ScriptProcess:
    with Path(os.devnull).open() as nothing:
        command = [sys.executable, "-I", "-c", code]
        return ScriptProcess(command, str(folder), {"PATH": os.defpath, **variables}, nothing.fileno())


def test_a_process_adopts_orphans_only_while_a_probe_lasts() -> None:
    assert not supervisor.is_subreaper()
    first, second = Adoption(), Adoption()
    first.end()
    assert supervisor.is_subreaper()
    second.end()
    assert not supervisor.is_subreaper()
    supervisor.be_subreaper()
    Adoption().end()
    assert supervisor.is_subreaper()
    supervisor.be_subreaper(is_one=False)


def is_there(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes() != b""


def wait_until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("", 0),
        ("raise SystemExit(7)", 7),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("import os, signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL); os.kill(os.getpid(), 13)", -13),
    ],
)
def test_the_status_of_a_script_is_that_of_popen(tmp_path: Path, code: str, status: int) -> None:
    script = started(tmp_path, code)
    assert script.wait(30) == status
    assert script.poll() == status
    script.close()
    assert script.returncode == status
    script.stdout.close()


def test_a_script_has_its_folder_its_variables_and_a_session_of_its_own(tmp_path: Path) -> None:
    knows = "os.getcwd(), os.environ['MINE'], 'HOME' in os.environ, os.getsid(0) == os.getpid(), repr(sys.stdin.read())"
    script = started(tmp_path, f"import os, sys; print({knows})", MINE="a b")
    assert script.wait(30) == 0
    script.close()
    assert script.stdout.read().decode() == f"{tmp_path} a b False True ''\n"
    script.stdout.close()


def test_a_command_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with Path(os.devnull).open() as nothing, pytest.raises(FileNotFoundError) as raised:
        ScriptProcess(["no-such-command"], str(tmp_path), {"PATH": os.defpath}, nothing.fileno())
    assert raised.value.errno == errno.ENOENT
    assert raised.value.filename == "no-such-command"


def test_to_wait_for_a_script_takes_no_longer_than_asked(tmp_path: Path) -> None:
    script = started(tmp_path, SLEEPS)
    assert script.poll() is None
    began = time.monotonic()
    with pytest.raises(subprocess.TimeoutExpired):
        script.wait(0.2)
    assert time.monotonic() - began < 5
    script.close()
    assert script.returncode == -signal.SIGKILL
    assert not is_there(script.pid)
    script.stdout.close()


@pytest.mark.parametrize("ends", ["time.sleep(600)", "raise SystemExit(3)", "os._exit(0)"])
def test_a_process_that_left_its_parents_ends_with_the_script(tmp_path: Path, ends: str) -> None:
    script = started(tmp_path, DAEMON.replace("ENDS", ends))
    daemon = int(script.stdout.readline())
    assert is_there(daemon)
    script.close()
    assert not is_there(daemon)
    assert not is_there(script.pid)
    assert script.supervisor is not None
    assert not is_there(script.supervisor)
    script.stdout.close()


def test_a_script_ends_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    script = started(tmp_path, SLEEPS)
    assert script.supervisor is not None
    os.kill(script.supervisor, signal.SIGKILL)
    assert script.wait(30) == -signal.SIGKILL
    wait_until(lambda: not is_there(script.pid))
    script.close()
    script.stdout.close()


def test_everything_ends_when_lintrain_is_killed(tmp_path: Path) -> None:
    starts = f"""
import os, sys, time
from pathlib import Path
from tests.test_probe_supervisor import DAEMON, started
script = started(Path({str(tmp_path)!r}), DAEMON.replace("ENDS", "time.sleep(600)"))
print(script.pid, script.supervisor, int(script.stdout.readline()), flush=True)
time.sleep(600)
"""
    root = Path(__file__).parent.parent
    ours = subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE, cwd=root)
    assert ours.stdout is not None
    processes = [int(word) for word in ours.stdout.readline().split()]
    assert all(map(is_there, processes))
    ours.kill()
    ours.wait()
    ours.stdout.close()
    wait_until(lambda: not any(map(is_there, processes)))


def test_signals_of_a_terminal_leave_the_supervisor_alone(tmp_path: Path) -> None:
    script = started(tmp_path, SLEEPS)
    assert script.supervisor is not None
    time.sleep(0.3)  # until it has left the foreground
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        os.kill(script.supervisor, number)
    time.sleep(0.2)
    assert is_there(script.supervisor)
    assert script.poll() is None
    script.close()
    assert not is_there(script.pid)
    script.stdout.close()


def test_end_all_gives_up_after_its_time() -> None:
    buried: list[int] = []
    began = time.monotonic()
    assert not supervisor.end_all(lambda: {2**22 + 1}, lambda: buried.append(1), 0.3)
    assert 0.3 <= time.monotonic() - began < 5
    assert buried
