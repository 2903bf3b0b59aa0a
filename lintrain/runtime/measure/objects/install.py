"""Watch the objects that a script makes beside its training."""

from __future__ import annotations

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.session import Session
from lintrain.runtime.measure.objects import chats, learners, loaders, models, stops


def install(session: Session, hooks: AfterImport) -> None:
    """Patch the makers of the libraries as they are imported, in the script's own process only."""
    if not session.is_root:
        return
    chats.install(session, hooks)
    learners.install(session, hooks)
    loaders.install(session, hooks)
    models.install(session, hooks)
    stops.install(session, hooks)
