"""Start the probe in the script's process: environment, import hooks, and the report if no training call comes."""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from lintrain.runtime.child import compiling, hub, label_conflicts, processes, quick_datasets, spawned, terminal
from lintrain.runtime.child.channel import EVENTS, Channel
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.child.signing import take_key, take_named_key
from lintrain.runtime.frameworks.keras import keras_patches as keras
from lintrain.runtime.frameworks.lightning import lightning_patches as lightning
from lintrain.runtime.frameworks.loop import torch_hooks as loop
from lintrain.runtime.frameworks.trainer import trainer_patches as trainer
from lintrain.runtime.measure.objects import object_hooks as objects
from lintrain.runtime.sandbox.network.programs import KEYS
from lintrain.runtime.timeline import ranks
from lintrain.runtime.timeline import timeline_setup as timeline


def start(request: dict[str, Any]) -> None:
    """Install every hook; the script then runs as if started by hand."""
    # First of all: which process is measured decides what every interceptor below does.
    ranks.become_root(request["timeline"])
    spawned.become_root()
    session = ProbeSession(request, Channel(os.path.join(request["exchange"], EVENTS)))
    names = os.environ.pop(KEYS, "").split()
    session.channel.signer = take_key(session.exchange) if session.is_root else take_named_key(session.exchange, names)
    # Until training starts; `MeasuredRun` puts the script's thresholds back, since they change the timing of what is
    # measured.
    session.thresholds.raise_them()
    hooks = AfterImport(lambda module, error: session.note(f"`{module}` was not intercepted: {error}"))
    # The network comes before the keeper: one of its own needs files that the kernel then forbids to write.
    session.network.install(hooks, session.new_keys)
    session.keeper.install(hooks, is_root=session.is_root)
    hub.install(session, hooks)
    compiling.install(session, hooks)
    terminal.install()
    if session.reproducer is not None:
        session.reproducer.install(hooks)
    quick_datasets.install(session, hooks)
    label_conflicts.install(session, hooks)
    processes.install(session, hooks)
    spawned.install(session, hooks)
    objects.install(session, hooks)
    trainer.install(session, hooks)
    loop.install(session, hooks)
    keras.install(session, hooks)
    lightning.install(session, hooks)
    if request["timeline"] is not None:
        timeline.install(session, hooks, request["timeline"])
    is_launcher = ranks.is_launcher(request["timeline"])
    # Last: from here on imports run the hooks, and every interceptor has to be registered.
    hooks.install()
    if session.is_root and not is_launcher:
        _watch_the_end(session)
        if not spawned.is_spawned():
            session.channel.send("started", pid=os.getpid())


def _watch_the_end(session: ProbeSession) -> None:
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if session.is_root:
            session.on_error(error)
        previous(kind, error, traceback)

    sys.excepthook = excepthook
    # Exit handlers run in reverse order: registered first, this one runs after all of the script's own.
    atexit.register(session.on_exit)
    _watch_hard_ends(session)


def _watch_hard_ends(session: ProbeSession) -> None:
    """`os._exit` and `exec` run no exit hook; threads that continue keep a script running after its last line."""
    end: Any = os._exit

    @functools.wraps(end)
    def ends(status: int) -> None:
        if session.is_root and session.has_begun:
            session.on_exit()
        end(status)

    def main_ends() -> None:
        if session.is_root and session.has_gone_through and not session.has_ended:
            session.on_exit()
            session.finish()

    os._exit = ends  # type: ignore[assignment]
    for name in ("execv", "execve"):
        # A script that restarts itself (`os.execv`) ends without exit handlers, and the next program has the same
        # pid.
        setattr(os, name, _saying_so(session, getattr(os, name)))
    register = getattr(threading, "_register_atexit", None)  # called before threads are waited for; since Python 3.9
    if register is not None:
        register(main_ends)


def _saying_so(session: ProbeSession, execute: Callable[..., Any]) -> Callable[..., Any]:
    """A function that puts another program in place of this one: what was measured until then is sent.

    Where nothing was, that program may be the script once more: it gets a key to send with.
    """

    @functools.wraps(execute)
    def becomes(*args: Any) -> Any:
        if session.is_root and session.has_begun:
            session.on_exit()
        elif session.is_root and session.channel.signer is not None:
            session.channel.signer.leave_keys(session.exchange, 1)
        return execute(*args)

    return becomes
