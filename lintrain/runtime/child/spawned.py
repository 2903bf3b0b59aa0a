"""Scripts that start their processes by themselves (`torch.multiprocessing.spawn`): that of rank 0 is measured."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ROOT_PROCESS, ProbeSession

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


def install(session: ProbeSession, hooks: AfterImport) -> None:
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
