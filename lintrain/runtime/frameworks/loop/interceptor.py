"""Intercept loops of the script's own: plain torch, accelerate, Fabric."""

from __future__ import annotations

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.frameworks.loop.metrics import hook_metrics
from lintrain.runtime.frameworks.loop.torch_hooks import hook_torch
from lintrain.runtime.frameworks.loop.watch import Watch


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Watch torch and metrics from their imports on; the session asks the watch what an end of the script means."""
    session.watch = Watch(session)
    hook_torch(session.watch, hooks)
    hook_metrics(session.watch.metrics, hooks)
