"""Start the probe in the script's process: environment, import hooks, and what to say if no training call comes."""

from __future__ import annotations

import atexit
import os
import sys
from types import TracebackType
from typing import Any

from lintrain.probe.child import processes, quick_datasets, quiet
from lintrain.probe.child.channel import Channel
from lintrain.probe.child.hooks import AfterImport
from lintrain.probe.child.lightning import interceptor as lightning
from lintrain.probe.child.loop import interceptor as loop
from lintrain.probe.child.session import Session
from lintrain.probe.child.trainer import interceptor as trainer


def start(request: dict[str, Any]) -> None:
    """Install every interceptor; the script then runs as if started by hand."""
    session = Session(request, Channel(request["events"]))
    hooks = AfterImport(lambda module, error: session.note(f"`{module}` was not intercepted: {error}"))
    session.keeper.install(hooks, is_root=session.is_root)
    quiet.install(session, hooks)
    quick_datasets.install(session, hooks)
    processes.install(session, hooks)
    trainer.install(session, hooks)
    loop.install(session, hooks)
    lightning.install(session, hooks)
    hooks.install()
    if session.is_root:
        _watch_the_end(session)
        session.channel.send("started", pid=os.getpid())


def _watch_the_end(session: Session) -> None:
    previous = sys.excepthook

    def excepthook(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        if session.is_root:
            session.crashed(error)
        previous(kind, error, traceback)

    sys.excepthook = excepthook
    atexit.register(session.left)
