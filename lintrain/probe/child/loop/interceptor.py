"""Intercept loops of the script's own: plain torch, accelerate, Fabric."""

from __future__ import annotations

from lintrain.probe.child.hooks import AfterImport
from lintrain.probe.child.loop.metrics import tap_metrics
from lintrain.probe.child.loop.taps import tap
from lintrain.probe.child.loop.watch import Watch
from lintrain.probe.child.session import Session


def install(session: Session, hooks: AfterImport) -> None:
    """Watch torch and metrics from their imports on; the session asks the watch what an end of the script means."""
    session.watch = Watch(session)
    tap(session.watch, hooks)
    tap_metrics(session.watch.metrics, hooks)
