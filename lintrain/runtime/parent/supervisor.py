"""The parent of a probed script on Linux: ends every process of the script when the probe ends, or when lintrain dies.

This file is run by itself, so it imports only the standard library. Processes whose parent has ended become children of
this process (it is a subreaper), so none can leave it: that it has no child left means that nothing of the script runs.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

BE_SUBREAPER, IS_SUBREAPER, SIGNAL_WHEN_PARENT_DIES = 36, 37, 1
LONGEST_END = 20.0
"""Seconds after which processes that cannot be ended are left."""
FREEZES, QUICK_ROUNDS = 8, 500
LENGTH_BYTES = 8


def is_subreaper() -> bool:
    """Whether this process is the parent of descendants whose own parent has ended."""
    is_one = ctypes.c_int(0)
    ctypes.CDLL(None).prctl(IS_SUBREAPER, ctypes.byref(is_one), 0, 0, 0)
    return bool(is_one.value)


def be_subreaper(*, is_one: bool = True) -> None:
    """Become the parent of descendants whose own parent has ended, or be so no longer."""
    ctypes.CDLL(None).prctl(BE_SUBREAPER, int(is_one), 0, 0, 0)


def relations() -> dict[int, int]:
    """The parent of every process that has not ended."""
    found = dict[int, int]()
    for name in os.listdir("/proc"):  # noqa: PTH208 - without the import of `pathlib`, which costs 20 ms
        if name.isdigit():
            with suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as opened:  # noqa: PTH123 - as above
                # The name of a program is in parentheses before these, and may itself hold parentheses and spaces.
                state, parent = opened.read().rpartition(b")")[2].split()[:2]
                if state != b"Z":
                    found[int(name)] = int(parent)
    return found


def descendants(roots: Iterable[int]) -> set[int]:
    """The processes below some others, without these."""
    children = dict[int, list[int]]()
    for pid, parent in relations().items():
        children.setdefault(parent, []).append(pid)
    found, waiting = set[int](), list(roots)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting += new
    return found


def own_children() -> set[int]:
    """The children of this process, those that have ended included; reads as little as it can, to be quick."""
    found = set[int]()
    try:
        for thread in os.listdir("/proc/self/task"):  # noqa: PTH208 - as above
            with open(f"/proc/self/task/{thread}/children", "rb") as opened:  # noqa: PTH123 - as above
                found.update(map(int, opened.read().split()))
    except OSError:  # a kernel without these files
        return {pid for pid, parent in relations().items() if parent == os.getpid()}
    return found


def end_all(children: Callable[[], set[int]], bury: Callable[[], object], seconds: float = LONGEST_END) -> bool:
    """End some children of this process and all that is below them; False if some are left after the time.

    They are stopped first, until no new one appears, so that none starts another one while the others end. What forks
    faster than all of `/proc` can be read is then ended by the list of children, which is read within microseconds.
    """
    deadline = time.monotonic() + seconds
    while children():
        if time.monotonic() > deadline:
            return False
        _send_all(_frozen(children), signal.SIGKILL)
        for _ in range(QUICK_ROUNDS):
            if not (left := children()):
                break
            _send_all(left, signal.SIGKILL)
            bury()
        time.sleep(0.001)
    return True


def _frozen(children: Callable[[], set[int]]) -> set[int]:
    """The processes to end; stopped, unless they start new ones faster than they are found."""
    stopped = set[int]()
    for _ in range(FREEZES):
        direct = children()
        new = (direct | descendants(direct)) - stopped
        if not new:
            break
        _send_all(new, signal.SIGSTOP)
        # Stopped ones stay in the list: they are ended together once no new one appears.
        stopped |= new
    return stopped


def _send_all(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _bury_all() -> list[tuple[int, int]]:
    """Take note of the children that have ended: their pids and return codes."""
    found = list[tuple[int, int]]()
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            found.append((ended[0], os.waitstatus_to_exitcode(ended[1])))
    return found


def _received(control: int) -> tuple[list[str], dict[str, str]]:
    import marshal

    def read(size: int) -> bytes:
        parts = b""
        while len(parts) < size and (part := os.read(control, size - len(parts))):
            parts += part
        return parts

    command, environment = marshal.loads(read(int.from_bytes(read(LENGTH_BYTES), "big")))
    return command, environment


def _start(command: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """The script's pid, and the error number of its start (0: it runs)."""
    failed, fails = os.pipe()
    own = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            ctypes.CDLL(None).prctl(SIGNAL_WHEN_PARENT_DIES, signal.SIGKILL, 0, 0, 0)
            # The supervisor may have died between `fork` and `prctl`, and then no signal will come.
            if os.getppid() != own:
                os._exit(127)
            os.setsid()
            for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores them, and a program would inherit that
                signal.signal(number, signal.SIG_DFL)
            # The pipe closes by itself on success, since Python opens descriptors as not inheritable: reading its end
            # means that the program runs.
            os.execvpe(command[0], command, environment)
        except OSError as error:
            os.write(fails, str(error.errno or 1).encode())
        finally:
            os._exit(127)
    os.close(fails)
    error_number = os.read(failed, 16)
    os.close(failed)
    return pid, int(error_number or 0)


def _leave_the_foreground() -> None:
    """Hold nothing of the script's: its output ends when the last process that writes to it does."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        # The parent reads the script's output until its last writer closes it, and would wait for the supervisor.
        os.dup2(nothing, descriptor)
    os.chdir("/")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)


def _watch(control: int, script: int, woken: int) -> None:
    """Report how the script ends, until lintrain closes its end: by intent, or because it was killed."""
    waiting = select.poll()
    for descriptor in (control, woken):
        waiting.register(descriptor, select.POLLIN)
    while True:
        ready = dict(waiting.poll())
        if woken in ready:
            os.read(woken, 4096)
        for pid, code in _bury_all():
            if pid == script:
                with suppress(OSError):
                    os.write(control, f"{code}\n".encode())
        # After the children were collected, so that a script which ends at the same moment still has its code reported.
        if control in ready:
            return


def _do_nothing(_number: int, _frame: object) -> None:
    """Let the signal wake the process, and no more."""


def main(control: int) -> None:
    """Start the command that the descriptor sends; at the end, stop all of its processes."""
    os.set_inheritable(control, False)
    be_subreaper()
    command, environment = _received(control)
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    # Before the signals are ignored below: ignored signals are inherited through `exec`.
    script, failure = _start(command, environment)
    _leave_the_foreground()
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, _do_nothing)
    with suppress(OSError):
        os.write(control, f"{-failure if failure else script}\n".encode())
        os.kill(os.getpid(), signal.SIGCHLD)  # it may have ended already
        _watch(control, script, woken)
    end_all(own_children, _bury_all)


if __name__ == "__main__":
    main(int(sys.argv[1]))
