"""Set a pass up that follows the first steps: nothing is measured, the libraries run by themselves."""

from __future__ import annotations

from typing import Any

from lintrain.runtime.child.hooks import AfterImport
from lintrain.runtime.child.probe_session import ProbeSession
from lintrain.runtime.timeline import gathers, lightning, ranks, replicas, rounds, schedules, trainer
from lintrain.runtime.timeline.follower import Follower
from lintrain.runtime.timeline.step_hooks import hook_torch

SAVED_AFTER = 2
"""Steps before a checkpoint; one more follows it."""


def install(session: ProbeSession, hooks: AfterImport, request: dict[str, Any]) -> None:
    """Follow; the interceptors of measurements let everything pass."""
    # Before the interceptors can see a call: `measuring` makes them pass everything through.
    session.measuring = True
    if not session.is_root or ranks.is_launcher(request):
        return
    follower = Follower(session, request["purpose"], request["steps"], request["checkpoint"])
    hook_torch(follower, hooks)
    trainer.install(follower, hooks)
    lightning.install(follower, hooks)
    session.timeline = follower
    if follower.purpose == "ranks":
        ranks.install(follower, hooks)
        replicas.install(follower, hooks)
        schedules.install(follower, hooks)
        rounds.install(follower, hooks, steps=follower.wanted, gathers=gathers.install(follower, hooks))
    if follower.purpose == "save":
        rounds.install(follower, hooks, steps=SAVED_AFTER)
