"""Intercept loops of the script's own: plain torch, accelerate, Fabric."""

from __future__ import annotations

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.session import Session
from lintrain.runtime.frameworks.loop.metrics import tap_metrics
from lintrain.runtime.frameworks.loop.taps import tap
from lintrain.runtime.frameworks.loop.watch import Watch


def install(session: Session, hooks: AfterImport) -> None:
    """Watch torch and metrics from their imports on; the session asks the watch what an end of the script means."""
    session.watch = Watch(session)
    tap(session.watch, hooks)
    tap_metrics(session.watch.metrics, hooks)
