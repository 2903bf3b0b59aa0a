"""Watch the objects that a script creates besides its training."""

from __future__ import annotations

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.measure.objects import chats, learners, loaders, models, stops


def install(session: ProbeSession, hooks: AfterImport) -> None:
    """Patch the makers of the libraries as they are imported, in the script's own process only."""
    if not session.is_root:
        return
    chats.install(session, hooks)
    learners.install(session, hooks)
    loaders.install(session, hooks)
    models.install(session, hooks)
    stops.install(session, hooks)
