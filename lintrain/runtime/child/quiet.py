"""Trackers and uploads off; what the libraries write to the user's folders is the business of `files`."""

from __future__ import annotations

import functools
from typing import Any

from lintrain.runtime.child import hub
from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch the writing ends of the libraries as they are imported."""
    hub.install(session, hooks)
    hooks.add("torch.utils.tensorboard.writer", lambda module: _redirect_logs(session, module.SummaryWriter))


def _redirect_logs(session: ProbeSession, writer: Any) -> None:
    """Where TensorFlow is installed, its own code writes the logs, past the guard."""
    build = writer.__init__

    @functools.wraps(build)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        kwargs["log_dir"] = session.folder("tensorboard")
        build(self, *args[1:], **kwargs)

    writer.__init__ = init
