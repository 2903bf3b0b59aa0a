"""Scripts that a launcher usually starts on several processes: what it would have set, for the one that is probed.

Scripts that start their processes by themselves (`torch.multiprocessing.spawn`): that of rank 0 is measured.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.frames import callers_frame, is_users
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ROOT_PROCESS, ProbeSession

ASKED_FOR = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Answer a script that reads a launcher's variables and has none, and put gloo in place of other backends."""
    if session.is_root:
        _answer_reads(session)
    hooks.add("torch.distributed.distributed_c10d", lambda module: _patch_groups(session, module))


def _answer_reads(session: ProbeSession) -> None:
    """Only `os.environ["RANK"]` in the script itself: code that uses `get` or `in` works without it."""
    environment: Any = type(os.environ)
    read = environment.__getitem__

    @functools.wraps(read)
    def getitem(self: Any, name: Any) -> Any:
        try:
            return read(self, name)
        except KeyError:
            if name not in ASKED_FOR or not _is_asked_by_user():
                raise
        stand_for_a_launcher(session)
        return read(self, name)

    environment.__getitem__ = getitem


def _is_asked_by_user() -> bool:
    caller = callers_frame(above=2)
    return caller is not None and is_users(caller.f_code.co_filename)


def stand_for_a_launcher(session: ProbeSession) -> None:
    """Set what torchrun sets for one process."""
    from lintrain.runtime.parent.launchers import one_process

    for name, value in one_process().items():
        os.environ.setdefault(name, value)
    session.shorten("one process is probed, with the variables that `torchrun` sets for it")


def _patch_groups(session: ProbeSession, module: Any) -> None:
    begin = module.init_process_group

    @functools.wraps(begin)
    def init_process_group(backend: Any = None, init_method: Any = None, *args: Any, **kwargs: Any) -> Any:
        reads_variables = init_method in (None, "env://") and not {"store", "rank", "world_size"} & set(kwargs)
        if session.is_root and reads_variables and not args and "RANK" not in os.environ:
            stand_for_a_launcher(session)
        if session.device == "cpu" and backend is not None and "gloo" not in str(backend):
            session.shorten(f"processes communicate over gloo instead of {backend}: the probe runs on the CPU")
            backend = "gloo"
            kwargs.pop("device_id", None)
        return begin(backend, init_method, *args, **kwargs)

    module.init_process_group = init_process_group


SPAWNED_BY = "LINTRAIN_PROBE_SPAWNED_BY"
"""Set while a script spawns its processes: to the process that it is."""

FORKS = "--multiprocessing-fork"
"""Among the words that start a process of `multiprocessing` that runs a function."""


def is_spawned() -> bool:
    """Whether the script's own process started this one as one of its ranks, not to help `multiprocessing`."""
    return os.environ.get(SPAWNED_BY) == str(os.getppid()) and FORKS in _words()


def _words() -> list[str]:
    """The words that started this process."""
    words: list[str] | None = getattr(sys, "orig_argv", None)  # since Python 3.10
    if words is not None:
        return words
    try:
        with open("/proc/self/cmdline", "rb") as opened:
            return os.fsdecode(opened.read()).split("\0")
    except OSError:
        return [FORKS]


def become_root() -> None:
    """A spawned process trains: it is looked at in place of the one that started it."""
    if is_spawned():
        os.environ[ROOT_PROCESS] = str(os.getpid())


def watch_spawned(session: ProbeSession, hooks: AfterImport) -> None:
    """Let spawned processes know what they are."""
    if session.is_root:
        hooks.add("torch.multiprocessing.spawn", functools.partial(_patch, session))


def _patch(session: ProbeSession, module: Any) -> None:
    start, wrap = module.start_processes, module._wrap

    @functools.wraps(start)
    def start_processes(*args: Any, **kwargs: Any) -> Any:
        if session.timeline is not None:
            session.timeline.stop("the script starts its own processes (`torch.multiprocessing`)")
        if session.channel.signer is not None:
            # Each rank starts as a new interpreter and signs its events with a key of its own; without one it would
            # be taken for the script's code.
            session.channel.signer.leave_keys(session.exchange, kwargs.get("nprocs", args[2] if len(args) > 2 else 1))
        os.environ[SPAWNED_BY] = str(os.getpid())
        try:
            return start(*args, **kwargs)
        finally:
            del os.environ[SPAWNED_BY]

    @functools.wraps(wrap)  # by its name the new process finds it again
    def started(function: Any, rank: int, *args: Any) -> None:
        wrap(_reporting(session, function, rank) if is_spawned() else function, rank, *args)

    module.start_processes, module._wrap = start_processes, started


def _reporting(session: ProbeSession, function: Callable[..., Any], rank: int) -> Callable[..., Any]:
    """Torch turns an error into a text and ends the process: here it is reported as an error of the script."""
    session.shorten("only rank 0 of the processes that the script starts is measured")
    session.channel.is_muted = rank != 0

    @functools.wraps(function)
    def trains(*args: Any) -> Any:
        try:
            return function(*args)
        except Exception as error:
            with session.channel.at_once():  # the others will end with an error of their own, because of this one
                session.on_error(error)
            raise

    return trains
